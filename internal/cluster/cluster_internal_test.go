package cluster

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"
)

func TestCode(t *testing.T) {
	c := newCode([]byte("authority"))
	text := c.String()
	if len(text) != 39 || strings.Count(text, "-") != 7 {
		t.Errorf("code %q", text)
	}
	for _, typed := range []string{
		text, strings.ToLower(text), strings.ReplaceAll(text, "-", ""), strings.ReplaceAll(text, "-", " "), " " + text + "\n",
		strings.ReplaceAll(text, "0", "o"), strings.ReplaceAll(text, "1", "l"), strings.ReplaceAll(text, "1", "I"),
	} {
		if got, err := parseCode(typed); err != nil || got != c {
			t.Errorf("%q: %v", typed, err)
		}
	}
	if newCode([]byte("authority")) == c {
		t.Error("the same code twice")
	}
	for _, bad := range []string{"", "0000-0000-0000-0000", text + "0", text[:38] + "U", text[:38] + "é", strings.Repeat("0", 1000)} {
		if _, err := parseCode(bad); !errors.Is(err, errCode) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzCode(f *testing.F) {
	f.Add(newCode(nil).String())
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseCode(text); err == nil {
			if again, err := parseCode(c.String()); err != nil || again != c {
				t.Errorf("%q becomes %q", text, c)
			}
		}
	})
}

func voter(id uint64) *membership.Member { return &membership.Member{ID: types.ID(id)} }

// TestOthersWell: who is defragmented answers nothing, so the others must.
func TestOthersWell(t *testing.T) {
	learner := voter(4)
	learner.IsLearner = true
	all := []*membership.Member{voter(1), voter(2), voter(3), learner}
	for name, tc := range map[string]struct {
		members []*membership.Member
		said    map[uint64]report
		leader  uint64
		ok      bool
	}{
		"all well":             {all, map[uint64]report{1: {}, 2: {Applied: 4900}, 3: {Applied: 4990}}, 3, true},
		"one has not reported": {all, map[uint64]report{2: {Applied: 5000}}, 0, false},
		"one is behind":        {all, map[uint64]report{2: {Applied: 5000}, 3: {Applied: 3999}}, 0, false},
		"alone":                {all[:1], nil, 0, true},
	} {
		leader, ok := othersWell(1, 5000, tc.members, tc.said)
		if leader != tc.leader || ok != tc.ok {
			t.Errorf("%s: %d, %v, want %d, %v", name, leader, ok, tc.leader, tc.ok)
		}
	}
}

// TestFatal: where etcd would end the process, only a goroutine ends.
func TestFatal(t *testing.T) {
	for name, end := range map[string]func(*zap.Logger){
		"fatal": func(l *zap.Logger) { l.Fatal("no space", zap.Error(errors.New("disk full"))) },
		"panic": func(l *zap.Logger) { l.Panic("no space", zap.Error(errors.New("disk full"))) },
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			done := make(chan struct{})
			after := false
			go func() {
				defer close(done)
				end(newLogger(slog.New(slog.DiscardHandler), func(message string) { said = message }))
				after = true
			}()
			<-done
			if after || said != "no space: disk full" {
				t.Errorf("it went on: %v, and said %q", after, said)
			}
		})
	}
}

func TestLog(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(slog.New(slog.NewTextHandler(&b, nil)), func(string) {})
	log.Info("for developers")
	log.Warn("simple token is not cryptographically signed")
	for range 3 {
		log.With(zap.String("a", "b")).Warn("lost a peer", zap.Int("n", 1), zap.Error(errors.New("why")))
	}
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "a=b") || !strings.Contains(got, "error=why") {
		t.Errorf("logged:\n%s", got)
	}
}

// TestRenewCert: in the last third of its time, and with the same key.
func TestRenewCert(t *testing.T) {
	f, now := files(t.TempDir()), time.Now()
	a, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := a.issue("nuc", key.Public(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.keep(a, der, key, &identity{Name: "nuc", Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		after   time.Duration
		renewed bool
	}{{0, false}, {400 * 24 * time.Hour, false}, {500 * 24 * time.Hour, true}, {501 * 24 * time.Hour, false}} {
		if renewed, err := f.renewCert("nuc", now.Add(tc.after)); err != nil || renewed != tc.renewed {
			t.Errorf("after %v: %v, %v", tc.after, renewed, err)
		}
	}
	text, err := os.ReadFile(f.path(memberFile))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := parseCert(text)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		t.Fatalf("another key: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		o := x509.VerifyOptions{Roots: roots, DNSName: serverName, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: now.Add(1000 * 24 * time.Hour)}
		if _, err := cert.Verify(o); err != nil {
			t.Error(err)
		}
	}
	other, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := encodeKey(other.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseAuthority(encode(pemCert, a.cert.Raw), foreign); err == nil {
		t.Error("a key of another authority is accepted")
	}
}

// TestIdentityDamaged: who this machine is must not be taken for nobody.
func TestIdentityDamaged(t *testing.T) {
	f := files(t.TempDir())
	if id, err := f.identity(); id != nil || err != nil {
		t.Errorf("nobody: %v, %v", id, err)
	}
	for _, bad := range []string{"", "{", "{}", `{"name":"nuc"}`} {
		if err := os.WriteFile(f.path(identityFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.identity(); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	n, err := New(Config{Name: "nuc", Dir: dir, Listen: ":7380", Advertise: "nuc:7380", Snapshots: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, snapshotFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"20260101T000000.000Z.db", "20260103T000000.000Z.db", "20260102T000000.000Z.db", "mine.db", ".new-1"} {
		if err := os.WriteFile(filepath.Join(dir, snapshotFolder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.prune(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(n.snapshots()); got != "[20260102T000000.000Z.db 20260103T000000.000Z.db]" {
		t.Errorf("kept %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, snapshotFolder, "mine.db")); err != nil {
		t.Error("what is not a copy of ours is gone:", err)
	}
	if at := n.lastSnapshot(); !at.Equal(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the last one is of %v", at)
	}
}

// TestGuard: a member that ends takes nobody along.
func TestGuard(t *testing.T) {
	g := &guard{log: slog.New(slog.DiscardHandler)}
	if err := g.do(func() error { panic("nil pointer") }); !errors.Is(err, ErrNotReady) {
		t.Errorf("a panic: %v", err)
	}
	if n, err := ask(g, func() (int, error) { return 5, nil }); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	g.close()
	called := false
	if err := g.do(func() error { called = true; return nil }); !errors.Is(err, ErrNotReady) || called {
		t.Errorf("closed: %v, called %v", err, called)
	}
}
