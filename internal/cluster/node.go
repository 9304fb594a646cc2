package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// State is what a Node is doing.
type State string

// The states of a Node.
const (
	// StateNone: this machine is in no cluster. Init or Join changes that.
	StateNone State = "none"
	// StateStarting: it runs, and has not found a majority yet.
	StateStarting State = "starting"
	// StateRunning: it runs, and had a majority once. Status says whether it has now.
	StateRunning State = "running"
	// StateFailed: it could not start, and tries again.
	StateFailed State = "failed"
	// StateRemoved: the others have removed it. It may join again.
	StateRemoved State = "removed"
	// StateBroken: what it has on disk can't be used, or the disk can't. Only another
	// process may try again.
	StateBroken State = "broken"
	// StateStopped: it was not started, or has been stopped.
	StateStopped State = "stopped"
)

// ErrNotReady is returned while there is no member that could be asked.
var ErrNotReady = errors.New("the cluster's member here is not ready")

// Node is this machine's member of the cluster. Use New. Its methods may be called from
// several goroutines.
type Node struct {
	c     Config
	files files
	wake  chan struct{}

	cancel    context.CancelFunc
	done      chan struct{}
	broken    atomic.Pointer[string]
	ended     chan struct{} // gets something when broken is set
	joining   sync.Mutex    // one Init or Join at a time
	admitting sync.Mutex    // one machine at a time: a cluster has one learner

	mu    sync.Mutex
	state State
	err   error
	run   *running
	pair  *pairing
}

// running is a member that runs.
type running struct {
	etcd   *embed.Etcd
	guard  *guard
	client *clientv3.Client
	id     *identity
}

// New checks the config. It touches nothing.
func New(c Config) (*Node, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Node{c: c, files: files(c.Dir), wake: make(chan struct{}, 1), ended: make(chan struct{}, 1), state: StateStopped}, nil
}

// Start begins, and returns at once. What can't be done now is tried again.
func (n *Node) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan struct{})
	n.set(StateNone, nil)
	go n.live(ctx)
}

// Stop hands leadership over, ends the member and waits for that, for 20 seconds at
// most: then the process is ending, and nothing is lost.
func (n *Node) Stop() {
	if n.cancel == nil {
		return
	}
	n.cancel()
	select {
	case <-n.done:
	case <-time.After(20 * time.Second):
		n.c.Log.Warn("the cluster's member does not end: going on without it")
	}
}

// Client returns a client of the member here. It calls the member directly; close it
// not. It returns ErrNotReady while there is none.
func (n *Node) Client() (*clientv3.Client, error) {
	r, err := n.running()
	if err != nil {
		return nil, err
	}
	return r.client, nil
}

// TLS returns what this member shows to others, and the authority that it believes, for
// connections of other kinds between members. They are read anew each time: a
// certificate is renewed while the member runs. It returns ErrNotReady if this machine is
// no member.
func (n *Node) TLS() (*tls.Config, error) {
	id, err := n.files.identity()
	if err != nil {
		return nil, err
	}
	if id == nil || id.Removed {
		return nil, fmt.Errorf("%w: this machine is no member", ErrNotReady)
	}
	pair, err := tls.LoadX509KeyPair(n.files.path(memberFile), n.files.path(memberKeyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the member's certificate: %w", err)
	}
	authority, err := os.ReadFile(n.files.path(authorityFile))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", n.files.path(authorityFile))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

func (n *Node) running() (*running, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != nil && n.state != StateBroken {
		return n.run, nil
	}
	if n.err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotReady, n.state, n.err)
	}
	return nil, fmt.Errorf("%w: %s", ErrNotReady, n.state)
}

func (n *Node) set(s State, err error) {
	n.mu.Lock()
	changed := n.state != s
	n.state, n.err = s, err
	n.mu.Unlock()
	if changed {
		n.c.Log.Info("the cluster's member", "state", s, "error", err)
	}
}

func (n *Node) setRun(r *running) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run = r
}

// The times between tries to start.
const (
	firstTry = time.Second
	lastTry  = time.Minute
)

// live runs the member for as long as ctx lasts.
func (n *Node) live(ctx context.Context) {
	defer close(n.done)
	defer n.set(StateStopped, nil)
	defer n.closePair()
	wait := firstTry
	for ctx.Err() == nil {
		began := time.Now()
		pause := n.once(ctx)
		if time.Since(began) > lastTry {
			wait = firstTry
		}
		var again <-chan time.Time
		if pause {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			again = timer.C
			wait = min(2*wait, lastTry)
		}
		select {
		case <-ctx.Done():
		case <-n.wake:
			wait = firstTry
		case <-again:
		}
	}
}

// once starts the member and waits for its end. It reports whether to try again
// without being woken.
func (n *Node) once(ctx context.Context) (again bool) {
	id, err := n.files.identity()
	switch {
	case err != nil:
		n.set(StateFailed, err)
		return true
	case id == nil:
		n.set(StateNone, nil)
		return false
	case id.Removed:
		n.set(StateRemoved, nil)
		return false
	case n.broken.Load() != nil:
		n.set(StateBroken, errors.New(*n.broken.Load()))
		return false
	case id.Name != n.c.Name:
		n.set(StateFailed, fmt.Errorf("this machine is member %q, and the config says %q: a member's name is for good", id.Name, n.c.Name))
		return true
	}
	if renewed, err := n.files.renewCert(id.Name, time.Now()); err != nil {
		n.set(StateFailed, fmt.Errorf("looking at the member's certificate: %w", err))
		return true
	} else if renewed {
		n.c.Log.Info("the member has a new certificate")
	}
	n.set(StateStarting, nil)
	e, err := n.startEtcd(ctx, n.etcdConfig(id))
	if err != nil {
		n.fail(ctx, err)
		return n.broken.Load() == nil
	}
	g := &guard{log: n.c.Log}
	return n.serve(ctx, &running{etcd: e, guard: g, client: guarded(e.Server, g), id: id})
}

func (n *Node) fail(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case n.broken.Load() != nil:
		n.set(StateBroken, errors.New(*n.broken.Load()))
	default:
		n.set(StateFailed, err)
		n.c.Log.Warn("the cluster's member does not start: it tries again", "error", err)
	}
}

// serve looks after a member until it ends or is told to.
func (n *Node) serve(ctx context.Context, r *running) (again bool) {
	n.setRun(r)
	defer n.setRun(nil)
	life, cancel := context.WithCancel(ctx)
	var keepers sync.WaitGroup
	keepers.Go(func() { n.upkeep(life, r) })
	defer func() {
		cancel()
		keepers.Wait()
	}()
	ready := r.etcd.Server.ReadyNotify()
	for {
		select {
		case <-ctx.Done():
			cancel()
			keepers.Wait()
			n.closeEtcd(r)
			return false
		case <-ready:
			ready = nil
			n.set(StateRunning, nil)
			n.markReady(r.id)
		case err := <-r.etcd.Err():
			n.set(StateFailed, err)
			n.c.Log.Error("the cluster's member has ended", "error", err)
			n.closeEtcd(r)
			return true
		case <-r.etcd.Server.StoppingNotify():
			r.guard.close()
			// It ends by itself when the others say that it was removed.
			id := *r.id
			id.Removed = true
			if err := n.files.setIdentity(&id); err != nil {
				n.c.Log.Error("could not keep that this member was removed", "error", err)
			}
			n.set(StateRemoved, nil)
			n.closeEtcd(r)
			return false
		case <-n.ended:
			n.set(StateBroken, errors.New(*n.broken.Load()))
			n.closeEtcd(r)
			return false
		}
	}
}

func (n *Node) markReady(id *identity) {
	if id.Ready {
		return
	}
	next := *id
	next.Ready = true
	if err := n.files.setIdentity(&next); err != nil {
		n.c.Log.Error("could not keep that this member runs", "error", err)
	}
}

// closeTime is how long a member may take to end: a broken one may never.
const closeTime = 15 * time.Second

func (n *Node) closeEtcd(r *running) {
	n.setRun(nil)
	r.guard.close()
	_ = r.client.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.etcd.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
		n.c.Log.Warn("the cluster's member does not end in time")
	}
}
