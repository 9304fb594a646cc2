package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// funcs are what templates may call.
var funcs = template.FuncMap{
	"anchor":   anchor,
	"asset":    func(name string) string { return assets[name] },
	"link":     link,
	"ago":      ago,
	"icon":     func() template.URL { return icon },
	"mark":     func() template.HTML { return template.HTML(mark) },
	"left":     func(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) },
	"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"clock":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
	"join":     strings.Join,
	"plain":    func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") },
	"count":    count,
	"lasting":  func(t time.Time) string { return span(time.Since(t)) },
	"parks":    parks,
	"add":      func(a, b int) int { return a + b },
	"field":    field,
	"counts":   counts,
	"failback": failback,
	"ms":       func(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) },
	"asks":     asks,
	"target":   target,
	"byFile":   func(o catalog.Owner) bool { return o == catalog.File },
	"list":     func(v ...string) []string { return v },
}

// span writes a duration as people say it, to the unit that matters.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

func two(n int, unit string, rest int, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %02d %s", n, unit, rest, smaller)
}

func ago(t time.Time) string {
	switch d := time.Since(t); {
	case t.IsZero():
		return "never"
	case d < 2*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours())/24)
	}
}

// count writes "1 route" and "2 routes".
func count(n any, one string) string {
	text := fmt.Sprint(n)
	if text == "1" {
		return "1 " + one
	}
	return text + " " + one + "s"
}

// counts lists what stands in the way of something: "routes: 3, tls: 2, tcp: 1".
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %d", name, m[name])
	}
	return strings.Join(names, ", ")
}

// failback says how long members wait before they take over again.
func failback(p api.Pool) string {
	wait := time.Duration(p.Failback * float64(time.Second))
	if p.Config != nil && p.Failback == 0 { // the relay does not have it now
		wait = time.Minute
		if d, err := pool.ParseFailback(p.Config.Failback); err == nil {
			wait = d
		}
	}
	switch {
	case wait <= 0:
		return "failback at once"
	case p.Config != nil && pool.Presets[p.Config.Failback] > 0:
		return fmt.Sprintf("failback after %s (%s)", span(wait), p.Config.Failback)
	}
	return "failback after " + span(wait)
}

// asks says what visitors of a route ask for.
func asks(r catalog.Route) string {
	if r.Kind == catalog.TCP || r.Kind == catalog.UDP {
		return fmt.Sprintf("%s port %d", r.Kind, r.Port)
	}
	const most = 3
	if len(r.Hosts) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(r.Hosts[:most], ", "), len(r.Hosts)-most)
	}
	return strings.Join(r.Hosts, ", ")
}

// target says where the agent forwards to.
func target(t *catalog.Target) string {
	if t == nil {
		return "the gateway's own server"
	}
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	text := fmt.Sprintf("%s:%d", host, t.Port)
	if t.TLS {
		text += " by HTTPS"
	}
	return text
}

// news is an event as people read it.
type news struct {
	event.Event
	Text string
	Tone string // good, bad, wait or plain
}

// tones are of events that are more than news.
var tones = map[event.Kind]string{
	event.GatewayDown: "bad", event.OutageStarted: "bad", event.AgentFailed: "bad", event.TargetDown: "bad", event.RecoveryCut: "bad",
	event.GatewayAlive: "good", event.OutageResolved: "good", event.FailoverRestored: "good", event.TargetUp: "good",
	event.AgentConnected: "good", event.GatewayPaired: "good",
	event.GatewayUnknown: "wait", event.FailoverActivated: "wait", event.GatewayFlapping: "wait", event.AgentSilent: "wait",
}

func newsOf(e event.Event) *news {
	return &news{Event: e, Text: sentence(e), Tone: cmp.Or(tones[e.Kind], "plain")}
}

func newsOfAll(list []event.Event) (out []*news) {
	for _, e := range slices.Backward(list) { // the newest first
		out = append(out, newsOf(e))
	}
	return out
}

// sentence says what happened.
func sentence(e event.Event) string {
	where := e.Gateway
	if e.Pool != "" {
		where = e.Pool
	}
	routes := strings.Join(e.Routes[:min(len(e.Routes), 5)], ", ")
	if n := len(e.Routes) - 5; n > 0 {
		routes += fmt.Sprintf(" and %d more", n)
	}
	switch e.Kind {
	case event.GatewayDown:
		return where + " is down"
	case event.GatewayAlive:
		return where + " is alive"
	case event.GatewayUnknown:
		return where + " is unknown: there is no fresh evidence"
	case event.RecoveryCut:
		return where + " went down again before its cooldown was over"
	case event.GatewayFlapping:
		return where + " goes up and down"
	case event.FailoverActivated:
		if e.Pool == "" {
			return fmt.Sprintf("%s stands in for %s", cmp.Or(e.To, "another one"), where)
		}
		return fmt.Sprintf("%s: %s took over from %s", where, cmp.Or(e.To, "another one"), cmp.Or(e.From, "nobody"))
	case event.FailoverRestored:
		if e.Pool == "" {
			return where + " serves its own routes again"
		}
		return fmt.Sprintf("%s: back on %s", where, e.To)
	case event.OutageStarted:
		if e.Pool == "" {
			return "nobody serves the routes of " + where
		}
		return where + ": nobody serves"
	case event.OutageResolved:
		if e.Pool == "" {
			return fmt.Sprintf("the routes of %s are served again, by %s", where, e.To)
		}
		return where + ": served again by " + e.To
	case event.AgentConnected:
		return "the agent of " + where + " is connected"
	case event.AgentSilent:
		return "the agent of " + where + " is silent"
	case event.AgentApplied:
		return "the agent of " + where + " has applied its routes"
	case event.AgentFailed:
		return fmt.Sprintf("%s cannot open route %s", where, routes)
	case event.TargetDown:
		return fmt.Sprintf("%s cannot reach the target of route %s", where, routes)
	case event.TargetUp:
		return fmt.Sprintf("%s reaches the target of route %s", where, routes)
	case event.MembersChanged:
		return fmt.Sprintf("members of pool %s: from %s to %s", e.Pool, cmp.Or(e.From, "none"), cmp.Or(e.To, "none"))
	case event.RoutesMigrated:
		return fmt.Sprintf("moved into pool %s: %s", e.Pool, routes)
	case event.RoutesRelocated:
		return fmt.Sprintf("moved to gateway %s: %s", e.Gateway, routes)
	case event.OperatorState:
		return fmt.Sprintf("%s is set to %s", where, e.To)
	case event.OperatorPool:
		return fmt.Sprintf("%s: %s asked for", where, e.To)
	}
	words := strings.ReplaceAll(string(e.Kind), "_", " ")
	if len(e.Routes) > 0 && strings.HasPrefix(words, "route ") {
		return words + ": " + routes
	}
	if where != "" {
		return words + ": " + where
	}
	return words
}
