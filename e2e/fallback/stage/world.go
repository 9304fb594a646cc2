package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// The last bytes of addresses in the world's network: homes are from firstHome on.
const (
	relayHost    = 1
	firstHome    = 2
	secondRelay  = 100
	witnessHost  = 250
	internetHost = 254
)

// The ports: all below those that the kernel gives to clients.
const (
	clusterPort = 11380 // and the next one, for codes
	peerPort    = 11443
	itemPort    = 11500
)

// Config of a World.
type Config struct {
	// Dir is an empty directory. Its path must be short, for there are sockets in it.
	Dir string
	// Bin is where edge-watchdog and edge-relay are.
	Bin string
	// Homes are their ids. Each is covered by all others, in this order.
	Homes []string
	// Relays is how many there are, of which each has a vote. Default: 1.
	Relays int
	// Net says where machines are. Default: this machine, on loopback.
	Net Net
	// App are more lines in edge_fallback. They follow the pace of the world and may
	// replace it.
	App string
	// At returns more such lines for one home alone. May be nil.
	At func(home string) string
	// Tiers returns the tiers of a home as a Caddyfile has them. Default: Services.
	Tiers func(w *World, home string) string
}

// Net is a network with a machine for each home and one for the relay.
type Net struct {
	// Prefix are the first three bytes of its addresses. Default: 127 and random ones.
	Prefix [3]byte
	// Enter returns the program and arguments that run another one at a machine.
	Enter func(machine string) []string
}

// World is all of it. Use New, Start and Close.
type World struct {
	Cloud *Cloud

	cfg    Config
	dir    string
	homes  []*Home
	relays []*Process
}

// New makes a world in which nothing runs yet but the internet.
func New(cfg Config) (w *World, err error) {
	w = &World{cfg: cfg, dir: cfg.Dir}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if w.cfg.Net.Prefix == [3]byte{} {
		w.cfg.Net.Prefix = [3]byte{127, byte(16 + rand.IntN(200)), byte(rand.IntN(256))}
	}
	w.cfg.Relays = cmp.Or(w.cfg.Relays, 1)
	if w.cfg.Net.Enter == nil {
		w.cfg.Net.Enter = func(string) []string { return nil }
	}
	if w.cfg.At == nil {
		w.cfg.At = func(string) string { return "" }
	}
	if w.cfg.Tiers == nil {
		w.cfg.Tiers = func(w *World, home string) string { return w.Services(home) }
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "running"), 0o700); err != nil {
		return nil, err
	}
	if err := writeScript(w.script(), self); err != nil {
		return nil, err
	}
	if w.Cloud, err = startCloud(w.dir, w.at); err != nil {
		return nil, err
	}
	if err := w.build(); err != nil {
		w.Cloud.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) build() error {
	a, err := newAuthority(filepath.Join(w.dir, "ca.pem"))
	if err != nil {
		return err
	}
	for i := range w.cfg.Relays {
		if err := w.addRelay(i); err != nil {
			return err
		}
	}
	for i, id := range w.cfg.Homes {
		h := &Home{ID: id, world: w, host: byte(firstHome + i)}
		if h.Process, err = w.process(id, "edge-watchdog", h.host); err != nil {
			return err
		}
		if err := a.issue(id, h.dir); err != nil {
			return err
		}
		w.homes = append(w.homes, h)
	}
	for _, h := range w.homes {
		if err := os.WriteFile(h.file("Caddyfile"), []byte(w.homeFile(h)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// addRelay makes one. The second one, and those after it, are far from home.
func (w *World) addRelay(i int) error {
	name, host := "relay", byte(relayHost)
	if i > 0 {
		name, host = fmt.Sprint("relay", i+1), byte(secondRelay+i-1)
	}
	p, err := w.process(name, "edge-relay", host)
	if err != nil {
		return err
	}
	w.relays = append(w.relays, p)
	return os.WriteFile(p.file("Caddyfile"), []byte(w.machineFile(p, name, host, "")), 0o600)
}

func (w *World) process(machine, program string, host byte) (*Process, error) {
	p := &Process{bin: filepath.Join(w.cfg.Bin, program), dir: filepath.Join(w.dir, machine), enter: w.cfg.Net.Enter(machine)}
	for _, name := range []string{"run", "data", "broken", "hung"} {
		if err := os.MkdirAll(p.file(name), 0o700); err != nil {
			return nil, err
		}
	}
	p.env = []string{envHome + "=" + p.dir, "XDG_DATA_HOME=" + p.dir, "XDG_CONFIG_HOME=" + p.dir, "SSL_CERT_FILE=" + filepath.Join(w.dir, "roots.pem")}
	return p, os.WriteFile(p.file(addrFile), []byte(w.at(host).String()), 0o600)
}

// at is an address in this world.
func (w *World) at(host byte) netip.Addr {
	p := w.cfg.Net.Prefix
	return netip.AddrFrom4([4]byte{p[0], p[1], p[2], host})
}

// Home returns one of the homes.
func (w *World) Home(id string) *Home {
	for _, h := range w.homes {
		if h.ID == id {
			return h
		}
	}
	return nil
}

// Homes are all of them.
func (w *World) Homes() []*Home { return w.homes }

// Start runs everything, and returns when each home serves itself and has been seen to.
func (w *World) Start(ctx context.Context) error {
	for _, p := range w.processes() {
		if err := p.Start(); err != nil {
			return err
		}
	}
	if err := w.join(ctx); err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}
	for _, h := range w.homes {
		if err := w.Until(ctx, h.ID+" serves itself", func(ctx context.Context) bool { return w.Serves(ctx, h.ID) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) processes() []*Process {
	list := slices.Clone(w.relays)
	for _, h := range w.homes {
		list = append(list, h.Process)
	}
	return list
}

// join makes a cluster of all machines, as docs/cluster.md says.
func (w *World) join(ctx context.Context) error {
	first := w.homes[0]
	err := w.Until(ctx, "there is an admin API", func(ctx context.Context) bool {
		return first.Call(ctx, http.MethodPost, "/cluster/init", nil, nil) == nil
	})
	if err != nil {
		return err
	}
	others := slices.Clone(w.relays)
	for _, h := range w.homes[1:] {
		others = append(others, h.Process)
	}
	for i, p := range others {
		if err := w.joinOne(ctx, first.Process, p, i+2); err != nil {
			return err
		}
	}
	return nil
}

// joinOne takes a machine in, and waits until it has a vote.
func (w *World) joinOne(ctx context.Context, first, p *Process, members int) error {
	var last error
	err := w.Until(ctx, filepath.Base(p.dir)+" is a member", func(ctx context.Context) bool {
		var code struct{ Code, Address string }
		if last = first.Call(ctx, http.MethodPost, "/cluster/code", struct{}{}, &code); last != nil {
			return false
		}
		last = p.Call(ctx, http.MethodPost, "/cluster/join", code, nil)
		return last == nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return w.Until(ctx, fmt.Sprint("there are ", members, " votes"), func(ctx context.Context) bool {
		var st struct {
			Quorum  bool
			Members []struct{ Learner bool }
		}
		if first.Call(ctx, http.MethodGet, "/cluster/status", nil, &st) != nil || !st.Quorum || len(st.Members) != members {
			return false
		}
		for _, m := range st.Members {
			if m.Learner {
				return false
			}
		}
		return true
	})
}

// Serves reports whether a home serves itself, and all others know it.
func (w *World) Serves(ctx context.Context, id string) bool {
	for _, h := range w.homes {
		st, err := h.Status(ctx, id)
		want := fallback.Normal
		if h.ID == id {
			want = fallback.Serving
		}
		if err != nil || st.Stage != want || st.Seat.Phase != fallback.PhaseOwn {
			return false
		}
		if st.Own && (st.Until.IsZero() || st.DNS != st.Verified) || !st.Own && st.Holder != id {
			return false
		}
	}
	return w.Cloud.Lookup(id) == w.Home(id).Public()
}

// patience is for a machine that has other things to do.
const patience = 90 * time.Second

// Until waits until is says yes.
func (w *World) Until(ctx context.Context, what string, is func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", patience, what)
		}
	}
	return nil
}

// Leader is the member that leads the cluster, as the first home that knows says.
func (w *World) Leader(ctx context.Context) string {
	for _, h := range w.homes {
		var st struct{ Leader string }
		if h.Call(ctx, http.MethodGet, "/cluster/status", nil, &st) == nil && st.Leader != "" {
			return st.Leader
		}
	}
	return ""
}

// Faults are what no home may ever do, as it was seen from outside.
func (w *World) Faults() []string {
	list := w.Cloud.faults()
	text, err := os.ReadFile(faultFile(w.dir))
	if err == nil {
		list = append(list, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	} else if !errors.Is(err, os.ErrNotExist) {
		list = append(list, err.Error())
	}
	return list
}

// Close ends everything, and what it has started.
func (w *World) Close() error {
	var errs []error
	for _, h := range w.homes {
		errs = append(errs, h.PowerOff())
	}
	for _, p := range w.relays {
		p.Kill()
	}
	w.Cloud.Close()
	return errors.Join(errs...)
}

// script is what starts, stops and looks at services.
func (w *World) script() string { return filepath.Join(w.dir, "service") }

// Dir is where all of it has its files.
func (w *World) Dir() string { return w.dir }
