package fallback_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/freeport"
	"github.com/edgeward/edgeward/internal/homecert"
)

// rig is two homes on this machine, whose items are files: an item runs while its file
// is there.
type rig struct {
	dir     string
	ports   map[string]int // of the peers, by home
	witness []net.Listener
	*authority
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), ports: map[string]int{}}
	r.authority = newAuthority(t, filepath.Join(r.dir, "ca.pem"))
	for _, id := range []string{"attic", "cellar"} {
		r.issue(t, id, filepath.Join(r.dir, id))
		for _, name := range []string{"items", "data"} {
			if err := os.MkdirAll(filepath.Join(r.dir, id, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r.ports[id] = freeport.Get(t)
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		ln, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go accept(ln)
		r.witness = append(r.witness, ln)
	}
	return r
}

// accept takes connections and closes them.
func accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

// file is where an item's file is at a home.
func (r *rig) file(home, item string) string { return filepath.Join(r.dir, home, "items", item) }

// runs reports whether an item runs at a home.
func (r *rig) runs(home, item string) bool {
	_, err := os.Stat(r.file(home, item))
	return err == nil
}

// item is the commands of an item, the same at all homes: HOME says where they run.
func (r *rig) item(name, more string) string {
	sh := func(script string) string {
		return fmt.Sprintf("/bin/sh -c %q", strings.ReplaceAll(script, "FILE", "$HOME/items/"+name))
	}
	return fmt.Sprintf(`
				command %s {
					start %s
					stop %s
					look %s
					stop_within 2s
					ready 20s
					%s
				}`, name, sh("echo $$ >> FILE"), sh("rm -f FILE"), sh("test -e FILE || exit 3"), more)
}

// settings go into the config of a rig: app before the homes, attic and cellar into
// these, and db into attic's item of that name.
type settings struct{ app, attic, cellar, db string }

// inside is the inside of an edge_fallback block, at a pace that suits tests.
func (r *rig) inside(s settings) string {
	return fmt.Sprintf(`
		id {env.EDGE_TEST_HOME}
		state_dir %[1]s/{env.EDGE_TEST_HOME}/state
		single
		peer {
			listen 127.0.0.1:{env.EDGE_TEST_PORT}
			cert %[1]s/{env.EDGE_TEST_HOME}/cert.pem
			key %[1]s/{env.EDGE_TEST_HOME}/key.pem
			ca %[1]s/ca.pem
		}
		witness tcp %[2]s %[3]s
		interval 300ms
		down 3
		strikes 2
		stagger 100ms
		grace 1s
		retry 200ms 1s
		pause 1s
		lease ttl 30s fence 10s settle 1s
		%[4]s
		home attic {
			peer 127.0.0.1:%[5]d
			covered_by cellar
			%[6]s
			tier 1 {%[7]s%[8]s
			}
		}
		home cellar {
			peer 127.0.0.1:%[9]d
			%[10]s
			tier 1 {%[11]s
			}
		}`, r.dir, r.witness[0].Addr(), r.witness[1].Addr(), s.app, r.ports["attic"], s.attic, r.item("db", s.db), r.item("web", "after db"),
		r.ports["cellar"], s.cellar, r.item("git", ""))
}

func (r *rig) caddyfile(s settings) string { return global(r.inside(s)) }

// at makes this process a home.
func (r *rig) at(t *testing.T, home string) {
	t.Helper()
	for name, value := range r.env(home) {
		t.Setenv(name, value)
	}
}

func (r *rig) env(home string) map[string]string {
	return map[string]string{
		"HOME": filepath.Join(r.dir, home), "EDGE_TEST_HOME": home, "EDGE_TEST_PORT": fmt.Sprint(r.ports[home]),
	}
}

// global wraps the inside of an edge_fallback block with what all tests need.
func global(inside string) string {
	return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n\tedge_fallback {\n" + inside + "\n\t}\n}\n"
}

// nothing is a config without the app.
func nothing() string { return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n}\n" }

// authority signs the certificates of homes.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, file, "CERTIFICATE", der)
	return a
}

// issue makes the certificate of a home in dir.
func (a *authority) issue(t *testing.T, home, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{homecert.URI(home)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", private)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
