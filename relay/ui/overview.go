package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// home is all at a glance.
type home struct {
	Pools    []card
	Gateways []api.Gateway
	Down     int // gateways
	Routes   []routeRow
	Total    int // routes
	Out      int
	Parked   int
	Disabled int
	Events   []*news
}

// Tone is that of the sentence on top.
func (h home) Tone() string {
	switch {
	case h.Out > 0:
		return "bad"
	case h.Parked > 0 || h.Down > 0:
		return "wait"
	case h.Total == 0:
		return "plain"
	}
	return "good"
}

// Enabled is how many routes visitors can ask for.
func (h home) Enabled() int { return h.Total - h.Disabled }

const (
	fewRoutes = 10
	fewEvents = "10"
)

func overview(v *visit) error {
	gateways, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	pools, err := get[[]api.Pool](v, "/edge/pools")
	if err != nil {
		return err
	}
	routes, err := get[[]api.Route](v, "/edge/routes")
	if err != nil {
		return err
	}
	events, err := get[[]event.Event](v, "/edge/events?limit="+fewEvents)
	if err != nil {
		return err
	}
	h := home{Gateways: gateways, Total: len(routes), Events: newsOfAll(events)}
	for _, g := range gateways {
		if g.Phase.String() == "down" {
			h.Down++
		}
	}
	for _, p := range pools {
		h.Pools = append(h.Pools, cardOf(p, gateways))
	}
	h.routes(routes)
	return v.show("overview", &screen{Title: "Overview", Nav: "overview", Data: h})
}

// routes counts them, and keeps the few that are shown: those in trouble first.
func (h *home) routes(list []api.Route) {
	rows := make([]routeRow, 0, len(list))
	for _, r := range list {
		row := routeRow{r}
		switch row.State() {
		case "out":
			h.Out++
		case "parked":
			h.Parked++
		case "disabled":
			h.Disabled++
		}
		rows = append(rows, row)
	}
	order := map[string]int{"out": 0, "parked": 1, "served": 2, "disabled": 3}
	slices.SortStableFunc(rows, func(a, b routeRow) int { return cmp.Compare(order[a.State()], order[b.State()]) })
	h.Routes = rows[:min(len(rows), fewRoutes)]
}

// card is a pool, with what its members carry.
type card struct {
	api.Pool
	Rows []memberRow
}

// memberRow is one member of a pool.
type memberRow struct {
	api.Member
	Open     int64 // connections, of all pools
	Operator pool.Operator
	// Endless: in a cooldown that ends only when somebody says so.
	Endless bool
}

func cardOf(p api.Pool, gateways []api.Gateway) card {
	c := card{Pool: p}
	for _, m := range p.Members {
		row := memberRow{Member: m, Endless: m.Role == pool.RoleCooldown && m.CooldownUntil.IsZero()}
		if i := slices.IndexFunc(gateways, func(g api.Gateway) bool { return g.Name == m.Gateway }); i >= 0 {
			row.Open, row.Operator = gateways[i].Open, gateways[i].Operator
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// State is a word for the pool as a whole.
func (c card) State() string {
	switch {
	case c.Config != nil && c.Config.Disabled:
		return "disabled"
	case len(c.Members) == 0:
		return "empty"
	case len(c.Serving) == 0:
		return "outage"
	case c.Policy == pool.Failover && c.Serving[0] != c.Members[0].Gateway:
		return "failed over"
	}
	return "serving"
}

// Cooling tells whether a failback would change something.
func (c card) Cooling() bool {
	return slices.ContainsFunc(c.Members, func(m api.Member) bool {
		return m.Tier == pool.TierCooldown
	})
}

// Live tells whether the relay has it now, so that an operator can act on it.
func (c card) Live() bool { return len(c.Members) > 0 && (c.Config == nil || !c.Config.Disabled) }

// FromFile tells whether it is declared in the Caddyfile.
func (c card) FromFile() bool { return c.Config == nil || c.Config.Owner == catalog.File }

// parkedGroup is routes that the same gateway serves in place of the same one.
type parkedGroup struct {
	From, To string
	Since    time.Time
	Routes   []string
}

// fewParked is how many of them are named.
const fewParked = 8

// Shown are those that are named.
func (g parkedGroup) Shown() []string { return g.Routes[:min(len(g.Routes), fewParked)] }

// More is how many are not.
func (g parkedGroup) More() int { return len(g.Routes) - len(g.Shown()) }

func parks(list []api.Parked) (groups []parkedGroup) {
	for _, p := range list {
		i := slices.IndexFunc(groups, func(g parkedGroup) bool { return g.From == p.From && g.To == p.To })
		if i < 0 {
			i = len(groups)
			groups = append(groups, parkedGroup{From: p.From, To: p.To, Since: p.Since})
		}
		groups[i].Routes = append(groups[i].Routes, p.Route)
	}
	return groups
}
