package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/sidecar/address"
	"github.com/edgeward/edgeward/sidecar/agentcheck"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/runtime"
	"github.com/edgeward/edgeward/sidecar/settings"
	"github.com/edgeward/edgeward/sidecar/source"
)

// Config of a run. Load is required.
type Config struct {
	// Load reads the settings, at the beginning and at each reload.
	Load func() (settings.Plan, error)
	Log  *slog.Logger
	// Reload has a value each time the settings are to be read again.
	Reload <-chan os.Signal
	// Notify tells systemd; see sd_notify(3). Default: nobody is told.
	Notify func(state string)
}

// daemon is one run.
type daemon struct {
	Config
	began    time.Time
	plan     settings.Plan // of the last load that could be used; owned by Run
	book     *address.Book // nil: names are not followed
	follower *follow.Follower
	client   *runtime.Client
	own      *source.Own
	remote   *source.Snapshot
	agents   *agentcheck.Server
	picture  atomic.Pointer[source.Picture]
	gateways atomic.Pointer[[]monitor.Gateway]
	stale    atomic.Pointer[string] // what the config in place lacks, by the last reload
	tasks    sync.WaitGroup
	failed   chan error // has room for one of each task
}

// Run works until ctx ends, and returns nil then. It returns [ErrRunning] if another
// run is there, and [*follow.Owned] if HAProxy is the owner of health.
func Run(ctx context.Context, c Config) error {
	d := &daemon{Config: c, began: time.Now(), failed: make(chan error, 8)}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Notify == nil {
		d.Notify = func(string) {}
	}
	var err error
	if d.plan, err = d.Load(); err != nil {
		return err
	}
	if h := d.plan.Render.Health; h != render.BySidecar && h != render.ByAgent {
		return errors.New(`health is "haproxy": HAProxy finds out itself who is up, and there is nothing to follow; set health "sidecar", or "agent"`)
	}
	unlock, err := lock(d.plan.Run.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer d.tasks.Wait()
	defer cancel()
	defer d.closeSources()
	if err := d.start(ctx); err != nil {
		return err
	}
	d.Log.Info("the sidecar runs", "health", d.plan.Render.Health, "source", d.plan.Source.Kind, "socket", d.plan.Render.Process.Socket.Path)
	d.Notify("READY=1")
	d.task(func() error { return d.beat(ctx) })
	err = d.loop(ctx)
	d.Notify("STOPPING=1")
	return err
}

// loop waits for what comes.
func (d *daemon) loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		case <-d.Reload:
			d.Notify("RELOADING=1")
			d.reload(ctx)
			d.Notify("READY=1")
		}
	}
}

// beat goes on while a config is applied, which may take its time.
func (d *daemon) beat(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.heart()
		}
	}
}

// heart tells systemd that the follower goes round. A call to HAProxy may take its
// time, and there are some in a row.
func (d *daemon) heart() {
	const stuck = 30 * time.Second
	if d.follower != nil && d.follower.Idle() > stuck {
		d.Log.Error("the follower stands still", "for", d.follower.Idle())
		return
	}
	d.Notify("WATCHDOG=1")
}

// task runs until ctx ends. Its error ends the run.
func (d *daemon) task(f func() error) {
	d.tasks.Go(func() {
		if err := f(); err != nil {
			select {
			case d.failed <- err:
			default: // another one ends it already
			}
		}
	})
}

// start begins all tasks. Who can be asked comes last: by then all is there.
func (d *daemon) start(ctx context.Context) error {
	if err := d.startBook(); err != nil {
		return err
	}
	out, err := d.render()
	if err != nil {
		return err
	}
	if d.plan.Render.Health == render.BySidecar {
		d.startFollower(ctx, out)
	}
	for _, begin := range []func(context.Context) error{d.startAgents, d.startSource, d.serveStatus, d.serveMetrics} {
		if err := begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *daemon) startFollower(ctx context.Context, out render.Output) {
	d.client = runtime.New(out.Socket, runtime.Options{})
	d.follower = follow.New(follow.Config{
		Client: d.client, Log: d.Log, Follows: d.plan.Render.Follows, Reconcile: time.Duration(d.plan.Run.Reconcile),
	})
	d.follower.SetMembers(out.Members)
	if d.book != nil {
		d.follower.SetAddresses(d.book.Known())
	}
	d.task(func() error { return d.follower.Run(ctx) })
}

// startBook follows names.
func (d *daemon) startBook() (err error) {
	if !d.plan.Render.Follows {
		return nil
	}
	a := d.plan.Addresses
	o := address.Options{
		Log: d.Log, Interval: time.Duration(a.Interval), Allow: a.Allow, File: a.File,
		Works: d.works, Check: d.check, Changed: func(known map[string]netip.Addr) { d.follower.SetAddresses(known) },
	}
	for _, server := range a.Servers {
		o.Ask = append(o.Ask, address.Server(server))
	}
	if d.book, err = address.Open(o); err != nil {
		return err
	}
	d.book.SetHosts(d.plan.Hosts())
	return nil
}

// startSource begins to find out who is well, and lets the names be asked for: what
// they are told to is there by now.
func (d *daemon) startSource(ctx context.Context) (err error) {
	switch s := d.plan.Source; s.Kind {
	case "snapshot":
		d.remote, err = source.NewSnapshot(source.SnapshotOptions{
			Log: d.Log, URL: s.URL, TokenFile: s.TokenFile, RootsFile: s.RootsFile, Stale: time.Duration(s.Stale), Offer: d.offer,
		})
		if err != nil {
			return err
		}
	default:
		o := source.OwnOptions{Log: d.Log, Offer: d.offer, File: filepath.Join(filepath.Dir(d.plan.Addresses.File), "health.json")}
		if d.book != nil {
			o.Lookup = d.book.Lookup
		}
		d.own = source.NewOwn(o)
	}
	if d.book != nil {
		d.task(func() error { d.book.Run(ctx); return nil })
	}
	return d.watch()
}

// watch tells the source which gateways there are.
func (d *daemon) watch() error {
	gateways, err := d.plan.Render.Catalog.MonitorGateways()
	if err != nil {
		return err
	}
	d.gateways.Store(&gateways)
	if d.own == nil {
		return nil
	}
	c := monitor.Config{Gateways: gateways, Pools: d.plan.Render.Catalog.Settings()}
	if err := c.Validate(); err != nil {
		return err
	}
	d.own.Apply(c)
	return nil
}

func (d *daemon) closeSources() {
	if d.own != nil {
		d.own.Close()
	}
	if d.remote != nil {
		d.remote.Close()
	}
}

// offer takes a picture from the source.
func (d *daemon) offer(p *source.Picture) {
	d.picture.Store(p)
	if d.follower != nil {
		d.follower.Offer(p)
	}
}

// at are the gateways that are dialled by a name.
func (d *daemon) at(host string) (list []monitor.Gateway) {
	gateways := d.gateways.Load()
	if gateways == nil {
		return nil
	}
	for _, g := range *gateways {
		if h, _, err := net.SplitHostPort(g.Dial); err == nil && h == host {
			list = append(list, g)
		}
	}
	return list
}

// works reports whether a gateway at a name is known to be alive where it is.
func (d *daemon) works(host string) bool {
	p := d.picture.Load()
	if p == nil {
		return false
	}
	for _, g := range d.at(host) {
		if p.Gateways[g.Name].Phase == health.Alive {
			return true
		}
	}
	return false
}

// check looks whether a gateway of a name is at an address: one of them, as it is
// checked otherwise.
func (d *daemon) check(ctx context.Context, host string, addr netip.Addr) error {
	var errs []error
	for _, g := range d.at(host) {
		_, port, err := net.SplitHostPort(g.Dial)
		if err != nil {
			continue
		}
		spec := g.Check
		spec.ProxyProtocol = int(g.Proxy)
		if g.NoCheck {
			spec = check.Spec{}
		}
		r := check.Run(ctx, spec, net.JoinHostPort(addr.String(), port), nil)
		if r.OK {
			return nil
		}
		errs = append(errs, fmt.Errorf("gateway %s: %s", g.Name, r.Detail))
	}
	return errors.Join(errs...)
}

// render renders the settings with what is known.
func (d *daemon) render() (render.Output, error) {
	c := d.plan.Render
	if d.book != nil {
		c.Addresses = d.book.Known()
	}
	return render.Render(c)
}
