package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/source"
)

// Source says who finds out which gateway is well, with health "sidecar" or "agent".
type Source struct {
	// Kind is "own": the checks of the gateways are made here; or "snapshot": those
	// of a relay are followed, which hears its agents' heartbeats too. Default: own.
	Kind string `json:"kind,omitzero"`
	// URL is that of the relay's API: https, or http at a loopback address.
	URL string `json:"url,omitzero"`
	// TokenFile has a token that may read. Default: none.
	TokenFile string `json:"token_file,omitzero"`
	// RootsFile has the authorities to trust. Default: the system's.
	RootsFile string `json:"roots_file,omitzero"`
	// Stale is how long the relay may be away until nothing is believed. Default:
	// 30s.
	Stale catalog.Duration `json:"stale,omitzero"`
}

// Addresses says how the names that gateways are dialled by are followed.
type Addresses struct {
	// Off leaves names to HAProxy. Default: they are followed, with health "sidecar".
	Off bool `json:"off,omitzero"`
	// Interval is how often they are asked for. Default: 30s.
	Interval catalog.Duration `json:"interval,omitzero"`
	// Servers are DNS servers. Of several, two must answer, and all that answer must
	// agree. Default: the system's resolver.
	Servers []netip.AddrPort `json:"servers,omitempty"`
	// Allow are networks that an answer may be in although they are not public.
	Allow []netip.Prefix `json:"allow,omitempty"`
	// File keeps what is believed. Default: addresses.json in process.files.
	File string `json:"file,omitzero"`
}

// AgentCheck says where HAProxys that are not written to ask for members.
type AgentCheck struct {
	// Listen is an IP address and a port. Default: nowhere.
	Listen string `json:"listen,omitzero"`
	// Address is where HAProxy finds it, if that is not Listen.
	Address string `json:"address,omitzero"`
	// Allow are who may ask. Default: this machine.
	Allow []netip.Prefix `json:"allow,omitempty"`
	// Interval is how often HAProxy asks. Default: 1s.
	Interval catalog.Duration `json:"interval,omitzero"`
}

// Run is what concerns the running sidecar.
type Run struct {
	// Dir holds its lock and its socket. Default: /run/edge-sidecar.
	Dir string `json:"dir,omitzero"`
	// Metrics is a loopback address with a port, for Prometheus. Default: nowhere.
	Metrics string `json:"metrics,omitzero"`
	// ApplyOnChange applies a config that has changed, at SIGHUP. Default: it says
	// that it has.
	ApplyOnChange bool `json:"apply_on_change,omitzero"`
	// Reconcile is how often all of HAProxy's servers are compared. Default: 30s.
	Reconcile catalog.Duration `json:"reconcile,omitzero"`
}

// running fills in and checks what the running sidecar needs.
func (f *File) running(p *Plan) error {
	const second = catalog.Duration(time.Second)
	p.Source, p.Addresses, p.AgentCheck, p.Run = f.Source, f.Addresses, f.AgentCheck, f.Run
	p.Source.Kind, p.Source.Stale = cmp.Or(p.Source.Kind, "own"), cmp.Or(p.Source.Stale, 30*second)
	p.Addresses.Interval = cmp.Or(p.Addresses.Interval, 30*second)
	p.Addresses.File = cmp.Or(p.Addresses.File, cmp.Or(f.Process.Files, "/etc/haproxy/edgeward")+"/addresses.json")
	p.AgentCheck.Interval, p.AgentCheck.Address = cmp.Or(p.AgentCheck.Interval, second), cmp.Or(p.AgentCheck.Address, p.AgentCheck.Listen)
	p.Run.Dir, p.Run.Reconcile = cmp.Or(p.Run.Dir, "/run/edge-sidecar"), cmp.Or(p.Run.Reconcile, 30*second)
	p.Render.Follows = f.Health == render.BySidecar && !f.Addresses.Off
	if f.Health == render.ByAgent {
		at, err := netip.ParseAddrPort(p.AgentCheck.Address)
		if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
			return fmt.Errorf("agent_check.address: %.80q: health \"agent\" needs an IP address with a port, here or in agent_check.listen", p.AgentCheck.Address)
		}
		p.Render.Agent = render.Agent{Address: at, Interval: time.Duration(p.AgentCheck.Interval)}
	}
	return errors.Join(p.Source.check(), p.Addresses.check(), p.AgentCheck.check(), p.Run.check())
}

func (s Source) check() error {
	var errs []error
	switch s.Kind {
	case "own":
		if s.URL != "" || s.TokenFile != "" || s.RootsFile != "" {
			errs = append(errs, errors.New(`source: url, token_file and roots_file are for kind "snapshot"`))
		}
	case "snapshot":
		if _, err := source.ParseURL(s.URL); err != nil {
			errs = append(errs, fmt.Errorf("source.%w", err))
		}
	default:
		errs = append(errs, fmt.Errorf("source.kind: %.40q: want own or snapshot", s.Kind))
	}
	for _, path := range [][2]string{{"token_file", s.TokenFile}, {"roots_file", s.RootsFile}} {
		if path[1] != "" && !filepath.IsAbs(path[1]) {
			errs = append(errs, fmt.Errorf("source.%s: %.80q: want an absolute path", path[0], path[1]))
		}
	}
	return errors.Join(append(errs, least("source.stale", s.Stale, time.Second))...)
}

func (a Addresses) check() error {
	errs := []error{least("addresses.interval", a.Interval, time.Second)}
	for _, s := range a.Servers {
		if !s.IsValid() || s.Port() == 0 {
			errs = append(errs, fmt.Errorf("addresses.servers: %v: want an address with a port", s))
		}
	}
	if slices.ContainsFunc(a.Allow, func(p netip.Prefix) bool { return !p.IsValid() }) {
		errs = append(errs, errors.New("addresses.allow: want networks"))
	}
	if !filepath.IsAbs(a.File) {
		errs = append(errs, fmt.Errorf("addresses.file: %.80q: want an absolute path", a.File))
	}
	return errors.Join(errs...)
}

func (a AgentCheck) check() error {
	errs := []error{least("agent_check.interval", a.Interval, 100*time.Millisecond)}
	if a.Listen != "" {
		if at, err := netip.ParseAddrPort(a.Listen); err != nil || at.Port() == 0 {
			errs = append(errs, fmt.Errorf("agent_check.listen: %.80q: want an IP address with a port", a.Listen))
		}
	}
	return errors.Join(errs...)
}

func (r Run) check() error {
	errs := []error{least("run.reconcile", r.Reconcile, time.Second)}
	if !filepath.IsAbs(r.Dir) || len(r.Dir) > 80 {
		errs = append(errs, fmt.Errorf("run.dir: %.80q: want an absolute path of at most 80 bytes: a socket is made in it", r.Dir))
	}
	if r.Metrics != "" {
		if at, err := netip.ParseAddrPort(r.Metrics); err != nil || !at.Addr().IsLoopback() {
			errs = append(errs, fmt.Errorf("run.metrics: %.80q: want a loopback address with a port: nothing guards it", r.Metrics))
		}
	}
	return errors.Join(errs...)
}

func least(setting string, d catalog.Duration, want time.Duration) error {
	if time.Duration(d) < want || time.Duration(d) > 24*time.Hour {
		return fmt.Errorf("%s: %s: want %s to 24h", setting, d, want)
	}
	return nil
}

// Hosts returns the names that are followed, of those that gateways are dialled by.
func (p Plan) Hosts() (hosts []string) {
	if !p.Render.Follows {
		return nil
	}
	for _, g := range p.Render.Catalog.Gateways {
		host, _, err := net.SplitHostPort(g.Dial)
		if _, bad := netip.ParseAddr(host); err == nil && bad != nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}
