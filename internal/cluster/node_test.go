package cluster_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/cluster"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // they wait for timers more than for processors
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks waits for what etcd's connections take to end.
func leaks() int {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		// Of a broken member something stays behind: see TestBroken.
		err = goleak.Find(
			goleak.IgnoreAnyFunction("go.etcd.io/etcd/server/v3/storage.OpenBackend"),
			goleak.IgnoreAnyFunction("github.com/edgeward/edgeward/internal/cluster.abandon"),
			goleak.IgnoreAnyFunction("go.etcd.io/etcd/client/pkg/v3/transport.(*tlsListener).acceptLoop"),
		)
		if err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "goroutines outlive their member:", err)
	return 1
}

// host is a loopback address that is this process's own.
var host = fmt.Sprintf("127.%d.%d.3", 1+os.Getpid()>>8%250, os.Getpid()&255)

var lastPort atomic.Int32

// freePort returns an address that nobody has had before, outside of the ephemeral ones.
func freePort() string { return net.JoinHostPort(host, fmt.Sprint(20000+2*lastPort.Add(1))) }

// patience is how long something may take on a busy machine.
const patience = 30 * time.Second

func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %s: %v", patience, what, err)
}

// rig is a member under test, with short times.
type rig struct {
	*cluster.Node
	config cluster.Config
	log    *logs
}

type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func config(t testing.TB, name string) cluster.Config {
	listen := freePort()
	return cluster.Config{
		Name: name, Dir: filepath.Join(t.TempDir(), name), Listen: listen, Advertise: listen,
		Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond, Lead: name == "vps",
	}
}

// start runs a member until the test is over.
func start(t testing.TB, c cluster.Config) *rig {
	t.Helper()
	r := &rig{config: c, log: new(logs)}
	r.config.Log = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.Node, err = cluster.New(r.config); err != nil {
		t.Fatal(err)
	}
	r.Start()
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", c.Name, r.log)
		}
	})
	return r
}

func (r *rig) is(want cluster.State) func() error {
	return func() error {
		if s := r.Status(); s.State != want || want == cluster.StateRunning && !s.Quorum {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}
}

func first(t testing.TB, name string) *rig {
	t.Helper()
	r := start(t, config(t, name))
	if err := r.Init(); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" runs", r.is(cluster.StateRunning))
	return r
}

// join has another machine join, by a code of r, and waits until it votes.
func (r *rig) join(t testing.TB, name, replace string) *rig {
	t.Helper()
	next := start(t, config(t, name))
	inv := r.code(t, replace)
	if err := next.Join(t.Context(), inv.Address, inv.Code); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" votes", func() error {
		if s := next.Status(); s.State != cluster.StateRunning || s.Learner || !s.Quorum {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return next
}

// code asks for one until the cluster can give it.
func (r *rig) code(t testing.TB, replace string) (inv cluster.Invitation) {
	t.Helper()
	eventually(t, "a code", func() (err error) {
		inv, err = r.Code(t.Context(), replace)
		return err
	})
	return inv
}

func (r *rig) client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// puts is whether the cluster takes a write.
// has reads, which fails for a moment when another member begins to lead.
func (r *rig) has(key string) func() error {
	return func() error {
		c, err := r.Client()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		got, err := c.Get(ctx, key)
		if err == nil && got.Count != 1 {
			err = fmt.Errorf("%d values", got.Count)
		}
		return err
	}
}

func (r *rig) puts(key string) func() error {
	return func() error {
		c, err := r.Client()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = c.Put(ctx, key, "x")
		return err
	}
}

func TestAloneAndAgain(t *testing.T) {
	t.Parallel()
	c := config(t, "nuc")
	r := start(t, c)
	if _, err := r.Client(); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("a client of nothing: %v", err)
	}
	eventually(t, "it is in no cluster", r.is(cluster.StateNone))
	if _, err := r.TLS(); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("certificates of nothing: %v", err)
	}
	if err := r.Init(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", r.is(cluster.StateRunning))
	eventually(t, "a write", r.puts("a"))
	wantHome(t, r, "nuc")
	if err := r.Init(); !errors.Is(err, cluster.ErrMember) {
		t.Errorf("twice: %v", err)
	}
	r.Stop()
	if s := r.Status(); s.State != cluster.StateStopped {
		t.Errorf("stopped: %+v", s)
	}
	// Another one in the same process, with the same data.
	again := start(t, c)
	eventually(t, "it runs again", again.is(cluster.StateRunning))
	eventually(t, "what was written is there", again.has("a"))
	for _, name := range []string{"authority.key", "member.key", "member.json"} {
		info, err := os.Stat(filepath.Join(c.Dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if strings.Contains(again.log.String(), "level=ERROR") {
		t.Errorf("it complains:\n%s", again.log)
	}
}

// wantHome looks whether the member's certificate names it as a home, and whether it
// believes its own.
func wantHome(t *testing.T, r *rig, home string) {
	t.Helper()
	c, err := r.TLS()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].String() != "edgeward://home/"+home {
		t.Errorf("the certificate names %v", cert.URIs)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: c.RootCAs, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Error(err)
		}
	}
}

var prefix = clientv3.WithPrefix()

// TestBroken: the data on disk is damaged. The process goes on, and says what is wrong.
func TestBroken(t *testing.T) {
	t.Parallel()
	c := config(t, "nuc")
	r := start(t, c)
	if err := r.Init(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", r.is(cluster.StateRunning))
	r.Stop()
	db := filepath.Join(c.Dir, "etcd", "member", "snap", "db")
	if err := os.WriteFile(db, bytes.Repeat([]byte("rubbish "), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, c)
	eventually(t, "it says so", func() error {
		if s := again.Status(); s.State != cluster.StateBroken || !strings.Contains(s.Error, "invalid database") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if _, err := again.Client(); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("a client: %v", err)
	}
}
