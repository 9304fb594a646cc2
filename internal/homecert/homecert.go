// Package homecert is how a certificate names a home: by the URI edgeward://home/<id>
// among its alternative names. The cluster issues such certificates, and homes that help
// each other know each other by them.
package homecert

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
)

const (
	scheme = "edgeward"
	host   = "home"
)

// URI is the name of a home in its certificate.
func URI(home string) *url.URL { return &url.URL{Scheme: scheme, Host: host, Path: "/" + home} }

// Home returns whose certificate it is, if valid takes the name. It is an error if it
// names no home, or several: two names would be two rights.
func Home(cert *x509.Certificate, valid func(name string) bool) (string, error) {
	home := ""
	for _, u := range cert.URIs {
		if u.Scheme != scheme || u.Host != host {
			continue
		}
		id := u.Path
		if len(id) < 2 || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !valid(id[1:]) {
			return "", fmt.Errorf("the certificate's name %.100q is no home's", u.String())
		}
		if home != "" {
			return "", errors.New("the certificate is that of several homes")
		}
		home = id[1:]
	}
	if home == "" {
		return "", errors.New("the certificate is no home's: it needs the URI edgeward://home/<id>")
	}
	return home, nil
}
