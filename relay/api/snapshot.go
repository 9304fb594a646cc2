package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

func getSnapshot(c *call) error {
	query := c.r.URL.Query()
	if c.flag("watch") {
		return watchSnapshot(c)
	}
	if !query.Has("after") {
		return c.answer(whole(c.fleet.Snapshot()))
	}
	after, err := c.number("after", 0)
	if err != nil {
		return problem(http.StatusBadRequest, parameterInvalid, "after=%q: want a version", query.Get("after")).at("after")
	}
	leave, err := c.wait()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.shortly()
	defer cancel()
	s, err := c.fleet.WaitSnapshot(ctx, after)
	if err != nil {
		s = c.fleet.Snapshot() // nothing new: the one the client has
	}
	return c.answer(whole(s))
}

// whole has empty lists where there is nothing, rather than null.
func whole(s *monitor.Snapshot) *monitor.Snapshot {
	w := *s
	if w.Gateways == nil {
		w.Gateways = []monitor.GatewayView{}
	}
	w.Pools = slices.Clone(w.Pools)
	for i := range w.Pools {
		if w.Pools[i].Members == nil {
			w.Pools[i].Members = []pool.MemberView{}
		}
	}
	if w.Pools == nil {
		w.Pools = []monitor.PoolView{}
	}
	return &w
}

func watchSnapshot(c *call) error {
	var seen uint64
	return c.stream(func(ctx context.Context) (string, error) {
		s, err := c.fleet.WaitSnapshot(ctx, seen)
		if err != nil {
			return "", err
		}
		seen = s.Version
		data, err := json.Marshal(whole(s))
		return message(s.Version, "snapshot", data), err
	})
}

// ExternalReport is what a health source outside of Edgeward says.
type ExternalReport struct {
	// Source is its name; a later report of the same source replaces this one.
	Source string `json:"source"`
	// TTLSeconds is how long it is to be believed, 1 to 86400.
	TTLSeconds float64                    `json:"ttl_seconds"`
	Gateways   map[string]ExternalGateway `json:"gateways"`
}

// ExternalGateway is what it says of one gateway.
type ExternalGateway struct {
	// Phase is alive or down; unknown takes back what was said.
	Phase  health.Phase `json:"phase"`
	Reason string       `json:"reason,omitzero"`
}

const (
	maxTTL    = 24 * time.Hour
	maxReason = 500
)

func putSnapshot(c *call) error {
	var sent ExternalReport
	if err := body(c, &sent); err != nil {
		return err
	}
	states, err := sent.states(c.fleet.Catalog(), c.fleet.Snapshot())
	if err != nil {
		return err
	}
	ttl := time.Duration(sent.TTLSeconds * float64(time.Second))
	if err := c.fleet.External(c.ctx(), sent.Source, states, ttl); err != nil {
		return coded(err, catalog.GatewayNotFound)
	}
	return c.done()
}

// states checks a report as a whole: either all of it is taken or nothing.
func (e ExternalReport) states(now *catalog.Catalog, s *monitor.Snapshot) ([]fleet.External, error) {
	switch {
	case e.Source == "":
		return nil, problem(http.StatusBadRequest, catalog.NameRequired, "want the name of the source").at("source")
	case !validName(e.Source):
		return nil, problem(http.StatusBadRequest, catalog.NameInvalid, "source %q: want lower case letters, digits, dots, dashes", e.Source).at("source")
	case !(e.TTLSeconds >= 1 && e.TTLSeconds <= maxTTL.Seconds()):
		return nil, problem(http.StatusBadRequest, invalidTTL, "ttl_seconds is %v: want 1 to %v", e.TTLSeconds, maxTTL.Seconds()).at("ttl_seconds")
	case len(e.Gateways) == 0:
		return nil, problem(http.StatusBadRequest, catalog.ItemsRequired, "want at least one gateway").at("gateways")
	}
	var states []fleet.External
	for _, name := range slices.Sorted(maps.Keys(e.Gateways)) {
		g, field := e.Gateways[name], "gateways."+name
		_, configured := now.Gateways[name]
		if !configured && !slices.ContainsFunc(s.Gateways, func(v monitor.GatewayView) bool { return v.Name == name }) {
			return nil, problem(http.StatusBadRequest, catalog.GatewayNotFound, "gateway %s: not found", name).at(field)
		}
		if len(g.Reason) > maxReason {
			return nil, problem(http.StatusBadRequest, catalog.InvalidSetting, "the reason has %d bytes: want at most %d", len(g.Reason), maxReason).
				at(fmt.Sprintf("%s.reason", field))
		}
		states = append(states, fleet.External{Gateway: name, Phase: g.Phase, Reason: g.Reason})
	}
	return states, nil
}
