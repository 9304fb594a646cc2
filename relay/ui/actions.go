package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
)

// action is something that a person asks for and is asked about first.
type action struct {
	Ask    string // before the name
	Verb   string // on the button
	About  string // what it will do
	Danger bool
	method string
	path   string // below the thing, in the API
	pinned bool   // it is about the pool of the routes that are pinned to the gateway
	shows  func(*visit, []byte) error
	leaves bool // the thing is gone afterwards
}

// actions are what can be done to things, by the first part of their path.
var actions = map[string]map[string]action{
	"gateways": {
		"drain": {
			Verb: "Drain", method: http.MethodPost, path: "/drain",
			About: "It gets no new connections, in any pool. Those that are open go on until they end. Before a reboot, drain it and wait until no connection is open.",
		},
		"disable": {
			Verb: "Disable", method: http.MethodPost, path: "/disable", Danger: true,
			About: "It gets no new connections, in any pool, and those that are open are closed now.",
		},
		"hold": {
			Verb: "Hold", method: http.MethodPost, path: "/hold",
			About: "Its health counts as what it is now, whatever its checks say, until you make it ready again. For work on the checks, not on the gateway.",
		},
		"ready": {
			Ask: "Make ready:", Verb: "Make ready", method: http.MethodPost, path: "/ready",
			About: "Its health decides again whether it gets connections.",
		},
		"failback": {
			Ask: "Fail back the routes of", Verb: "Fail back its routes", method: http.MethodPost, path: "/failback", pinned: true,
			About: "The routes that are pinned to it and parked elsewhere come back now, if it is alive: their cooldown ends.",
		},
		"pair": {
			Ask: "Make a pairing code for", Verb: "Make a pairing code", method: http.MethodPost, path: "/pairing-code", shows: (*visit).showCode,
			About: "The code enrols the agent at home: once, and within ten minutes. It is shown once. When it is used, a token that the gateway had before is void.",
		},
		"rotate": {
			Ask: "Rotate the token of", Verb: "Rotate the token", method: http.MethodPost, path: "/token/rotate", Danger: true, shows: (*visit).showSecret,
			About: "The agent's token is void at once, and a new one is shown here, once. Until the agent has it, it is silent. An agent that works can rotate its token by itself: edge-watchdog gateway rotate.",
		},
		"revoke": {
			Ask: "Revoke the token of", Verb: "Revoke the token", method: http.MethodDelete, path: "/token", Danger: true,
			About: "The agent's token is void at once. The agent is silent until it is paired again; the routes that it has go on being served.",
		},
		"delete": {Verb: "Delete", method: http.MethodDelete, Danger: true, leaves: true, About: "It is taken out of its pools, and its token is void."},
	},
	"pools": {
		"failover": {
			Verb: "Fail over", method: http.MethodPost, path: "/failover",
			About: "New connections go to the next member that is fit, away from who serves now. It comes back when its cooldown is over, or when you fail back.",
		},
		"failback": {
			Verb: "Fail back", method: http.MethodPost, path: "/failback",
			About: "All cooldowns end now: the first member that is alive takes over at once.",
		},
		"delete": {Verb: "Delete", method: http.MethodDelete, Danger: true, leaves: true, About: "Its members stay, as gateways."},
	},
	"routes": {
		"delete": {
			Verb: "Delete", method: http.MethodDelete, Danger: true, leaves: true,
			About: "Visitors who ask for it are turned away from then on.",
		},
	},
}

// singular is what one of them is called.
var singular = map[string]string{"gateways": "gateway", "pools": "pool", "routes": "route"}

// question is asked before an action.
type question struct {
	action
	Thing, Name, Kind string
	Revision          string
	Uses              []string // routes that stand in the way of a deletion
	Touches           []string // pools that it serves in, or routes that it serves
	Back              string
}

// Asks is what the question begins with.
func (q *question) Asks() string { return cmp.Or(q.Ask, q.Verb) + " " + q.Kind }

func (v *visit) question() (*question, error) {
	thing := v.r.PathValue("thing")
	a, ok := actions[thing][v.r.PathValue("action")]
	if !ok {
		return nil, nothing("nothing is served at %s", v.r.URL.Path)
	}
	q := &question{action: a, Thing: thing, Kind: singular[thing], Name: v.name(), Back: link(thing, v.name())}
	switch thing {
	case "gateways":
		return q, v.aboutGateway(q)
	case "pools":
		return q, v.aboutPool(q)
	default:
		return q, v.aboutRoute(q)
	}
}

func (v *visit) aboutGateway(q *question) error {
	g, err := get[api.Gateway](v, "/edge/gateways/"+url.PathEscape(q.Name))
	if err != nil {
		return err
	}
	if g.Config != nil {
		q.Revision = strconv.FormatUint(g.Config.Revision, 10)
	}
	q.Touches = g.Pools
	return v.uses(q, func(r *api.Route) bool { return r.Config.Gateway == q.Name }, g.Config == nil || g.Config.Owner == catalog.File)
}

func (v *visit) aboutPool(q *question) error {
	p, err := get[api.Pool](v, "/edge/pools/"+url.PathEscape(q.Name))
	if err != nil {
		return err
	}
	if p.Config != nil {
		q.Revision = strconv.FormatUint(p.Config.Revision, 10)
	}
	return v.uses(q, func(r *api.Route) bool { return r.Config.Pool == q.Name }, p.Config == nil || p.Config.Owner == catalog.File)
}

func (v *visit) aboutRoute(q *question) error {
	r, err := get[api.Route](v, "/edge/routes/"+url.PathEscape(q.Name))
	if err != nil {
		return err
	}
	q.Revision = strconv.FormatUint(r.Config.Revision, 10)
	if r.Config.Owner == catalog.File {
		return ownedByFile(q.Kind, q.Name)
	}
	return nil
}

// uses finds the routes that need a thing.
func (v *visit) uses(q *question, which func(*api.Route) bool, file bool) error {
	if q.leaves && file {
		return ownedByFile(q.Kind, q.Name)
	}
	rows, err := routesOf(v, which)
	if err != nil {
		return err
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if q.leaves {
		q.Uses = names
	} else if q.Thing == "pools" {
		q.Touches = names
	}
	return nil
}

// confirm asks.
func confirm(v *visit) error {
	return writers(func(v *visit) error { return v.wonder(nil) })(v)
}

func (v *visit) wonder(p *api.Problem) error {
	q, err := v.question()
	if err != nil {
		return err
	}
	return v.render(status(p), "confirm", &screen{Title: q.Asks() + " " + q.Name, Nav: navOf[q.Thing], Problem: p, Data: q})
}

var navOf = map[string]string{"gateways": "gateways", "pools": "overview", "routes": "routes"}

// act does it.
func act(v *visit) error {
	thing, name := v.r.PathValue("thing"), v.r.PathValue("action")
	a, ok := actions[thing][name]
	if !ok {
		return nothing("nothing is served at %s", v.r.URL.Path)
	}
	revision := ""
	if a.leaves {
		revision = v.r.PostForm.Get("revision")
	}
	at := "/edge/" + thing + "/" + url.PathEscape(v.name())
	if a.pinned {
		at = "/edge/pools/" + url.PathEscape(catalog.PinPool(v.name()))
	}
	answer, err := v.send(a.method, at+a.path, nil, revision)
	if p := problemOf(err); p != nil && p.Status != http.StatusNotFound {
		return v.wonder(p)
	}
	switch {
	case err != nil:
		return err
	case a.shows != nil:
		return a.shows(v, answer)
	case !a.leaves:
		return v.redirect(link(thing, v.name()) + "?did=" + name)
	case thing == "pools":
		return v.redirect(Root + "?did=deleted")
	}
	return v.redirect(link(thing) + "?did=deleted")
}
