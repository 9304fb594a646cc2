package homecert_test

import (
	"crypto/x509"
	"net/url"
	"testing"

	"github.com/edgeward/edgeward/internal/homecert"
)

func TestHome(t *testing.T) {
	short := func(name string) bool { return len(name) < 10 }
	for _, c := range []struct {
		uris []string
		want string // empty: refused
	}{
		{[]string{homecert.URI("attic").String()}, "attic"},
		{[]string{"spiffe://other/x", "edgeward://home/attic", "https://example.com/"}, "attic"},
		{nil, ""},
		{[]string{"edgeward://house/attic"}, ""},
		{[]string{"edgeward://home/attic", "edgeward://home/cellar"}, ""},
		{[]string{"edgeward://home/attic", "edgeward://home/attic"}, ""},
		{[]string{"edgeward://home/"}, ""},
		{[]string{"edgeward://home/attic?x=1"}, ""},
		{[]string{"edgeward://home/attic#x"}, ""},
		{[]string{"edgeward://me@home/attic"}, ""},
		{[]string{"edgeward://home/a-name-that-is-not-valid"}, ""},
	} {
		cert := new(x509.Certificate)
		for _, text := range c.uris {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		if got, err := homecert.Home(cert, short); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q: %q, %v, want %q", c.uris, got, err, c.want)
		}
	}
}
