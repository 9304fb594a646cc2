package fleet

import (
	"encoding/json"
	"maps"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/session"
)

// tables are what agents should have, made when first asked for, and what they
// were given before.
type tables struct {
	now map[string]link.Table
	// given holds the entries of the latest tables of each gateway, by hash, so
	// that an agent that is behind is known to have what has not changed.
	given map[string][]given
}

type given struct {
	hash    string
	entries map[string]string
}

// keptTables is how many tables of a gateway are remembered.
const keptTables = 8

// plan derives everything anew. The caller holds mu.
func (f *Fleet) plan() {
	f.tables.now = map[string]link.Table{}
	f.planAvoid()
}

// tableOf is what a gateway's agent should have. The caller holds mu.
func (f *Fleet) tableOf(gateway string) link.Table {
	if t, found := f.tables.now[gateway]; found {
		return t
	}
	t := f.index.Table(gateway, f.lans.of)
	f.tables.now[gateway] = t
	f.tables.remember(t)
	return t
}

func (t *tables) remember(table link.Table) {
	list := t.given[table.Gateway]
	if n := len(list); n > 0 && list[n-1].hash == table.Hash {
		return
	}
	entries := make(map[string]string, len(table.Routes))
	for _, entry := range table.Routes {
		entries[entry.Route] = textOf(entry)
	}
	list = append(list, given{table.Hash, entries})
	t.given[table.Gateway] = list[max(0, len(list)-keptTables):]
}

// textOf is what tells two entries apart.
func textOf(entry link.Entry) string {
	text, _ := json.Marshal(entry) // of strings, numbers and flags: it cannot fail
	return string(text)
}

// entriesOf are the entries of the table with that hash; none if it is not
// remembered. The caller holds mu.
func (f *Fleet) entriesOf(gateway, hash string) map[string]string {
	f.tableOf(gateway) // is remembered from here on
	for _, g := range f.tables.given[gateway] {
		if g.hash == hash {
			return g.entries
		}
	}
	return nil
}

// planAvoid tells every route who is to be passed over. The caller holds mu.
func (f *Fleet) planAvoid() {
	f.involved = map[string][]string{}
	doings := map[string]doing{}
	for gateway, a := range f.agents {
		if a.heard {
			doings[gateway] = f.doing(gateway)
		}
	}
	for name, route := range f.merged.Routes {
		if route.Disabled {
			continue
		}
		var is session.Avoid
		for _, gateway := range f.index.Candidates(route) {
			f.involved[gateway] = append(f.involved[gateway], name)
			if d, heard := doings[gateway]; heard {
				is = with(is, gateway, d.fault(route))
			}
		}
		f.avoid(name, is)
	}
}

// planAvoidOf does the same after one agent's report. The caller holds mu.
func (f *Fleet) planAvoidOf(gateway string) {
	d := f.doing(gateway)
	for _, name := range f.involved[gateway] {
		was := f.o.Relay.RouteStats(name).Avoiding()
		why := d.fault(f.merged.Routes[name])
		switch {
		case was == nil && why == "":
		case was == nil:
			f.avoid(name, with(nil, gateway, why))
		case (*was)[gateway] != why:
			is := maps.Clone(*was)
			delete(is, gateway)
			f.avoid(name, with(is, gateway, why))
		}
	}
}

// with adds a reason, if it is one.
func with(a session.Avoid, gateway, why string) session.Avoid {
	if why == "" {
		return a
	}
	if a == nil {
		a = session.Avoid{}
	}
	a[gateway] = why
	return a
}

// avoid changes who is passed over for a route, if that is news.
func (f *Fleet) avoid(route string, is session.Avoid) {
	stats := f.o.Relay.RouteStats(route)
	if was := stats.Avoiding(); was == nil && len(is) == 0 || was != nil && maps.Equal(*was, is) {
		return
	}
	stats.SetAvoid(is)
}

// doing is what is known of one agent, against what it should have.
type doing struct {
	stopping bool
	wanted   map[string]string // entries by route
	down     map[string]string // why an entry must not be served
	has      map[string]string
	faults   map[string]link.RouteFault
}

func (f *Fleet) doing(gateway string) doing {
	table := f.tableOf(gateway)
	d := doing{wanted: map[string]string{}, down: map[string]string{}}
	for _, g := range f.tables.given[gateway] {
		if g.hash == table.Hash {
			d.wanted = g.entries
		}
	}
	for _, entry := range table.Routes {
		if entry.Down != "" {
			d.down[entry.Route] = entry.Down
		}
	}
	if a := f.agents[gateway]; a != nil {
		d.stopping, d.has, d.faults = a.last.Stopping, a.has, faultsByRoute(a.applied.Failed)
	}
	return d
}

// fault is why a gateway cannot serve a route though it may be well; empty if
// nothing is known against it.
func (d doing) fault(r catalog.Route) string {
	switch {
	case d.stopping:
		return "its agent is stopping"
	case r.Target == nil:
		return "" // no agent is involved
	case d.down[r.Name] != "":
		return d.down[r.Name]
	case d.has[r.Name] != d.wanted[r.Name]:
		return "its agent has not applied the route yet"
	}
	return d.faults[r.Name].Reason
}
