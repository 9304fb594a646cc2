package etcdstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edgeward/edgeward/internal/cluster"
	"github.com/edgeward/edgeward/watchdog/lease"
	"github.com/edgeward/edgeward/watchdog/lease/etcdstore"
	"github.com/edgeward/edgeward/watchdog/lease/leasetest"
)

// host is a loopback address that is this process's own.
var host = fmt.Sprintf("127.%d.%d.5", 1+os.Getpid()>>8%250, os.Getpid()&255)

var lastPort atomic.Int32

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

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // they wait for timers more than for processors
	os.Exit(m.Run())
}

// node is a member of its own cluster.
func node(t *testing.T) *cluster.Node {
	t.Helper()
	at := freePort()
	n, err := cluster.New(cluster.Config{
		Name: "nuc", Dir: filepath.Join(t.TempDir(), "nuc"), Listen: at, Advertise: at,
		Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(n.Stop)
	if err := n.Init(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() error {
		if s := n.Status(); s.State != cluster.StateRunning || !s.Quorum {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return n
}

func TestStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, etcdstore.New(node(t).Client), 2*time.Second)
}

func TestWithoutACluster(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	s := etcdstore.New(func() (*clientv3.Client, error) { return nil, away })
	ctx, g := t.Context(), lease.Grant{Key: "k", ID: 1}
	_, acquire := s.Acquire(ctx, "k", "a", time.Minute)
	_, read := s.Read(ctx, "k")
	_, write := s.Write(ctx, g, nil, 0)
	for name, err := range map[string]error{"acquire": acquire, "read": read, "write": write, "renew": s.Renew(ctx, g), "release": s.Release(ctx, g)} {
		if !errors.Is(err, away) {
			t.Errorf("%s: %v", name, err)
		}
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	calls := 0
	if err := s.Watch(limit, []string{"k"}, func() { calls++ }); !errors.Is(err, context.DeadlineExceeded) || calls == 0 {
		t.Errorf("watch: %v, called %d times", err, calls)
	}
}

// TestForeign: what somebody else has written there is not taken for nobody.
func TestForeign(t *testing.T) {
	t.Parallel()
	n := node(t)
	s := etcdstore.New(n.Client)
	c, err := n.Client()
	if err != nil {
		t.Fatal(err)
	}
	for i, bad := range []string{"", "{", `{"holder":""}`, "[]"} {
		key := fmt.Sprint("k", i)
		if _, err := c.Put(t.Context(), etcdstore.DefaultPrefix+"holder/"+key, bad); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(t.Context(), key, "a", time.Minute); err == nil || !strings.Contains(err.Error(), "in etcd") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
