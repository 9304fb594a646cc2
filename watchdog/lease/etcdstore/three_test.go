package etcdstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/edgeward/edgeward/watchdog/lease"
	"github.com/edgeward/edgeward/watchdog/lease/etcdstore"
)

// member is one of three real members, and a keeper of the home that it is at.
type member struct {
	name   string
	config *embed.Config
	etcd   *embed.Etcd
	client *clientv3.Client
	keeper *lease.Keeper
}

// cluster of three.
type three struct {
	members []*member
	stop    chan struct{}
	watch   sync.WaitGroup
	mu      sync.Mutex
	most    int // homes that believed that they held the key at one time
	looks   int
}

// rules are short, and leave a third of the time to a holder that is cut off.
var rules = lease.Rules{TTL: 4 * time.Second, Fence: 1500 * time.Millisecond}

// start makes a cluster. way gives the address at which others reach a member.
func start(t *testing.T, heartbeat, election time.Duration, r lease.Rules, way func(listen string) string) *three {
	t.Helper()
	c := &three{stop: make(chan struct{})}
	var initial []string
	for i := range 3 {
		m := &member{name: string(rune('a' + i)), config: embed.NewConfig()}
		listen := freePort()
		advertise := way(listen)
		m.config.Name, m.config.Dir = m.name, filepath.Join(t.TempDir(), m.name)
		m.config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: listen}}
		m.config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: advertise}}
		m.config.ListenClientUrls, m.config.AdvertiseClientUrls = nil, nil
		m.config.TickMs, m.config.ElectionMs = uint(heartbeat.Milliseconds()), uint(election.Milliseconds())
		m.config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		initial = append(initial, m.name+"=http://"+advertise)
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.config.InitialCluster = strings.Join(initial, ",")
		c.open(t, m)
		var err error
		m.keeper, err = lease.NewKeeper(lease.KeeperConfig{
			Store: etcdstore.New(func() (*clientv3.Client, error) { return m.client, nil }), Key: "k", Holder: m.name, Rules: r,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.watch.Go(c.look)
	t.Cleanup(func() {
		close(c.stop)
		c.watch.Wait()
		for _, m := range c.members {
			m.keeper.Close()
			c.close(m)
		}
		if c.most > 1 {
			t.Errorf("%d homes believed at one time that they held the key", c.most)
		}
		t.Logf("looked %d times", c.looks)
	})
	for _, m := range c.members {
		eventually(t, m.name+" is ready", func() error {
			select {
			case <-m.etcd.Server.ReadyNotify():
				return nil
			default:
				return fmt.Errorf("leader %v", m.etcd.Server.Leader())
			}
		})
	}
	return c
}

func (c *three) open(t *testing.T, m *member) {
	t.Helper()
	var err error
	if m.etcd, err = embed.StartEtcd(m.config); err != nil {
		t.Fatal(err)
	}
	m.client = v3client.New(m.etcd.Server)
}

func (c *three) close(m *member) {
	if m.etcd != nil {
		m.etcd.Close()
		m.etcd = nil
	}
}

// look counts in true time, all the time.
func (c *three) look() {
	for {
		held := 0
		for _, m := range c.members {
			if m.keeper.Now().State != lease.Free {
				held++
			}
		}
		c.mu.Lock()
		c.most, c.looks = max(c.most, held), c.looks+1
		c.mu.Unlock()
		select {
		case <-c.stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// cut ends, or begins again, what a member hears of the others and they of it.
func (c *three) cut(m *member, cut bool) {
	for _, other := range c.members {
		if other == m || other.etcd == nil {
			continue
		}
		for _, pair := range [][2]*member{{m, other}, {other, m}} {
			id := pair[1].etcd.Server.MemberID()
			if cut {
				pair[0].etcd.Server.CutPeer(id)
			} else {
				pair[0].etcd.Server.MendPeer(id)
			}
		}
	}
}

func (c *three) leader() *member {
	for _, m := range c.members {
		if m.etcd != nil && m.etcd.Server.Leader() == m.etcd.Server.MemberID() && m.etcd.Server.Leader() != types.ID(0) {
			return m
		}
	}
	return nil
}

// acquires waits until one of them has it.
func acquires(t *testing.T, members ...*member) (winner *member) {
	t.Helper()
	eventually(t, "one of them has it", func() (err error) {
		for _, m := range members {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err = m.keeper.Acquire(ctx)
			cancel()
			if err == nil {
				winner = m
				return nil
			}
		}
		return err
	})
	return winner
}

func (c *three) others(of *member) (list []*member) {
	for _, m := range c.members {
		if m != of {
			list = append(list, m)
		}
	}
	return list
}

func direct(listen string) string { return listen }

// TestCutOff: a holder whose member is cut off loses the lease before another one has
// it, also when its member leads and does not know yet that it does not.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := start(t, 50*time.Millisecond, 500*time.Millisecond, rules, direct)
	for _, leads := range []bool{true, false} {
		eventually(t, "a leader", func() error {
			if c.leader() == nil {
				return fmt.Errorf("none")
			}
			return nil
		})
		who := c.leader()
		if !leads {
			who = c.others(who)[0]
		}
		holder := acquires(t, who)
		began := time.Now()
		c.cut(holder, true)
		next := acquires(t, c.others(holder)...)
		if s := holder.keeper.Now().State; s != lease.Free {
			t.Errorf("%s has it, and %s is %s", next.name, holder.name, s)
		}
		t.Logf("cut off, leading %v: another home has it after %v", leads, time.Since(began).Round(time.Millisecond))
		c.cut(holder, false)
		if err := next.keeper.Release(t.Context()); err != nil {
			t.Error(err)
		}
		eventually(t, "it sees the others again", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := holder.client.Get(ctx, "x")
			return err
		})
	}
}

// TestAnyOneIsLost: the holder goes on, whichever of the others is lost, and comes back.
func TestAnyOneIsLost(t *testing.T) {
	t.Parallel()
	c := start(t, 50*time.Millisecond, 500*time.Millisecond, lease.Rules{TTL: 30 * time.Second}, direct)
	holder := acquires(t, c.members[0])
	epoch := holder.keeper.Now().Grant.Epoch
	for _, lost := range c.others(holder) {
		c.close(lost)
		eventually(t, "it renews without "+lost.name, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return etcdstore.New(func() (*clientv3.Client, error) { return holder.client, nil }).Renew(ctx, holder.keeper.Now().Grant)
		})
		lost.config.ClusterState = embed.ClusterStateFlagExisting
		c.open(t, lost)
		eventually(t, lost.name+" is back", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := lost.client.Get(ctx, "x")
			return err
		})
	}
	if s := holder.keeper.Now(); s.State != lease.Held || s.Grant.Epoch != epoch {
		t.Errorf("%+v", s)
	}
}

// TestSlow: members that are 200 ms apart, there and back, with the default times.
func TestSlow(t *testing.T) {
	t.Parallel()
	c := start(t, 500*time.Millisecond, 5*time.Second, lease.Rules{}, func(listen string) string { return slowly(t, listen, 100*time.Millisecond) })
	holder := acquires(t, c.others(c.leader())[0])
	store := etcdstore.New(func() (*clientv3.Client, error) { return holder.client, nil })
	began := time.Now()
	const n = 5
	for range n {
		if err := store.Renew(t.Context(), holder.keeper.Now().Grant); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a renewal takes %v", (time.Since(began) / n).Round(time.Millisecond))
	if took := time.Since(began) / n; took < 200*time.Millisecond {
		t.Errorf("that is faster than the line: %v", took)
	}
	if s := holder.keeper.Now(); s.State != lease.Held {
		t.Errorf("%+v", s)
	}
}

// slowly is a line to an address that takes its time each way.
func slowly(t *testing.T, to string, delay time.Duration) (address string) {
	t.Helper()
	address = freePort()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var lines sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	track := func(conn net.Conn) { mu.Lock(); open[conn] = true; mu.Unlock() }
	lines.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			track(in)
			track(out)
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				lines.Go(func() { late(way[1], way[0], delay) })
			}
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		lines.Wait()
	})
	return address
}

// late copies what comes, each piece delay after it came.
func late(to io.WriteCloser, from io.ReadCloser, delay time.Duration) {
	type piece struct {
		at   time.Time
		data []byte
	}
	pieces := make(chan piece, 10_000)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer to.Close()
		for p := range pieces {
			<-time.After(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				from.Close()
			}
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pieces <- piece{time.Now().Add(delay), append([]byte{}, buf[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writer.Wait()
}
