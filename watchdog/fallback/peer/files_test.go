package peer_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

// TestFiles: changed files are read again; what can't be used changes nothing.
func TestFiles(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	clock := time.Now().Add(-time.Hour)
	write := func(name, kind string, der []byte) {
		t.Helper()
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(dir+"/"+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Second) // each change is one that can be seen
		if err := os.Chtimes(dir+"/"+name, clock, clock); err != nil {
			t.Fatal(err)
		}
	}
	source := peer.Files(dir+"/cert.pem", dir+"/key.pem", dir+"/ca.pem", nil)
	if _, err := source(); err == nil {
		t.Error("files that are not there were read")
	}
	put := func(c tls.Certificate) []byte {
		write("cert.pem", "CERTIFICATE", c.Certificate[0])
		return must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
	}
	current := func() []byte {
		t.Helper()
		c, err := source()
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificates[0].Certificate[0]
	}
	first, second := ca.sign(t, "edgeward://home/a"), ca.sign(t, "edgeward://home/a")
	write("ca.pem", "CERTIFICATE", ca.cert.Raw)
	write("key.pem", "PRIVATE KEY", put(first))
	if !bytes.Equal(current(), first.Certificate[0]) {
		t.Error("not the first certificate")
	}
	key := put(second) // its key is still to come
	if !bytes.Equal(current(), first.Certificate[0]) {
		t.Error("half of the second pair replaced the first")
	}
	write("key.pem", "PRIVATE KEY", key)
	if !bytes.Equal(current(), second.Certificate[0]) {
		t.Error("not the second certificate")
	}
	if err := os.Remove(dir + "/ca.pem"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(current(), second.Certificate[0]) {
		t.Error("a file that is gone took the certificate with it")
	}
}
