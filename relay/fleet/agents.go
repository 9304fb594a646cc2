package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
)

// lans are the gateways' addresses in their own networks.
type lans map[string]netip.Addr

func (l lans) of(gateway string) netip.Addr { return l[gateway] }

// agent is what is known of one gateway's agent.
type agent struct {
	last    link.Heartbeat
	at      time.Time // of the last heartbeat; zero: none yet
	beats   uint64
	lost    uint64
	silent  bool
	moved   time.Time // when it last had another address at home
	applied link.Applied
	heard   bool // applied is known
	credit  credit
	has     map[string]string // entries of the applied table, by route; nil if not known
}

// agentOf returns the agent of a gateway, unless that has gone since its agent was
// let in. The caller holds mu.
func (f *Fleet) agentOf(gateway string) (*agent, error) {
	if !f.known(gateway) {
		return nil, link.ErrForbidden
	}
	if f.agents[gateway] == nil {
		f.agents[gateway] = &agent{}
	}
	return f.agents[gateway], nil
}

// Heartbeat takes an agent's report. It implements link.Relay.
func (f *Fleet) Heartbeat(ctx context.Context, gateway string, hb link.Heartbeat) (link.HeartbeatAnswer, error) {
	now := f.o.Now()
	f.mu.Lock()
	a, err := f.agentOf(gateway)
	if err != nil {
		f.mu.Unlock()
		return link.HeartbeatAnswer{}, err
	}
	fresh := a.at.IsZero() || a.silent
	a.count(hb)
	if hb.Boot == a.last.Boot && hb.Seq < a.last.Seq { // it was overtaken on the way
		hb = a.last
	}
	moved := hb.LAN.IsValid() && hb.LAN != f.lans[gateway] && (a.moved.IsZero() || now.Sub(a.moved) >= rest)
	stopping := hb.Stopping != a.last.Stopping
	a.last, a.at, a.silent = hb, now, false
	did := f.take(gateway, a, hb.Applied, stopping || moved)
	if moved {
		a.moved, f.lans[gateway] = now, hb.LAN
		f.plan()
		f.changing()
	}
	hash := f.tableOf(gateway).Hash
	f.mu.Unlock()
	if fresh {
		did = append([]event.Event{{Kind: event.AgentConnected, Gateway: gateway, To: hb.Version}}, did...)
	}
	f.news.add(f.sign("", did)...)
	f.o.Relay.Monitor.Observe(gateway, health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Heartbeat})
	if moved && f.o.Store != nil {
		if err = f.o.Store.SetLAN(ctx, gateway, hb.LAN); err != nil {
			f.log.Warn("keeping a gateway's LAN address", "gateway", gateway, "error", err)
		}
	}
	return link.HeartbeatAnswer{Hash: hash, Time: now}, nil
}

// count notes the heartbeat, and those that got lost before it.
func (a *agent) count(hb link.Heartbeat) {
	a.beats++
	if hb.Boot == a.last.Boot && hb.Seq > a.last.Seq+1 {
		a.lost += hb.Seq - a.last.Seq - 1
	}
}

// Applied takes what an agent has in force now. It implements link.Relay.
func (f *Fleet) Applied(_ context.Context, gateway string, ap link.Applied) error {
	f.mu.Lock()
	a, err := f.agentOf(gateway)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	did := f.take(gateway, a, ap, false)
	f.mu.Unlock()
	f.news.add(f.sign("", did)...)
	return nil
}

// take notes what an agent has applied, and plans anew if that is news. The
// caller holds mu.
func (f *Fleet) take(gateway string, a *agent, ap link.Applied, planAnyway bool) (did []event.Event) {
	was := a.applied
	if a.heard && ap.Boot == was.Boot && ap.Report < was.Report {
		return nil // it was overtaken on the way
	}
	ap.Failed = ofTable(ap.Failed, f.tableOf(gateway))
	news := !a.heard || was.Hash != ap.Hash || !slices.Equal(was.Failed, ap.Failed)
	a.applied, a.heard = ap, true
	if !news && !planAnyway {
		return nil
	}
	if news {
		if a.has == nil || was.Hash != ap.Hash {
			a.has = f.entriesOf(gateway, ap.Hash)
			if ap.Hash != "" && ap.Hash != was.Hash {
				did = append(did, event.Event{Kind: event.AgentApplied, Gateway: gateway, From: was.Hash, To: ap.Hash})
			}
		}
		did = append(did, faultNews(gateway, was.Failed, ap.Failed)...)
	}
	f.planAvoidOf(gateway)
	all := len(did)
	did, muted := a.credit.spend(did, f.o.Now())
	if muted {
		f.log.Warn("an agent reports too much: some of it is no event", "gateway", gateway, "events", all-len(did))
	}
	return did
}

// ofTable leaves out what is no business of the agent's.
func ofTable(faults []link.RouteFault, table link.Table) []link.RouteFault {
	return slices.DeleteFunc(slices.Clone(faults), func(fault link.RouteFault) bool {
		_, found := slices.BinarySearchFunc(table.Routes, fault.Route, func(e link.Entry, name string) int { return cmp.Compare(e.Route, name) })
		return !found
	})
}

// credit bounds the events that one agent can cause: it may have been taken over.
type credit struct {
	left  float64
	at    time.Time
	muted bool
}

const (
	// mostAtOnce is as when a network at home fails to which so many routes lead.
	mostAtOnce = 1000
	// perSecond is what may go on and on. Uncalibrated.
	perSecond = 2
)

// spend returns the events that there is credit for. It tells once that there is
// none, until there is enough again.
func (c *credit) spend(did []event.Event, now time.Time) (paid []event.Event, muted bool) {
	if c.at.IsZero() {
		c.left = mostAtOnce
	}
	c.left = min(mostAtOnce, c.left+perSecond*max(0, now.Sub(c.at)).Seconds())
	c.at = now
	c.muted = c.muted && c.left < mostAtOnce/2
	n := min(len(did), int(c.left))
	c.left -= float64(n)
	muted = n < len(did) && !c.muted
	c.muted = c.muted || muted
	return did[:n], muted
}

// faultNews are the events of faults that began and ended.
func faultNews(gateway string, was, is []link.RouteFault) (did []event.Event) {
	before, after := faultsByRoute(was), faultsByRoute(is)
	for _, route := range slices.Sorted(maps.Keys(after)) {
		if _, old := before[route]; old {
			continue
		}
		kind := event.TargetDown
		if after[route].Listener {
			kind = event.AgentFailed
		}
		did = append(did, event.Event{Kind: kind, Gateway: gateway, Routes: []string{route}, Reason: after[route].Reason})
	}
	for _, route := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[route]; !still {
			did = append(did, event.Event{Kind: event.TargetUp, Gateway: gateway, Routes: []string{route}})
		}
	}
	return did
}

func faultsByRoute(list []link.RouteFault) map[string]link.RouteFault {
	m := make(map[string]link.RouteFault, len(list))
	for _, fault := range list {
		m[fault.Route] = fault
	}
	return m
}

// Table returns what a gateway's agent should have, once its hash is another than
// the given one; nil if it still is after wait. It implements link.Relay.
func (f *Fleet) Table(ctx context.Context, gateway, hash string, wait time.Duration) (*link.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		f.mu.Lock()
		if !f.known(gateway) { // an empty table would close what the gateway has
			f.mu.Unlock()
			return nil, link.ErrForbidden
		}
		table, changed := f.tableOf(gateway), f.changed
		f.mu.Unlock()
		if table.Hash != hash {
			return &table, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		case <-f.over:
			return nil, nil
		}
	}
}

// excuse takes time in which this process stood still off everyone's silence: it
// could not have heard anybody.
func (f *Fleet) excuse(lost time.Duration, now time.Time) {
	if lost < pace {
		return // nothing out of the ordinary
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.agents {
		if a.at.IsZero() {
			continue
		}
		if a.at = a.at.Add(lost); a.at.After(now) {
			a.at = now
		}
	}
}

// elapse notes whose heartbeats are missing, and repeats what an outside source
// has said of health.
func (f *Fleet) elapse(now time.Time) {
	f.mu.Lock()
	var did []event.Event
	var heard []observation
	for gateway, a := range f.agents {
		silence, ok := a.silence(now)
		if !ok {
			continue
		}
		if !a.silent && silence > patience(a.last) {
			a.silent = true
			did = append(did, event.Event{
				Kind: event.AgentSilent, Gateway: gateway, Reason: fmt.Sprintf("no heartbeat for %s", silence.Round(pace)),
			})
		}
		if silence > suspicion(a.last) {
			heard = append(heard, observation{gateway, f.suspect(gateway, silence)})
		}
	}
	heard = append(heard, f.outside(now)...)
	f.mu.Unlock()
	f.news.add(f.sign("", did)...)
	for _, o := range heard {
		f.o.Relay.Monitor.Observe(o.gateway, o.evidence)
	}
}

// observation is evidence on its way to the monitor.
type observation struct {
	gateway  string
	evidence health.Evidence
}

// rest is how long an agent's address stays what it is: with each other one all is
// planned anew.
const rest = link.Interval

// silence is how long an agent has not been heard of, if it ever was.
func (a *agent) silence(now time.Time) (d time.Duration, ok bool) {
	return now.Sub(a.at), !a.at.IsZero()
}

func interval(hb link.Heartbeat) time.Duration {
	if hb.Interval <= 0 {
		return link.Interval
	}
	return min(time.Duration(hb.Interval*float64(time.Second)), time.Hour)
}

// suspicion is the silence that is no jitter any more: the interval, a tenth of
// it, and a tenth for the way.
func suspicion(hb link.Heartbeat) time.Duration { return interval(hb) * 12 / 10 }

// patience is the silence after which the agent counts as silent.
func patience(hb link.Heartbeat) time.Duration { return interval(hb)*12/10 + 2*time.Second }

// suspect is what silence says: where checks look at the gateway, that they should
// do so now; where none does, that it may be gone. At the default pace it is down
// after nine seconds, and eight heartbeats in a row must be lost for that, for an
// agent that gets no answer tries again every half second.
func (f *Fleet) suspect(gateway string, silence time.Duration) health.Evidence {
	ev := health.Evidence{
		Level: health.Connect, Source: health.Heartbeat, Detail: fmt.Sprintf("no heartbeat for %s", silence.Round(pace)), Span: silence,
	}
	if g := f.merged.Gateways[gateway]; g.Check != nil && g.Check.Kind == "off" {
		ev.Value = health.Bad
	}
	return ev
}
