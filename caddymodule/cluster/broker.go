package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edgeward/edgeward/internal/cluster"
)

// broker holds what outlives a config: the one member of the process, or its client. It
// sits in a caddy.UsagePool: each provisioned config holds a reference, and the last one
// to leave ends it.
//
// A reload starts the new config before it stops the old one. If both want the same
// member it goes on; else the old one ends before the new one starts, for they have a
// port and a directory in common.
type broker struct {
	mu      sync.Mutex // held while configs change
	entries []*entry   // those started and not stopped; the last one is in force
	live    atomic.Pointer[live]
}

// live is what runs.
type live struct {
	entry  *entry
	node   *cluster.Node    // of a member
	client *clientv3.Client // of endpoints
}

var brokers = caddy.NewUsagePool()

const brokerKey = "edge_cluster"

func takeBroker() (*broker, error) {
	b, _, err := brokers.LoadOrNew(brokerKey, func() (caddy.Destructor, error) { return new(broker), nil })
	if err != nil {
		return nil, err
	}
	return b.(*broker), nil
}

func giveBroker() error {
	_, err := brokers.Delete(brokerKey)
	return err
}

// current returns what runs, or nil. The admin API asks for it anew each time: an app it
// had kept could be a dead one.
func current() (now *live) {
	brokers.Range(func(_, value any) bool {
		now = value.(*broker).live.Load()
		return false
	})
	return now
}

// start puts an entry in force. If that fails, the one before is in force again.
func (b *broker) start(e *entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enforce(e); err != nil {
		return errors.Join(err, b.back())
	}
	b.entries = append(b.entries, e)
	return nil
}

// stop withdraws an entry.
func (b *broker) stop(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.entries, e)
	if i < 0 {
		return
	}
	b.entries = slices.Delete(b.entries, i, i+1)
	if i < len(b.entries) {
		return // another one is in force
	}
	if err := b.back(); err != nil {
		e.log.Error("the config before cannot be put in force again", "error", err)
	}
}

// back puts the last entry in force, if there is one. Without one, all goes on until
// Destruct.
func (b *broker) back() error {
	if len(b.entries) == 0 {
		return nil
	}
	return b.enforce(b.entries[len(b.entries)-1])
}

// enforce makes what runs what e wants.
func (b *broker) enforce(e *entry) error {
	now := b.live.Load()
	if now != nil && now.entry.key == e.key {
		return nil
	}
	next := &live{entry: e}
	var err error
	if e.external != nil {
		next.client, err = e.external.Open()
	} else {
		next.node, err = cluster.New(e.member)
	}
	if err != nil {
		return err
	}
	b.live.Store(nil)
	now.end()
	if next.node != nil {
		next.node.Start()
	}
	b.live.Store(next)
	return nil
}

func (l *live) end() {
	switch {
	case l == nil:
	case l.node != nil:
		l.node.Stop()
	default:
		_ = l.client.Close()
	}
}

// Destruct implements caddy.Destructor. At exit the end is waited for, so that another
// member leads before this one goes.
func (b *broker) Destruct() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live.Swap(nil).end()
	return nil
}

// client returns the client of now.
func (b *broker) client() (*clientv3.Client, error) {
	l := b.live.Load()
	switch {
	case l == nil:
		return nil, cluster.ErrNotReady
	case l.node != nil:
		return l.node.Client()
	}
	return l.client, nil
}

// tls returns what the member of now shows to others.
func (b *broker) tls() (*tls.Config, error) {
	l := b.live.Load()
	if l == nil || l.node == nil {
		return nil, cluster.ErrNotReady
	}
	return l.node.TLS()
}

// statusReport is how the cluster does, seen from here.
type statusReport struct {
	// Endpoints of an etcd that others run.
	Endpoints []string `json:"endpoints,omitempty"`
	cluster.Status
}

// probeTime bounds the question to an etcd that others run.
const probeTime = 3 * time.Second

func (l *live) status(ctx context.Context) statusReport {
	if l.node != nil {
		return statusReport{Status: l.node.Status()}
	}
	s := statusReport{Endpoints: l.entry.external.Endpoints, Status: cluster.Status{State: cluster.StateRunning, Members: []cluster.MemberStatus{}}}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := l.client.Get(ctx, "/edgeward/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil {
		s.State, s.Error = cluster.StateFailed, err.Error()
		return s
	}
	s.Quorum = true
	return s
}
