package fallback

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
	"github.com/edgeward/edgeward/watchdog/fallback/preflight"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// clusterApp is what is asked of the app edge_cluster.
type clusterApp interface {
	// Store is where homes agree. It follows the member through reloads.
	Store() lease.Store
}

// certified is a cluster whose certificates homes may know each other by.
type certified interface {
	PeerTLS() func() (*tls.Config, error)
}

// running is the fallback at work: the control, what it acts with, and what other homes
// and people ask.
type running struct {
	*entry
	control  *control.Control
	work     *workload.Workloads
	writes   *writeback.Server
	carrier  *carrier // nil: nothing is carried
	dns      *ddns.DNS
	drills   *drill.Drills
	peers    map[string]control.Peer
	clients  []*peer.Client
	notices  *notices
	tallies  *tallies
	journals []*journal.Journal

	life     context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	ending   sync.Mutex // held while something new is begun, and while that ends
	drilling atomic.Pointer[drillRun]
}

// run opens everything and starts it. What fails leaves nothing open.
func (e *entry) run() (r *running, err error) {
	r = &running{entry: e, peers: map[string]control.Peer{}, tallies: newTallies()}
	ctx, cancel := context.WithCancel(context.Background())
	r.life, r.cancel = ctx, cancel
	defer func() {
		if err != nil {
			r.close()
			r = nil
		}
	}()
	if err := r.open(); err != nil {
		return r, openError(e.dir, err)
	}
	server, ln, err := r.listen(ctx)
	if err != nil {
		return r, err
	}
	if err := r.control.Start(ctx); err != nil {
		if ln != nil {
			_ = ln.Close()
		}
		return r, openError(e.dir, err)
	}
	if ln != nil {
		r.wg.Go(func() { r.serve(ctx, server, ln) })
	}
	if r.dns != nil && e.finder != nil {
		r.wg.Go(func() { r.dns.Run(ctx) })
	}
	r.wg.Go(func() { r.notices.run(ctx, r.look) })
	r.wg.Go(func() { _ = r.control.Watch(ctx, r.tallies.take) })
	return r, nil
}

// openError says what to do about it.
func openError(dir string, err error) error {
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("state_dir %s is in use: %w: stop that one, or give this one a state_dir of its own", dir, err)
	}
	return fmt.Errorf("state_dir %s: %w", dir, err)
}

// open makes all the parts.
func (r *running) open() error {
	kept, err := r.journal("workloads")
	if err != nil {
		return err
	}
	outbox, err := r.journal("notices")
	if err != nil {
		return err
	}
	docker := r.docker
	if docker == nil && r.usesDocker() {
		docker = &workload.Docker{}
	}
	if r.work, err = workload.New(workload.Config{Docker: docker, Journal: kept, Log: r.log}); err != nil {
		return err
	}
	if r.notices, err = newNotices(r.entry, outbox); err != nil {
		return err
	}
	if err := r.openPeers(); err != nil {
		return err
	}
	if err := r.openWriteback(); err != nil {
		return err
	}
	if err := r.openDNS(); err != nil {
		return err
	}
	return r.openControl()
}

func (r *running) journal(name string) (*journal.Journal, error) {
	j, err := journal.Open(filepath.Join(r.dir, name), journal.Options{Log: r.log})
	if err == nil {
		r.journals = append(r.journals, j)
	}
	return j, err
}

// about are the homes that this machine has to do with.
func (s *setup) about() (list []fallback.Home) {
	for _, h := range s.homes {
		if h.ID == s.id || slices.Contains(h.CoveredBy, s.id) {
			list = append(list, h)
		}
	}
	return list
}

// usesDocker reports whether an item is a matter of Docker's, here.
func (s *setup) usesDocker() bool {
	return slices.ContainsFunc(s.about(), func(h fallback.Home) bool {
		return slices.ContainsFunc(slices.Concat(h.Items(), h.Warm), func(i fallback.Item) bool {
			return i.Kind == fallback.KindContainer || i.Kind == fallback.KindCompose
		})
	})
}

// source is how homes know each other, and nil if they need not.
func (r *running) source() (peer.Source, error) {
	if !r.needsPeer() {
		return nil, nil
	}
	if r.peer.Cert != "" {
		return peer.Files(r.peer.Cert, r.peer.Key, r.peer.CA, r.log), nil
	}
	if c, ok := r.cluster.(certified); ok {
		if source := c.PeerTLS(); source != nil {
			return source, nil
		}
	}
	return nil, errors.New("peer: edge_cluster has no certificates to use, as with an etcd of your own: set cert, key and ca")
}

func (r *running) openPeers() error {
	source, err := r.source()
	if err != nil {
		return err
	}
	for _, h := range r.homes {
		switch {
		case h.ID == r.id:
		case r.ssh[h.ID] != "":
			r.peers[h.ID] = &peer.SSH{Home: h.ID, Host: r.ssh[h.ID]}
		case h.Peer != "":
			c, err := peer.NewClient(peer.ClientConfig{Self: r.id, Home: h.ID, Address: h.Peer, TLS: source})
			if err != nil {
				return fmt.Errorf("home %s: peer: %w", h.ID, err)
			}
			r.clients = append(r.clients, c)
			r.peers[h.ID] = c
		}
	}
	return nil
}

// streamName is that of the streams that carry data.
const streamName = "writeback"

func (r *running) openWriteback() (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which rsync calls: %w", err)
	}
	w, err := writeback.New(writeback.Config{
		ID: r.id, Dial: r.dial, RSH: []string{self, "fallback", "rsh"}, Rsync: r.rsync, Log: r.log,
	})
	if err != nil {
		return err
	}
	r.carrier = &carrier{w, r.tallies}
	r.writes, err = writeback.NewServer(writeback.ServerConfig{
		ID: r.id, Homes: r.homes, Allow: r.allow, Reserve: r.reserve, Rsync: r.rsync, Log: r.log,
	})
	return err
}

// dial opens a stream for data to another home.
func (r *running) dial(ctx context.Context, home string) (net.Conn, error) {
	c, ok := r.peers[home].(*peer.Client)
	if !ok {
		return nil, fmt.Errorf("there is no way to carry data to home %s", home)
	}
	return c.Dial(ctx, streamName, nil)
}

// allow says whether another home may write an item's data here: it is proven stopped,
// and that home acts by a seat that is not over. With our own name it is a person who
// restores what a writeback has replaced.
func (r *running) allow(ctx context.Context, from string, h writeback.Hello) error {
	if from == r.id {
		return r.idle(ctx, h)
	}
	if err := r.timely(h); err != nil {
		return err
	}
	seen, err := r.control.Prove(ctx, from, h.Home, h.Item)
	if err != nil {
		return err
	}
	return stopped(h.Item, seen)
}

// timely refuses who acts by a seat that is over.
func (r *running) timely(h writeback.Hello) error {
	for _, st := range r.control.Show().Homes {
		if st.Home == h.Home && st.Seat.Epoch > h.Epoch {
			return fmt.Errorf("%w: epoch %d is over, the seat is of %d", control.ErrRefused, h.Epoch, st.Seat.Epoch)
		}
	}
	return nil
}

// reserve keeps an item from being started here while another home writes its data.
func (r *running) reserve(ctx context.Context, from string, h writeback.Hello) (context.Context, func(), error) {
	if err := r.timely(h); err != nil {
		return nil, nil, err
	}
	return r.control.Reserve(ctx, from, h.Home, h.Item)
}

func (r *running) idle(ctx context.Context, h writeback.Hello) error {
	for _, home := range r.homes {
		item, _, ok := home.Item(h.Item)
		if home.ID != h.Home || !ok {
			continue
		}
		seen, err := r.work.Look(ctx, item)
		if err != nil {
			return err
		}
		return stopped(h.Item, seen)
	}
	return fmt.Errorf("home %s has no item %q", h.Home, h.Item)
}

func stopped(item string, seen control.Seen) error {
	if seen.Running != control.RunningStopped {
		return fmt.Errorf("%w: item %s is %s here, not stopped: %s", control.ErrRefused, item, seen.Running, seen.Detail)
	}
	return nil
}

func (r *running) openDNS() error {
	if !slices.ContainsFunc(r.about(), func(h fallback.Home) bool { return h.DNS != nil || len(h.Names) > 0 }) {
		return nil
	}
	zones := map[string]ddns.Zone{}
	for key, z := range r.zones {
		c, err := z.client(r.api)
		if err != nil {
			return fmt.Errorf("cloudflare zone %s: %w", key, err)
		}
		zones[key] = ddns.Zone{Client: c, Name: z.name, ID: z.id, NameServers: z.servers}
	}
	c := ddns.Config{
		ID: r.id, Zones: zones, Finder: r.finder, Adopt: r.adopt, TTL: r.ttl, Resolvers: r.resolvers, Log: r.log,
		Settle: r.policy.WithDefaults().Settle,
	}
	c.WriteWithin = c.Settle * 4 / 5
	c.Policy.Confirm = r.confirm
	var err error
	r.dns, err = ddns.New(c)
	return err
}

func (r *running) openControl() error {
	look := preflight.New(preflight.Config{Self: r.id, Workloads: r.work, Mounts: r.mounts})
	c := control.Config{
		ID: r.id, Homes: r.homes, Policy: r.policy, Dir: filepath.Join(r.dir, "control"),
		Workloads: r.work, Writeback: r.carrier, Version: version(), Log: r.log, Tell: r.notices.tell,
		Peer: func(home string) control.Peer { return r.peers[home] },
		Health: func(ctx context.Context) control.Evidence {
			return healthy(r.work.DockerUp(ctx), look.Local(ctx, nil, nil))
		},
		Preflight: func(ctx context.Context, home fallback.Home) ([]control.Finding, error) {
			return look.Local(ctx, home.Items(), nil), nil
		},
	}
	if r.dns != nil {
		c.DNS = r.dns
	}
	if !r.single {
		c.Store = r.cluster.Store()
	}
	for _, w := range r.witnesses {
		c.Witnesses = append(c.Witnesses, w.look)
	}
	var err error
	if r.control, err = control.New(c); err != nil {
		return err
	}
	return r.openDrills(c)
}

// healthy says whether services can run here.
func healthy(docker error, findings []control.Finding) control.Evidence {
	if docker != nil {
		return control.Evidence{Value: evidence.Bad, Why: docker.Error()}
	}
	for _, f := range findings {
		if !f.OK {
			return control.Evidence{Value: evidence.Bad, Why: f.Detail}
		}
	}
	return control.Evidence{Value: evidence.Good}
}

// listen makes what answers other homes, if there are any that may ask.
func (r *running) listen(ctx context.Context) (*peer.Server, net.Listener, error) {
	source, err := r.source()
	if err != nil || source == nil {
		return nil, nil, err
	}
	server, err := peer.NewServer(peer.ServerConfig{
		Self: r.id, Service: r.control, TLS: source, Refused: r.tallies.refused, Log: r.log,
		Homes: func(id string) bool {
			return id != r.id && slices.ContainsFunc(r.homes, func(h fallback.Home) bool { return h.ID == id })
		},
	})
	if err != nil {
		return nil, nil, err
	}
	server.Stream(streamName, func(ctx context.Context, from string, conn net.Conn, _ peer.Header) error {
		return r.writes.Serve(ctx, from, conn)
	})
	server.Stream(drill.Stream, func(ctx context.Context, from string, conn net.Conn, header peer.Header) error {
		return r.drills.Serve(ctx, from, conn, header)
	})
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", r.peer.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("peer: listen: %w", err)
	}
	return server, ln, nil
}

// serve answers other homes until ctx ends. A listener that breaks is made anew: a home
// that does not answer would be taken for dead.
func (r *running) serve(ctx context.Context, server *peer.Server, ln net.Listener) {
	for {
		err := server.Run(ctx, ln) // which closes it
		for {
			if ctx.Err() != nil {
				return
			}
			r.log.Error("other homes are not answered", "listen", r.peer.Listen, "error", err)
			if !pause(ctx, time.Second) {
				return
			}
			if ln, err = new(net.ListenConfig).Listen(ctx, "tcp", r.peer.Listen); err == nil {
				break
			}
		}
	}
}

// pause waits, and reports whether ctx still is good.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends it all. Services run on, and DNS records stay as they are.
func (r *running) close() {
	r.ending.Lock()
	r.cancel()
	r.ending.Unlock()
	var errs []error
	if r.control != nil {
		errs = append(errs, r.control.Stop())
	}
	r.wg.Wait()
	if r.notices != nil {
		errs = append(errs, r.notices.close())
	}
	for _, c := range r.clients {
		c.Close()
	}
	for _, j := range r.journals {
		errs = append(errs, j.Close())
	}
	if err := errors.Join(errs...); err != nil {
		cmp.Or(r.log, slog.Default()).Error("the fallback did not end in order", "error", err)
	}
}
