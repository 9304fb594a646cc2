package watchdog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

// label is how messages call the site.
func (s *Site) label(i int) string {
	switch {
	case s != nil && s.Name != "":
		return "site " + s.Name
	case s != nil && len(s.Names) > 0:
		return "site " + s.Names[0]
	}
	return fmt.Sprintf("sites[%d]", i)
}

func (s *Site) read(r *settings.Reader, preset string) (out watchdog.Site) {
	if s == nil {
		r.Failf("site", "it is empty")
		return out
	}
	out = watchdog.Site{
		Name: r.Text("name", s.Name), Create: s.Create,
		Timeout: r.Duration("timeout", s.Timeout), Slow: time.Duration(s.Slow),
	}
	for i, name := range s.Names {
		out.Names = append(out.Names, r.Text(fmt.Sprintf("names[%d]", i), name))
	}
	if s.Health == nil {
		r.Failf("health", "it is missing")
	} else {
		r.In("health", func() { out.Health = s.Health.read(r) })
	}
	if s.Local != nil {
		r.In("local", func() {
			out.Local = r.NeedAddrPort("address", s.Local.Address)
			out.LocalSecret = r.Secret("secret", s.Local.Secret, s.Local.SecretFile, s.Local.Credential, "")
		})
	}
	for i, p := range s.Paths {
		r.In(p.label(i), func() { out.Paths = append(out.Paths, p.read(r)) })
	}
	policy, err := s.policy(preset)
	if err != nil {
		r.Fail("preset", err)
	}
	out.Policy = policy
	return out
}

func (p *Path) label(i int) string {
	if p != nil && p.Name != "" {
		return "path " + p.Name
	}
	return fmt.Sprintf("paths[%d]", i)
}

func (p *Path) read(r *settings.Reader) (out watchdog.Path) {
	if p == nil {
		r.Failf("path", "it is empty")
		return out
	}
	out = watchdog.Path{
		Name: r.Need("name", p.Name), A: r.Addr("a", p.A), AAAA: r.Addr("aaaa", p.AAAA),
		Proxied: p.Proxied, TTL: p.TTL, Canary: r.Text("canary", p.Canary), Away: p.Away, Origin: p.Origin,
		Probe: r.AddrPort("probe", p.Probe), Probe6: r.AddrPort("probe6", p.Probe6),
	}
	if p.Health != nil {
		r.In("health", func() { out.Health = new(p.Health.read(r)) })
	}
	return out
}

func (h *Health) read(r *settings.Reader) watchdog.Health {
	out := watchdog.Health{
		Name: r.Need("host", h.Host), Path: cmp.Or(r.Text("path", h.Path), "/"), Status: h.Status,
		AllowStore: h.AllowStore, Node: r.Text("node", h.Node), Rules: h.Rules,
	}
	if h.Body != nil {
		out.Body = []byte(*h.Body)
	}
	if h.Shape != "" {
		if err := out.Shape.UnmarshalText([]byte(h.Shape)); err != nil {
			r.Fail("shape", err)
		}
	}
	if h.RulesFile != "" {
		out.Rules = append(out.Rules[:len(out.Rules):len(out.Rules)], h.fileRules(r)...)
	}
	if err := h.probe(out).Validate(); err != nil && !r.Later() {
		r.Fail("probe", err)
	}
	return out
}

// probe is what the health check becomes, at some address: what it refuses would
// never be good.
func (h *Health) probe(w watchdog.Health) *probe.HTTPS {
	return &probe.HTTPS{
		Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), 443), Name: cmp.Or(w.Name, "missing.invalid"), Path: w.Path, Status: w.Status, Body: w.Body,
		Rules: w.Rules, Node: w.Node, Shape: w.Shape,
	}
}

func (h *Health) fileRules(r *settings.Reader) (list []semantic.Rule) {
	path := r.Text("rules_file", h.RulesFile)
	if path == "" {
		return nil
	}
	data, err := r.File(path)
	if err != nil {
		r.Fail("rules_file", err)
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		r.Failf("rules_file", "reading %s: %w", path, err)
	}
	return list
}

// policy is the preset with what is set besides.
func (p *Policy) policy(preset string) (out decide.Policy, err error) {
	switch cmp.Or(p.Preset, preset) {
	case "", "fast": // what is not set becomes that of fast
	case "careful":
		out = decide.Careful()
	default:
		return out, fmt.Errorf("%q: want fast or careful", cmp.Or(p.Preset, preset))
	}
	set(&out.Interval, time.Duration(p.Interval))
	set(&out.Standby, time.Duration(p.StandbyInterval))
	set(&out.Burst, time.Duration(p.Burst))
	set(&out.BurstFor, time.Duration(p.BurstFor))
	if p.Failures != 0 {
		out.Failures, out.Window = p.Failures, p.Failures
	}
	set(&out.Window, p.Window)
	set(&out.Tolerance, p.Tolerance)
	set(&out.Proof, time.Duration(p.Proof))
	set(&out.Recovery, time.Duration(p.Recovery))
	set(&out.Dwell, time.Duration(p.Dwell))
	set(&out.Budget, p.Budget)
	set(&out.Gap, time.Duration(p.Gap))
	out.WithdrawAAAA = p.WithdrawAAAA
	return out, nil
}

// set overrides what the preset has.
func set[T comparable](to *T, v T) { *to = cmp.Or(v, *to) }
