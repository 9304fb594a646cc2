package conformance_test

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// snapshot is what the relay says of everybody.
type snapshot struct {
	raw      []byte
	Version  uint64 `json:"version"`
	Gateways []struct {
		Name  string       `json:"name"`
		Phase health.Phase `json:"phase"`
	} `json:"gateways"`
	Pools []pool.View `json:"pools"`
}

func (r *relay) snapshot() (s snapshot) {
	r.t.Helper()
	s.raw = r.call(http.MethodGet, "/edge/snapshot", nil)
	if err := json.Unmarshal(s.raw, &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (s snapshot) phase(gateway string) health.Phase {
	for _, g := range s.Gateways {
		if g.Name == gateway {
			return g.Phase
		}
	}
	return health.Unknown
}

// cools reports whether a gateway is in cooldown in all its pools.
func (s snapshot) cools(gateway string) bool {
	seen := false
	for _, p := range s.Pools {
		if i := p.Index(gateway); i >= 0 {
			seen = true
			if p.Members[i].Tier != pool.TierCooldown {
				return false
			}
		}
	}
	return seen
}

// is tells as a source outside that gateways are in a phase, and waits until the relay
// believes it.
func (r *relay) is(phase health.Phase, gateways ...string) {
	r.t.Helper()
	if len(gateways) == 0 {
		return
	}
	said := object{}
	for _, name := range gateways {
		said[name] = object{"phase": phase}
	}
	r.call(http.MethodPut, "/edge/snapshot", object{"source": "conformance", "ttl_seconds": 3600, "gateways": said})
	r.sees(phase, gateways...)
}

// sees waits until the relay believes that gateways are in a phase, beneath what an
// operator has said.
func (r *relay) sees(phase health.Phase, gateways ...string) {
	r.t.Helper()
	eventually(r.t, "gateways are "+phase.String(), func() bool {
		s := r.snapshot()
		return !slices.ContainsFunc(gateways, func(name string) bool { return s.phase(name) != phase })
	})
}

// act does to gateways what an operator can.
func (r *relay) act(action string, gateways ...string) {
	r.t.Helper()
	for _, name := range gateways {
		r.call(http.MethodPost, "/edge/gateways/"+name+"/"+action, nil)
	}
}

// know brings all gateways to where their scenes want them. Who is down, or back
// from it, has been alive before: a gateway that never was owes no cooldown.
func (r *relay) know(w *world) {
	r.t.Helper()
	are := func(kinds ...known) (list []string) {
		for _, name := range w.sorted() {
			if slices.Contains(kinds, w.known[name]) {
				list = append(list, name)
			}
		}
		return list
	}
	r.is(health.Alive, are(alive, down, cooldown, drained, disabled, heldAlive, heldDown)...)
	r.is(health.Down, are(down, cooldown, heldDown)...)
	r.act("hold", are(heldAlive, heldDown)...)
	r.act("drain", are(drained)...)
	r.act("disable", are(disabled)...)
	back := are(cooldown)
	r.is(health.Down, are(heldAlive)...)
	r.is(health.Alive, append(are(heldDown), back...)...)
	eventually(r.t, "who came back is in cooldown", func() bool {
		s := r.snapshot()
		return !slices.ContainsFunc(back, func(name string) bool { return !s.cools(name) })
	})
}
