package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

// chain makes a leaf, an authority between, and a root that is valid for so long.
func chain(t *testing.T, leaf, middle, root time.Duration) (shown []*x509.Certificate, roots *x509.CertPool) {
	t.Helper()
	var parent *x509.Certificate
	var by *ecdsa.PrivateKey
	for i, lasts := range []time.Duration{root, middle, leaf} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: []string{"root", "middle", "leaf"}[i]},
			NotBefore: epoch.Add(-time.Hour), NotAfter: epoch.Add(lasts),
			IsCA: i < 2, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if i == 2 {
			template.DNSNames, template.KeyUsage = []string{"a.example.com", "b.example.com"}, x509.KeyUsageDigitalSignature
		}
		if parent == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		parent, err = x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		by = key
		shown = append([]*x509.Certificate{parent}, shown...)
	}
	roots = x509.NewCertPool()
	roots.AddCert(shown[2])
	return shown[:2], roots
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name               string
		leaf, middle, root time.Duration
		who                string
	}{
		{"leaf", time.Hour, 2 * time.Hour, 3 * time.Hour, "certificate expired"},
		{"middle", 3 * time.Hour, time.Hour, 2 * time.Hour, "certificate of the authority CN=middle expired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := verdicts{all: make(map[chainKey]verdict)}
			shown, roots := chain(t, tc.leaf, tc.middle, tc.root)
			verify := func(name string, roots *x509.CertPool, at time.Duration, want string) {
				t.Helper()
				c, err := v.verify(shown, name, roots, epoch.Add(at))
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("at %s: %v, want %q", at, err, want)
				}
				if c.Verified != (err == nil) || c.Subject != "CN=leaf" {
					t.Errorf("at %s: %+v", at, c)
				}
			}
			verify("a.example.com", roots, 0, "")
			verify("a.example.com", roots, time.Hour, "")
			verify("a.example.com", roots, time.Hour+time.Second, tc.who)
			verify("a.example.com", roots, -2*time.Hour, "not valid before")
			verify("c.example.com", roots, 0, "not for c.example.com")
			verify("a.example.com", x509.NewCertPool(), 0, "unknown authority")
			if len(v.all) != 1 {
				t.Errorf("%d verdicts, want one: a refusal is not remembered", len(v.all))
			}
			verify("b.example.com", roots, 0, "")
			if len(v.all) != 2 {
				t.Errorf("%d verdicts, want two: a name is not good for another", len(v.all))
			}
			shown = shown[:1]
			verify("a.example.com", roots, 0, "unknown authority") // without the one between
		})
	}
}

// TestVerdictsSaveWork: what was verified is not verified again; a verdict that
// lies is believed.
func TestVerdictsSaveWork(t *testing.T) {
	v := verdicts{all: make(map[chainKey]verdict)}
	shown, roots := chain(t, time.Hour, time.Hour, time.Hour)
	v.put(chainKey{roots, "lie.example.com", digest(shown)}, verdict{Certificate{Subject: "lie"}, epoch, epoch.Add(time.Hour), nil})
	if c, err := v.verify(shown, "lie.example.com", roots, epoch); err != nil || c.Subject != "lie" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestVerdictsAreBounded(t *testing.T) {
	v := verdicts{all: make(map[chainKey]verdict)}
	for i := range 2 * maxVerdicts {
		v.put(chainKey{name: strings.Repeat("a", i)}, verdict{})
	}
	if len(v.all) != maxVerdicts {
		t.Errorf("%d verdicts", len(v.all))
	}
	if _, ok := v.get(chainKey{name: strings.Repeat("a", 2*maxVerdicts-1)}); !ok {
		t.Error("the newest is not there")
	}
}

func TestNoCertificate(t *testing.T) {
	if _, err := known.verify(nil, "a.example.com", nil, epoch); err == nil {
		t.Error("no certificate is good")
	}
}
