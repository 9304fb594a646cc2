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
	"github.com/edgeward/edgeward/relay/pool"
)

// Route is a route: how it is configured, and who serves it now.
type Route struct {
	Name   string        `json:"name"`
	Config catalog.Route `json:"config"`
	// Status is missing for a moment after an edit, and for a disabled route.
	Status *RouteStatus `json:"status,omitempty"`
}

// RouteStatus tells who serves a route, and why.
type RouteStatus struct {
	Serving []string `json:"serving"` // none in an outage
	// Parked says that another gateway than the pinned one serves it, since Since.
	Parked bool      `json:"parked,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Back is when the pinned gateway, which is well again, takes over.
	Back     time.Time           `json:"back,omitzero"`
	BackLeft float64             `json:"back_left_seconds,omitzero"`
	Reason   string              `json:"reason"`
	Members  []fleet.RouteMember `json:"members"`
}

func routeStatus(s *fleet.RouteStatus) *RouteStatus {
	st := &RouteStatus{
		Serving: s.Serving, Parked: s.Parked, Since: s.Since, Back: s.Back, Reason: s.Reason, Members: s.Members,
	}
	if st.Serving == nil {
		st.Serving = []string{}
	}
	if st.Members == nil {
		st.Members = []fleet.RouteMember{}
	}
	if !s.Back.IsZero() {
		st.BackLeft = secondsLeft(s.Back)
	}
	return st
}

// route finds one.
func (c *call) route(now *catalog.Catalog) (Route, bool) {
	config, ok := now.Routes[c.name()]
	if !ok {
		return Route{}, false
	}
	r := Route{Name: config.Name, Config: config}
	list := c.fleet.Serving()
	if i := slices.IndexFunc(list, func(s fleet.RouteStatus) bool { return s.Route == config.Name }); i >= 0 {
		r.Status = routeStatus(&list[i])
	}
	return r, true
}

func getRoute(c *call) error {
	r, ok := c.route(c.fleet.Catalog())
	if !ok {
		return noRoute(c.name())
	}
	return c.one(r.Config.Revision, r)
}

func noRoute(name string) *Problem {
	return problem(http.StatusNotFound, catalog.RouteNotFound, "route %s: not found", name)
}

func createRoute(c *call) error {
	var sent catalog.Route
	if err := body(c, &sent); err != nil {
		return err
	}
	sent.Owner, sent.Revision = catalog.API, 0
	now, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return now.CreateRoute(sent)
	})
	if err != nil {
		return err
	}
	c.r.SetPathValue("name", sent.Name)
	r, ok := c.route(now)
	if !ok {
		return noRoute(sent.Name)
	}
	return c.created("/edge/routes/"+url.PathEscape(sent.Name), r.Config.Revision, r)
}

func putRoute(c *call) error {
	var sent catalog.Route
	if err := body(c, &sent); err != nil {
		return err
	}
	return c.changeRoute(func(catalog.Route) (catalog.Route, error) { return sent, nil })
}

func patchRoute(c *call) error {
	data, err := c.read()
	if err != nil {
		return err
	}
	return c.changeRoute(func(was catalog.Route) (catalog.Route, error) { return patch(data, &was) })
}

func (c *call) changeRoute(change func(catalog.Route) (catalog.Route, error)) error {
	now, err := c.editRoute(func(now *catalog.Catalog, was catalog.Route) (*catalog.Catalog, []event.Event, error) {
		next, err := change(was)
		if err := errors.Join(err, seen(next.Revision, was.Revision), sameName(&next.Name, c.name())); err != nil {
			return nil, nil, err
		}
		next.Owner, next.Revision = was.Owner, was.Revision
		return now.UpdateRoute(next)
	})
	if err != nil {
		return err
	}
	r, ok := c.route(now)
	if !ok {
		return noRoute(c.name())
	}
	return c.one(r.Config.Revision, r)
}

func (c *call) editRoute(change func(*catalog.Catalog, catalog.Route) (*catalog.Catalog, []event.Event, error)) (*catalog.Catalog, error) {
	return c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		was, ok := now.Routes[c.name()]
		if !ok {
			return nil, nil, noRoute(c.name())
		}
		if err := c.match(was.Revision); err != nil {
			return nil, nil, err
		}
		return change(now, was)
	})
}

func deleteRoute(c *call) error {
	if _, err := c.editRoute(func(now *catalog.Catalog, _ catalog.Route) (*catalog.Catalog, []event.Event, error) {
		return now.DeleteRoute(c.name())
	}); err != nil {
		return err
	}
	return c.done()
}

// serving answers who serves what, in one call.
func serving(c *call) error {
	list := slices.Clone(c.fleet.Serving())
	for i := range list {
		if list[i].Serving == nil {
			list[i].Serving = []string{}
		}
		if list[i].Members == nil {
			list[i].Members = []fleet.RouteMember{}
		}
	}
	if list == nil {
		list = []fleet.RouteStatus{}
	}
	return page(c, list, func(s fleet.RouteStatus) string { return s.Route })
}

// Candidates are the routes that may move to another gateway or into a pool, and
// the pools there are.
type Candidates struct {
	Routes []catalog.Candidate `json:"routes"`
	Pools  []CandidatePool     `json:"pools"`
}

// CandidatePool is a pool that routes may move into.
type CandidatePool struct {
	Name     string      `json:"name"`
	Policy   pool.Policy `json:"policy"`
	Members  []string    `json:"members"`
	Disabled bool        `json:"disabled,omitzero"`
}

func candidates(c *call) error {
	now := c.fleet.Catalog()
	answer := Candidates{Routes: now.Migration(), Pools: []CandidatePool{}}
	if answer.Routes == nil {
		answer.Routes = []catalog.Candidate{}
	}
	for _, p := range now.Pools {
		members := []string{}
		for _, m := range p.Members {
			members = append(members, m.Gateway)
		}
		answer.Pools = append(answer.Pools, CandidatePool{p.Name, p.Policy, members, p.Disabled})
	}
	slices.SortFunc(answer.Pools, func(a, b CandidatePool) int { return cmp.Compare(a.Name, b.Name) })
	return c.answer(answer)
}

// Migration names the routes that are to move into a pool.
type Migration struct {
	Routes []string `json:"routes"`
}

// Moved tells how many routes moved.
type Moved struct {
	Migrated int      `json:"migrated"`
	Routes   []string `json:"routes"`
}

func migrate(c *call) error {
	var sent Migration
	if err := body(c, &sent); err != nil {
		return err
	}
	moved := Moved{Routes: []string{}}
	return c.editPool(func(now *catalog.Catalog, _ catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		next, did, err := now.Migrate(c.name(), sent.Routes)
		moved = movedBy(did)
		return next, did, err
	}, func(c *call) error { return c.once(moved) })
}

// movedBy reads off the events what has moved: routes that were there already
// are in none.
func movedBy(did []event.Event) Moved {
	m := Moved{Routes: []string{}}
	for _, e := range did {
		m.Routes = append(m.Routes, e.Routes...)
	}
	m.Migrated = len(m.Routes)
	return m
}

// Relocation pins routes to a gateway, at new addresses behind it.
type Relocation struct {
	Gateway string         `json:"gateway"`
	Items   []catalog.Move `json:"items"`
}

func relocate(c *call) error {
	var sent Relocation
	if err := body(c, &sent); err != nil {
		return err
	}
	var moved Moved
	if _, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		next, did, err := now.Relocate(sent.Gateway, sent.Items)
		moved = movedBy(did)
		return next, did, err
	}); err != nil {
		return err
	}
	return c.once(moved)
}

func backup(c *call) error {
	c.w.Header().Set("Content-Disposition", `attachment; filename="edgeward-backup.json"`)
	return c.answer(c.fleet.Catalog().Backup())
}

func restore(c *call) error {
	var sent catalog.Backup
	if err := body(c, &sent); err != nil {
		return err
	}
	now, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		held, err := encode(now.Backup())
		if err != nil {
			return nil, nil, err
		}
		etag := listTag(held)
		if err := c.matchTag(func(t string) bool { return t == etag }, etag); err != nil {
			return nil, nil, err
		}
		return now.Restore(sent)
	})
	if err != nil {
		return err
	}
	return c.answer(now.Backup())
}
