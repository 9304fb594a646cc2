package fallback

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

func (h *Home) label(i int) string {
	if h == nil || h.ID == "" {
		return fmt.Sprintf("homes[%d]", i)
	}
	return "home " + h.ID
}

func (h *Home) read(r *settings.Reader) fallback.Home {
	made := fallback.Home{
		ID: r.Need("id", h.ID), Peer: h.readPeer(r), CoveredBy: r.Texts("covered_by", h.CoveredBy),
	}
	if err := ddns.CheckHome(made.ID); err != nil && made.ID != "" {
		r.Fail("id", err)
	}
	if h.DNS != nil {
		r.In("dns", func() { made.DNS = h.DNS.read(r) })
	}
	made.Names = domains(r, "names", h.Names)
	made.Warm = readItems(r, "warm", h.Warm)
	for i, t := range h.Tiers {
		if t == nil {
			r.Failf("tiers["+strconv.Itoa(i)+"]", "it is empty")
			continue
		}
		r.In("tier "+strconv.Itoa(t.Number), func() { made.Tiers = append(made.Tiers, t.read(r)) })
	}
	slices.SortStableFunc(made.Tiers, func(a, b fallback.Tier) int { return cmp.Compare(a.Number, b.Number) })
	return made
}

func (h *Home) readPeer(r *settings.Reader) string {
	s := r.Text("peer", h.Peer)
	if s == "" {
		return s
	}
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
		r.Failf("peer", "%q: want host:port, as the other homes dial it", s)
	}
	return s
}

func (n *DNS) read(r *settings.Reader) *fallback.DNS {
	made := &fallback.DNS{Zone: r.Text("zone", n.Zone), Proxied: n.Proxied, IPv4: len(n.Families) == 0, IPv6: len(n.Families) == 0}
	made.Names = domains(r, "names", n.Names)
	if len(n.Names) == 0 {
		r.Failf("names", "there is none")
	}
	for _, f := range n.Families {
		switch f {
		case "ipv4":
			made.IPv4 = true
		case "ipv6":
			made.IPv6 = true
		default:
			r.Failf("families", "%q: want ipv4 or ipv6", f)
		}
	}
	for _, home := range slices.Sorted(maps.Keys(n.Fixed)) {
		list := n.Fixed[home]
		for _, s := range list {
			if made.Fixed == nil {
				made.Fixed = map[string][]netip.Addr{}
			}
			made.Fixed[home] = append(made.Fixed[home], r.NeedAddr("fixed "+home, s))
		}
	}
	return made
}

// domains reads names of the DNS, in one spelling.
func domains(r *settings.Reader, setting string, list []string) (out []string) {
	for _, name := range r.Texts(setting, list) {
		out = append(out, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return out
}

// defaultAfter is how old an outage must be for a tier, by its number.
var defaultAfter = []time.Duration{0, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}

func (t *Tier) read(r *settings.Reader) fallback.Tier {
	made := fallback.Tier{
		Number: t.Number, After: time.Duration(t.After), WritebackAfter: time.Duration(t.WritebackAfter),
		Bandwidth: t.Bandwidth, Items: readItems(r, "items", t.Items),
	}
	switch {
	case t.After < 0:
		made.After = 0
	case t.After == 0 && t.Number >= 1 && t.Number <= len(defaultAfter):
		made.After = defaultAfter[t.Number-1]
	case t.After == 0:
		r.Failf("after", "it is missing: there is a default for the first %d tiers only", len(defaultAfter))
	}
	if t.Bandwidth < 0 {
		r.Failf("bandwidth", "%d: want more than 0", t.Bandwidth)
	}
	return made
}

func readItems(r *settings.Reader, setting string, list []*Item) (made []fallback.Item) {
	for i, item := range list {
		if item == nil {
			r.Failf(fmt.Sprintf("%s[%d]", setting, i), "it is empty")
			continue
		}
		r.In(cmp.Or(strings.TrimSpace(item.Kind+" "+item.Name), fmt.Sprintf("%s[%d]", setting, i)), func() {
			made = append(made, item.read(r))
		})
	}
	return made
}

func (i *Item) read(r *settings.Reader) fallback.Item {
	made := fallback.Item{
		Name: r.Need("name", i.Name), Kind: fallback.Kind(i.Kind), Ref: r.Text("ref", i.Ref),
		Start: r.Texts("start", i.Start), Stop: r.Texts("stop", i.Stop), Look: r.Texts("look", i.Look),
		After: r.Texts("after", i.After), Networks: r.Texts("network", i.Networks), Volumes: r.Texts("volume", i.Volumes),
		Ready: r.Duration("ready", i.Ready), StopWithin: r.Duration("stop_within", i.StopWithin), Optional: i.Optional, DNS: i.DNS,
	}
	for _, p := range i.Paths {
		made.Paths = append(made.Paths, r.Path("path", p))
	}
	if err := checkName(made.Name); err != nil && made.Name != "" {
		r.Fail("name", err)
	}
	i.checkKind(r)
	for _, d := range i.Data {
		if d == nil {
			r.Failf("data", "it is empty")
			continue
		}
		r.In("data "+d.Path, func() { made.Data = append(made.Data, d.read(r)) })
	}
	return made
}

// checkName keeps out what could not stand in a URL, a log line or a file name.
func checkName(name string) error {
	bad := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.@:", c))
	}
	if len(name) > 128 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%q: want letters, digits and -_.@: only; ref names what it is elsewhere", name)
	}
	return nil
}

// checkKind finds settings that are of no use to an item of this kind.
func (i *Item) checkKind(r *settings.Reader) {
	programs := len(i.Start) + len(i.Stop) + len(i.Look)
	switch fallback.Kind(i.Kind) {
	case fallback.KindCommand:
		for _, p := range []struct {
			setting string
			list    []string
		}{{"start", i.Start}, {"stop", i.Stop}, {"look", i.Look}} {
			if len(p.list) == 0 {
				r.Failf(p.setting, "it is missing: a command needs start, stop and look")
			}
		}
		if i.Ref != "" {
			r.Failf("ref", "a command has none: remove it")
		}
	case fallback.KindContainer, fallback.KindCompose:
	case fallback.KindUnit:
		if len(i.Networks)+len(i.Volumes) > 0 {
			r.Failf("network", "networks and volumes are Docker's: a unit has none")
		}
	default:
		r.Failf("kind", "%q: want container, compose, unit or command", i.Kind)
		return
	}
	if programs > 0 && fallback.Kind(i.Kind) != fallback.KindCommand {
		r.Failf("start", "only a command has start, stop and look")
	}
	if fallback.Kind(i.Kind) == fallback.KindCommand && len(i.Networks)+len(i.Volumes) > 0 {
		r.Failf("network", "networks and volumes are Docker's: a command has none")
	}
}

func (d *Data) read(r *settings.Reader) fallback.Data {
	made := fallback.Data{
		Path: directory(r, "path", d.Path), Stamp: r.Path("stamp", d.Stamp), MaxAge: r.Duration("max_age", d.MaxAge),
		Union: d.Union, Exclude: r.Texts("exclude", d.Exclude),
	}
	for _, home := range slices.Sorted(maps.Keys(d.At)) {
		at := d.At[home]
		if made.At == nil {
			made.At = map[string]string{}
		}
		made.At[home] = directory(r, "at "+home, at)
	}
	if err := writeback.Check(made); err != nil {
		r.Fail("exclude", err)
	}
	return made
}

// directory reads a directory whose content is carried: the root of a file system that
// other things are on is a mistake that costs too much.
func directory(r *settings.Reader, setting, s string) string {
	if s == "" {
		r.Failf(setting, "it is missing")
		return ""
	}
	out := r.Path(setting, s)
	if out != "" && path.Clean(out) == "/" {
		r.Failf(setting, "%q: want a directory of the item's own", out)
	}
	return out
}

// validateHomes finds what is wrong between homes.
func (s *setup) validateHomes() error {
	known := map[string]fallback.Home{}
	var errs []error
	fail := func(home, format string, args ...any) {
		errs = append(errs, &placedError{fmt.Errorf("home "+home+": "+format, args...), s.at[home]})
	}
	for _, h := range s.homes {
		if _, twice := known[h.ID]; twice {
			fail(h.ID, "it is there twice")
		}
		known[h.ID] = h
	}
	if _, ok := known[s.id]; !ok {
		errs = append(errs, fmt.Errorf("id: there is no home %s", s.id))
	}
	name := func(home, setting, other string) {
		if _, ok := known[other]; !ok {
			fail(home, "%s: there is no home %s", setting, other)
		}
	}
	addresses := map[string]string{}
	for _, h := range s.homes {
		for _, other := range h.CoveredBy {
			name(h.ID, "covered_by", other)
			if o, ok := known[other]; ok && !s.reached(o) {
				fail(other, "peer: it is missing, and the home covers %s", h.ID)
			}
		}
		if len(h.CoveredBy) > 0 && !s.reached(h) {
			fail(h.ID, "peer: it is missing, and the home is covered by others")
		}
		if other := addresses[h.Peer]; h.Peer != "" && other != "" {
			fail(h.ID, "peer: %s is home %s", h.Peer, other)
		}
		addresses[h.Peer] = h.ID
		if h.DNS != nil {
			for other := range h.DNS.Fixed {
				name(h.ID, "dns: fixed", other)
			}
		}
		for _, item := range slices.Concat(h.Items(), h.Warm) {
			for _, d := range item.Data {
				for other := range d.At {
					name(h.ID, "item "+item.Name+": data "+d.Path+": at", other)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// reached reports whether the config says how others ask that home.
func (s *setup) reached(h fallback.Home) bool { return h.Peer != "" || s.ssh[h.ID] != "" }
