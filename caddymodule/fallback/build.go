package fallback

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// setup is what the settings say, as those take it who do the work. It opens nothing.
type setup struct {
	// print is another one if anything is that the config says, or that its placeholders
	// and files hold.
	print  string
	id     string
	dir    string
	single bool
	homes  []fallback.Home
	at     map[string]string // by home: where it stands in the Caddyfile
	ssh    map[string]string // by home: how ssh calls it
	mounts []string          // of this home
	policy fallback.Policy

	peer      Peer
	docker    *workload.Docker
	rsync     string
	witnesses []witness
	zones     map[string]zone
	api       string
	adopt     bool
	ttl       int
	finder    *origin.Finder
	confirm   int
	resolvers *resolve.Set
	channels  []notify.Config
	remind    time.Duration
	drillDue  time.Duration
	window    *window // nil: there is no real drill
}

// zone is a zone at the provider.
type zone struct {
	name, id string
	token    secret.String
	servers  []string
}

// build turns the settings into a setup, and checks it. Notices are for the log.
func (a *App) build(w settings.World) (s *setup, notices []string, err error) {
	r := settings.New(w)
	s = a.read(r)
	s.print = a.print(r)
	if r.Err() != nil || r.Later() {
		return nil, r.Notices(), r.Err()
	}
	return s, r.Notices(), s.validate()
}

func (a *App) print(r *settings.Reader) string {
	text, _ := json.Marshal(a) // it was JSON
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", text, r.Seen())
	return hex.EncodeToString(sum.Sum(nil))
}

func (a *App) read(r *settings.Reader) *setup {
	s := &setup{
		id: r.Text("id", a.ID), dir: r.StateDir(a.StateDir, "edge_fallback"), single: a.Single, policy: a.Policy.read(r), rsync: r.Text("rsync", a.Rsync),
		api: r.API(a.API), adopt: a.Adopt, ttl: a.ttl(r), remind: time.Duration(a.Remind), drillDue: time.Duration(a.DrillDue), at: map[string]string{}, ssh: map[string]string{},
	}
	s.policy.Single = a.Single
	if text := r.Text("drill_window", a.DrillWindow); text != "" {
		var err error
		if s.window, err = parseWindow(text); err != nil {
			r.Fail("drill_window", err)
		}
	}
	roots := r.Roots(a.RootsFile)
	s.resolvers = a.resolvers(r, roots)
	a.readPeer(r, s)
	a.readDocker(r, s)
	a.readZones(r, s)
	a.readAddress(r, s, roots)
	a.readWitness(r, s, roots)
	for i, h := range a.Homes {
		if h == nil {
			r.Failf(h.label(i), "it is empty")
			continue
		}
		r.In(h.label(i), func() { a.readHome(r, s, h) })
	}
	a.readNotify(r, s)
	return s
}

func (a *App) readHome(r *settings.Reader, s *setup, h *Home) {
	made := h.read(r)
	s.at[made.ID] = h.at
	if made.ID == s.id {
		for _, m := range h.Mounts {
			s.mounts = append(s.mounts, r.Path("mount", m))
		}
	}
	if h.SSH != "" {
		s.ssh[made.ID] = r.Text("ssh", h.SSH)
	}
	if made.DNS != nil && made.DNS.Zone == "" {
		made.DNS.Zone = s.zoneOf(made.DNS.Names)
	}
	s.homes = append(s.homes, made)
}

// zoneOf returns the zone whose name is the longest that all names end in.
func (s *setup) zoneOf(names []string) (best string) {
	for key, z := range s.zones {
		all := z.name != ""
		for _, name := range names {
			all = all && (name == z.name || strings.HasSuffix(name, "."+z.name))
		}
		if all && len(z.name) > len(s.zones[best].name) {
			best = key
		}
	}
	return best
}

func (a *App) ttl(r *settings.Reader) int {
	if a.TTL != 0 && (a.TTL < 60 || a.TTL > 86400) {
		r.Failf("ttl", "%d: want 60 to 86400 seconds", a.TTL)
	}
	return a.TTL
}

func (a *App) resolvers(r *settings.Reader, roots *x509.CertPool) *resolve.Set {
	set := &resolve.Set{Timeout: r.Duration("resolver_timeout", a.ResolverTimeout)}
	for i, s := range a.Resolvers {
		r.In(fmt.Sprintf("resolvers[%d]", i), func() {
			if s == nil {
				r.Failf("resolver", "it is empty")
				return
			}
			set.Resolvers = append(set.Resolvers, r.Resolver(s.URL, s.Address, s.AnyAddress, roots))
		})
	}
	return set
}

func (p *Policy) read(r *settings.Reader) fallback.Policy {
	made := fallback.Policy{
		Interval: r.Duration("interval", p.Interval), Down: r.Number("down", p.Down), Strikes: r.Number("strikes", p.Strikes),
		CoverUnhealthy: p.CoverUnhealthy, Unhealthy: r.Number("unhealthy", p.Unhealthy),
		TTL: r.Duration("lease ttl", p.Lease.TTL), Fence: r.Duration("lease fence", p.Lease.Fence), Settle: r.Duration("lease settle", p.Lease.Settle),
		Stagger: r.Duration("stagger", p.Stagger), Grace: r.Duration("grace", p.Grace), Reclaim: r.Duration("reclaim_after", p.ReclaimAfter),
		Tries: r.Number("tries", p.Tries), Retry: r.Duration("retry", p.Retry), RetryMost: r.Duration("retry", p.RetryMost),
		Pause: r.Duration("pause", p.Pause), Limit: r.Duration("limit", p.Limit), CarryLimit: r.Duration("carry_limit", p.CarryLimit),
	}
	if made.Interval != 0 && made.Interval < time.Second/10 {
		r.Failf("interval", "%s: want at least 100ms", made.Interval)
	}
	return made
}

// defaultListen is where homes are answered.
const defaultListen = ":7443"

func (a *App) readPeer(r *settings.Reader, s *setup) {
	if a.Peer == nil {
		s.peer.Listen = defaultListen
		return
	}
	r.In("peer", func() {
		s.peer = Peer{
			Listen: cmp.Or(r.Text("listen", a.Peer.Listen), defaultListen),
			Cert:   r.Path("cert", a.Peer.Cert), Key: r.Path("key", a.Peer.Key), CA: r.Path("ca", a.Peer.CA),
		}
		if n := given(a.Peer.Cert, a.Peer.Key, a.Peer.CA); n != 0 && n != 3 {
			r.Failf("cert", "cert, key and ca go together: want all of them, or none for those of edge_cluster")
		}
		na, err := caddy.ParseNetworkAddress(s.peer.Listen)
		if !r.Later() && (err != nil || na.PortRangeSize() != 1 || na.Network != "tcp" && na.Network != "tcp4" && na.Network != "tcp6") {
			r.Failf("listen", "%q: want an address and a port, like :7443 or 10.8.0.2:7443", s.peer.Listen)
		}
	})
}

// given counts what is not empty.
func given(list ...string) (n int) {
	for _, s := range list {
		if s != "" {
			n++
		}
	}
	return n
}

func (a *App) readDocker(r *settings.Reader, s *setup) {
	if a.Docker == nil {
		return
	}
	r.In("docker", func() {
		s.docker = &workload.Docker{
			Host: r.Text("host", a.Docker.Host), CA: r.Path("ca", a.Docker.CA), Cert: r.Path("cert", a.Docker.Cert), Key: r.Path("key", a.Docker.Key),
		}
		if n := given(a.Docker.CA, a.Docker.Cert, a.Docker.Key); n != 0 && n != 3 {
			r.Failf("ca", "ca, cert and key go together: want all of them or none")
		}
		if h := s.docker.Host; h != "" && !strings.HasPrefix(h, "unix:///") && !strings.HasPrefix(h, "tcp://") {
			r.Failf("host", "%q: want unix:///<path> or tcp://<host>:<port>", h)
		}
	})
}

func (a *App) readZones(r *settings.Reader, s *setup) {
	s.zones = map[string]zone{}
	for i, z := range a.Zones {
		r.In(fmt.Sprintf("zones[%d]", i), func() {
			if z == nil {
				r.Failf("zone", "it is empty")
				return
			}
			made := zone{name: strings.ToLower(r.Text("name", z.Name)), id: r.Text("id", z.ID), token: r.Secret("token", z.Token, z.TokenFile, z.Credential, settings.CloudflareCredential)}
			made.servers = r.Texts("name_servers", z.NameServers)
			key := cmp.Or(made.name, made.id)
			if _, twice := s.zones[key]; twice && key != "" {
				r.Failf("zone", "%s is there twice", key)
			}
			if key == "" && !r.Later() {
				r.Failf("zone", "it has neither a name nor an id")
			}
			if made.id != "" && !isID(made.id) {
				r.Failf("id", "%q: want 32 hexadecimal digits", made.id)
			}
			s.zones[key] = made
		})
	}
}

func (a *App) readAddress(r *settings.Reader, s *setup, roots *x509.CertPool) {
	f := cmp.Or(a.Address, &Address{})
	r.In("address", func() {
		if f.Off {
			if len(f.Sources) > 0 || f.Interface != "" {
				r.Failf("off", "it is off, and there is a source or an interface: want one of them")
			}
			return
		}
		s.finder = &origin.Finder{Interface: r.Text("interface", f.Interface), Resolvers: s.resolvers, Roots: roots}
		s.confirm = r.Number("confirm", f.Confirm)
		for i, src := range f.Sources {
			r.In(fmt.Sprintf("sources[%d]", i), func() {
				format := cmp.Or(src.Format, string(origin.Text))
				s.finder.Sources = append(s.finder.Sources, origin.Source{
					URL: r.Need("url", src.URL), Format: origin.Format(format), Operator: r.Text("operator", src.Operator),
				})
			})
		}
		if len(f.Sources) > 0 || f.Interface != "" {
			if err := s.finder.Validate(); err != nil {
				r.Fail("source", err)
			}
		}
	})
}

func (a *App) readWitness(r *settings.Reader, s *setup, roots *x509.CertPool) {
	w := cmp.Or(a.Witness, &Witness{})
	targets := []probe.Target{}
	r.In("witness", func() {
		for i, t := range w.Targets {
			r.In(fmt.Sprintf("targets[%d]", i), func() {
				targets = append(targets, probe.Target{Name: r.Text("name", t.Name), Addr: r.NeedAddrPort("address", t.Address)})
			})
		}
		timeout := r.Duration("timeout", w.Timeout)
		if len(w.Targets) == 0 {
			targets = probe.Targets(resolve.IPv4)
		}
		hosts := map[netip.Addr]bool{}
		for _, t := range targets {
			hosts[t.Addr.Addr()] = true
			s.witnesses = append(s.witnesses, witness{target: t, timeout: cmp.Or(timeout, witnessTime), roots: roots})
		}
		if len(hosts) < 2 && !r.Later() {
			r.Failf("target", "%d address: want at least 2, for one that is filtered is no outage", len(hosts))
		}
	})
}

// readNotify reads where people are told, and makes every channel once to see whether
// that is possible.
func (a *App) readNotify(r *settings.Reader, s *setup) {
	channels := r.Channels()
	for i, n := range a.Notify {
		r.In(fmt.Sprintf("notify[%d]", i), func() {
			if n == nil {
				r.Failf("notify", "it is empty")
				return
			}
			s.channels = append(s.channels, channels.Read(n.Name, n.URL, n.Secret, n.Timeout))
		})
	}
}

// validate finds what is wrong between the parts.
func (s *setup) validate() error {
	if s.id == "" {
		return errors.New("id: it is missing: want the home that this machine is in")
	}
	if len(s.homes) == 0 {
		return errors.New("there is no home")
	}
	any := s.policy
	any.Home = fallback.Home{ID: s.id, Tiers: []fallback.Tier{{Number: 1}}}
	any.Self = s.id
	errs := []error{any.Validate(), s.validateHomes()}
	if errs[0] != nil {
		return errs[0]
	}
	for _, h := range s.homes {
		errs = append(errs, s.place(h, s.validatePolicy(h)), s.place(h, s.validateDNS(h)), s.place(h, s.validateSSH(h)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.validatePeer()
}

// place says of what is wrong with a home which one it is, and where it stands.
func (s *setup) place(h fallback.Home, err error) error {
	if err == nil {
		return nil
	}
	if name := "home " + h.ID + ": "; !strings.HasPrefix(err.Error(), name) {
		err = fmt.Errorf("%s%w", name, err)
	}
	return &placedError{err, s.at[h.ID]}
}

// validatePolicy finds what is wrong with a home, seen from each that has to do with it.
func (s *setup) validatePolicy(h fallback.Home) error {
	for _, self := range append([]string{h.ID}, h.CoveredBy...) {
		p := s.policy
		p.Self, p.Home = self, h
		if err := p.Validate(); err != nil {
			return err // the others say the same
		}
	}
	return nil
}

// validateDNS finds a domain that this config cannot publish.
func (s *setup) validateDNS(h fallback.Home) error {
	if h.DNS == nil {
		return s.validateNames(h)
	}
	if _, ok := s.zones[h.DNS.Zone]; !ok {
		return fmt.Errorf("dns: there is no zone for %s: set cloudflare zone", cmp.Or(h.DNS.Zone, strings.Join(h.DNS.Names, " ")))
	}
	if s.finder != nil {
		return nil
	}
	for _, home := range append([]string{h.ID}, h.CoveredBy...) {
		is := func(want func(netip.Addr) bool) bool { return slices.ContainsFunc(h.DNS.Fixed[home], want) }
		if h.DNS.IPv4 && !is(netip.Addr.Is4) || h.DNS.IPv6 && !is(netip.Addr.Is6) {
			return fmt.Errorf("dns: fixed: address is off, and there is no fixed address of each family for %s", home)
		}
	}
	return nil
}

// validateNames finds names of which nobody knows where they should lead.
func (s *setup) validateNames(h fallback.Home) error {
	if len(h.Names) > 0 && s.finder == nil {
		return errors.New("names: address is off, so nobody knows where they should lead: remove one of them")
	}
	return nil
}

// validateSSH finds data that would have to go where only ssh leads.
func (s *setup) validateSSH(h fallback.Home) error {
	if s.ssh[h.ID] == "" {
		return nil
	}
	for _, item := range h.Items() {
		if slices.ContainsFunc(item.Data, func(d fallback.Data) bool { return !d.Union }) {
			return fmt.Errorf("ssh: it carries no data, and item %s has some: want peer with certificates", item.Name)
		}
	}
	return nil
}

// validatePeer finds homes that could not know each other.
func (s *setup) validatePeer() error {
	if s.single && s.peer.Cert == "" && s.needsPeer() {
		return errors.New("peer: without edge_cluster there are no certificates to use: set cert, key and ca")
	}
	return nil
}

// needsPeer reports whether another home is asked over TLS, or may ask.
func (s *setup) needsPeer() bool {
	return slices.ContainsFunc(s.homes, func(h fallback.Home) bool {
		return h.ID != s.id && h.Peer != "" && s.ssh[h.ID] == ""
	})
}

// client makes what asks the provider about a zone.
func (z zone) client(api string) (*cloudflare.Client, error) {
	return cloudflare.New(cloudflare.Config{Token: z.token, BaseURL: api})
}
