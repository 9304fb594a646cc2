package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

// Pool is a pool: who is what in it and why, what it carried, and how it is
// configured.
type Pool struct {
	monitor.PoolView
	Members   []Member `json:"members"`
	Failback  float64  `json:"failback_seconds"`
	Serving   []string `json:"serving"`
	Open      int64    `json:"open_connections"`
	Served    uint64   `json:"served_total"`
	Outages   uint64   `json:"outages_total"`
	BytesUp   uint64   `json:"bytes_up_total"`
	BytesDown uint64   `json:"bytes_down_total"`
	// Derived says that it is made of a gateway and those that stand in for it,
	// for the routes pinned to that gateway.
	Derived bool `json:"derived,omitzero"`
	// Parked lists routes whose home is one of its members, and that another one
	// serves now.
	Parked []Parked      `json:"parked"`
	Config *catalog.Pool `json:"config,omitempty"`
}

// Member is a gateway in a pool.
type Member struct {
	pool.MemberView
	// Phase is the gateway's health, whatever its role here.
	Phase health.Phase `json:"phase"`
	// CooldownLeft is how long until its cooldown ends.
	CooldownLeft float64 `json:"cooldown_left_seconds,omitzero"`
}

// Parked is a route that another gateway serves than the one it is pinned to, or
// than the first of its failover pool.
type Parked struct {
	Route string    `json:"route"`
	From  string    `json:"from"`
	To    string    `json:"to"`
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why"`
}

// parked lists them by the gateway that is their home.
func parked(list []fleet.RouteStatus) map[string][]Parked {
	out := map[string][]Parked{}
	for i := range list {
		if r := &list[i]; r.Parked && len(r.Serving) > 0 {
			home := r.Pin
			if home == "" && len(r.Members) > 0 {
				home = r.Members[0].Gateway
			}
			out[home] = append(out[home], Parked{r.Route, home, r.Serving[0], r.Since, r.Reason})
		}
	}
	return out
}

// allPools are those that are live, and those that are only configured: they are
// disabled, or nobody is in them.
func (s *scene) allPools(derived bool) []Pool {
	list := make([]Pool, 0, len(s.snapshot.Pools))
	live := map[string]bool{}
	for _, v := range s.snapshot.Pools {
		live[v.Name] = true
		if derived || !isDerived(v.Name) {
			list = append(list, s.poolOf(v))
		}
	}
	for name, p := range s.catalog.Pools {
		if !live[name] {
			list = append(list, s.poolOf(idle(p)))
		}
	}
	slices.SortFunc(list, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (s *scene) pool(name string) (Pool, bool) {
	i := slices.IndexFunc(s.snapshot.Pools, func(p monitor.PoolView) bool { return p.Name == name })
	if i >= 0 {
		return s.poolOf(s.snapshot.Pools[i]), true
	}
	p, ok := s.catalog.Pools[name]
	if !ok {
		return Pool{}, false
	}
	return s.poolOf(idle(p)), true
}

// idle is the view of a pool that the relay does not have.
func idle(p catalog.Pool) monitor.PoolView {
	v := monitor.PoolView{View: pool.View{Name: p.Name, Policy: p.Policy}}
	for _, m := range p.Members {
		v.Members = append(v.Members, pool.MemberView{
			Gateway: m.Gateway, Weight: max(m.Weight, 1), Tier: pool.TierNone, Role: pool.RoleDisabled,
			Reason: "disabled: the pool is disabled",
		})
	}
	return v
}

func (s *scene) poolOf(v monitor.PoolView) Pool {
	p := Pool{
		PoolView: v, Failback: max(v.Failback, 0).Seconds(), Members: []Member{}, Serving: []string{},
		Derived: isDerived(v.Name), Parked: []Parked{},
	}
	for _, m := range v.Members {
		p.Members = append(p.Members, s.memberOf(m))
		if m.Role == pool.RoleServing {
			p.Serving = append(p.Serving, m.Gateway)
		}
	}
	if l := v.Live; l != nil {
		p.Open, p.Served, p.Outages = l.Open.Load(), l.Served.Load(), l.Outages.Load()
		p.BytesUp, p.BytesDown = l.BytesUp.Load(), l.BytesDown.Load()
	}
	for _, m := range v.Members {
		for _, r := range s.parked[m.Gateway] {
			if v.Index(r.To) >= 0 {
				p.Parked = append(p.Parked, r)
			}
		}
	}
	if config, ok := s.catalog.Pools[v.Name]; ok {
		config.Members = slices.Clone(config.Members)
		if config.Members == nil {
			config.Members = []pool.Member{}
		}
		p.Config = &config
	}
	return p
}

func (s *scene) memberOf(v pool.MemberView) Member {
	m := Member{MemberView: v}
	if i, ok := slices.BinarySearchFunc(s.snapshot.Gateways, v.Gateway, func(g monitor.GatewayView, name string) int {
		return cmp.Compare(g.Name, name)
	}); ok {
		m.Phase = s.snapshot.Gateways[i].Phase
	}
	if !v.CooldownUntil.IsZero() {
		m.CooldownLeft = secondsLeft(v.CooldownUntil)
	}
	return m
}

// secondsLeft is how long until a time, to the tenth.
func secondsLeft(t time.Time) float64 {
	return max(time.Until(t).Round(100*time.Millisecond), 0).Seconds()
}

func (p Pool) revision() uint64 {
	if p.Config == nil {
		return 0
	}
	return p.Config.Revision
}

func listPools(c *call) error {
	return page(c, c.scene().allPools(c.flag("derived")), func(p Pool) string { return p.Name })
}

func getPool(c *call) error {
	p, ok := c.scene().pool(c.name())
	if !ok {
		return noPool(c.name())
	}
	return c.one(p.revision(), p)
}

func noPool(name string) *Problem {
	return problem(http.StatusNotFound, catalog.PoolNotFound, "pool %s: not found", name)
}

func createPool(c *call) error {
	var p catalog.Pool
	if err := body(c, &p); err != nil {
		return err
	}
	p.Owner, p.Revision = catalog.API, 0
	if _, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return now.CreatePool(p)
	}); err != nil {
		return err
	}
	made, ok := c.scene().pool(p.Name)
	if !ok {
		return noPool(p.Name)
	}
	return c.created("/edge/pools/"+url.PathEscape(p.Name), made.revision(), made)
}

func putPool(c *call) error {
	var sent catalog.Pool
	if err := body(c, &sent); err != nil {
		return err
	}
	return c.changePool(func(was catalog.Pool) (catalog.Pool, error) {
		if sent.Members == nil { // settings alone: members have their own place
			sent.Members = was.Members
		}
		return sent, nil
	})
}

func patchPool(c *call) error {
	data, err := c.read()
	if err != nil {
		return err
	}
	return c.changePool(func(was catalog.Pool) (catalog.Pool, error) { return patch(data, &was) })
}

// changePool changes a pool, and its members with it, in one edit.
func (c *call) changePool(change func(catalog.Pool) (catalog.Pool, error)) error {
	return c.editPool(func(now *catalog.Catalog, was catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		p, err := change(was)
		if err := errors.Join(err, seen(p.Revision, was.Revision), sameName(&p.Name, c.name())); err != nil {
			return nil, nil, err
		}
		p.Owner, p.Revision = was.Owner, was.Revision
		return now.UpdatePool(p)
	}, getPool)
}

// editPool makes a change of one pool, and answers.
func (c *call) editPool(change func(*catalog.Catalog, catalog.Pool) (*catalog.Catalog, []event.Event, error), answer func(*call) error) error {
	_, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		was, ok := now.Pools[c.name()]
		if !ok {
			return nil, nil, noPool(c.name())
		}
		if err := c.match(was.Revision); err != nil {
			return nil, nil, err
		}
		return change(now, was)
	})
	if err != nil {
		return err
	}
	return answer(c)
}

func deletePool(c *call) error {
	return c.editPool(func(now *catalog.Catalog, _ catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		return now.DeletePool(c.name())
	}, (*call).done)
}

func actOnPool(c *call) (err error) {
	switch action := c.r.PathValue("action"); action {
	case "failover":
		err = c.fleet.FailOver(c.ctx(), c.name(), c.actor())
	case "failback":
		err = c.fleet.FailBack(c.ctx(), c.name(), c.actor())
	default:
		return problem(http.StatusNotFound, actionUnknown, "action %q: want failover or failback", action)
	}
	if err != nil {
		return operatorError(coded(err, catalog.PoolNotFound))
	}
	return getPool(c)
}
