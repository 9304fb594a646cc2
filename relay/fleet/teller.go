package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

// teller turns snapshots into events, each fact once.
type teller struct {
	away map[string]bool // pools that a failover was told of
	out  map[string]bool // pools that an outage was told of
}

// recall takes up what was told before a restart, oldest first: what has begun and
// is not over is not told again, and its end is.
func (t *teller) recall(list []event.Event) {
	t.away, t.out = map[string]bool{}, map[string]bool{}
	for _, ev := range list {
		name := ev.Pool
		if name == "" {
			name = catalog.PinPool(ev.Gateway)
		}
		switch ev.Kind {
		case event.FailoverActivated:
			t.away[name] = true
		case event.FailoverRestored:
			delete(t.away, name)
		case event.OutageStarted:
			t.out[name] = true
		case event.OutageResolved:
			delete(t.out, name)
		}
	}
}

// compare tells what is in one snapshot and was not in the one before.
func (t *teller) compare(was, is *monitor.Snapshot) (list []event.Event) {
	if t.away == nil {
		t.away, t.out = map[string]bool{}, map[string]bool{}
	}
	before := map[string]*monitor.GatewayView{}
	for i := range was.Gateways {
		before[was.Gateways[i].Name] = &was.Gateways[i]
	}
	for i := range is.Gateways {
		if old := before[is.Gateways[i].Name]; old != nil {
			list = append(list, gatewayNews(old, &is.Gateways[i], is)...)
		}
	}
	pools := map[string]*monitor.PoolView{}
	for i := range was.Pools {
		pools[was.Pools[i].Name] = &was.Pools[i]
	}
	for i := range is.Pools {
		list = append(list, t.poolNews(pools[is.Pools[i].Name], &is.Pools[i])...)
	}
	for i := range list {
		list[i].At = is.At
	}
	return list
}

func gatewayNews(was, is *monitor.GatewayView, now *monitor.Snapshot) (list []event.Event) {
	if was.Phase == is.Phase {
		return nil
	}
	if is.Phase == health.Down && !is.Seen {
		return nil // it has never been there: nobody has lost it
	}
	kind := event.GatewayUnknown
	switch is.Phase {
	case health.Alive:
		kind = event.GatewayAlive
	case health.Down:
		kind = event.GatewayDown
	}
	list = append(list, event.Event{Kind: kind, Gateway: is.Name, From: was.Phase.String(), To: is.Phase.String(), Reason: is.Reason})
	if is.Phase == health.Down && was.Phase == health.Alive && cooling(was, now) {
		list = append(list, event.Event{
			Kind: event.RecoveryCut, Gateway: is.Name, Reason: "it went down again before its cooldown was over",
		})
	}
	if flaps(was, is) {
		list = append(list, event.Event{
			Kind: event.GatewayFlapping, Gateway: is.Name,
			Reason: fmt.Sprintf("%d times it went down within ten minutes of coming back; its cooldown grows", is.Relapses),
		})
	}
	return list
}

// flaps tells whether a gateway has just relapsed for the second time, the fourth,
// the eighth and so on: often enough to say it, and not each time.
func flaps(was, is *monitor.GatewayView) bool {
	n := is.Relapses
	return is.Phase == health.Down && n > was.Relapses && n >= 2 && n&(n-1) == 0
}

// cooling tells whether a gateway that had come back was still in a cooldown.
func cooling(was *monitor.GatewayView, now *monitor.Snapshot) bool {
	if was.RecoveredAt.IsZero() {
		return false
	}
	var longest time.Duration
	for _, p := range now.Pools {
		if p.Index(was.Name) >= 0 {
			longest = max(longest, p.Failback)
		}
	}
	return now.At.Before(was.RecoveredAt.Add(longest))
}

// poolNews tells of outages, and of failover and its end in pools that have one
// member serving at a time.
func (t *teller) poolNews(was, is *monitor.PoolView) (list []event.Event) {
	name, pinned := catalog.PinOf(is.Name)
	about := func(kind event.Kind, from, to, why string) {
		ev := event.Event{Kind: kind, Pool: name, From: from, To: to, Reason: why}
		if pinned {
			ev.Pool, ev.Gateway = "", name
		}
		list = append(list, ev)
	}
	first, out := server(is), is.Tier() >= pool.TierDown
	if out != t.out[is.Name] && (out || first != "") {
		t.out[is.Name] = out
		if out {
			about(event.OutageStarted, server(was), "", whyOut(is))
		} else {
			about(event.OutageResolved, "", first, "a member serves again")
		}
	}
	if is.Policy != pool.Failover || out || is.Tier() > pool.TierCooldown {
		return list
	}
	switch index := is.Index(first); {
	case index > 0 && !t.away[is.Name] && worse(was, is):
		t.away[is.Name] = true
		about(event.FailoverActivated, is.Members[0].Gateway, first, is.Members[0].Reason)
	case index > 0 && t.away[is.Name] && was != nil && server(was) != first && server(was) != "":
		about(event.FailoverActivated, server(was), first, is.Members[index].Reason)
	case index == 0 && t.away[is.Name]:
		delete(t.away, is.Name)
		about(event.FailoverRestored, server(was), first, is.Members[0].Reason)
	}
	return list
}

// worse tells whether the first member served before, or is known to be unfit: at
// the start it may only not have been heard of yet.
func worse(was, is *monitor.PoolView) bool {
	return server(was) == is.Members[0].Gateway || is.Members[0].Role != pool.RoleUnknown
}

// server is who serves, or the first of them; empty if nobody does.
func server(p *monitor.PoolView) string {
	if p == nil || p.Tier() > pool.TierCooldown {
		return ""
	}
	for _, m := range p.View.Serving() {
		return m.Gateway
	}
	return ""
}

func whyOut(p *monitor.PoolView) string {
	var b strings.Builder
	for i, m := range p.Members {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m.Gateway + ": " + m.Reason)
	}
	return b.String()
}
