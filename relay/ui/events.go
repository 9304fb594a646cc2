package ui

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/event"
)

const eventsPage = 50

// eventList is a page of what happened, the newest first.
type eventList struct {
	form
	List  []*news
	Older string
	First bool // the page with the newest
	Kinds []event.Kind
}

// kinds are what one can ask for.
var kinds = []event.Kind{
	event.GatewayDown, event.GatewayAlive, event.GatewayUnknown, event.RecoveryCut, event.GatewayFlapping,
	event.FailoverActivated, event.FailoverRestored, event.OutageStarted, event.OutageResolved,
	event.AgentConnected, event.AgentSilent, event.AgentApplied, event.AgentFailed, event.TargetDown, event.TargetUp,
	event.GatewayCreated, event.GatewayUpdated, event.GatewayDeleted, event.PoolCreated, event.PoolUpdated, event.PoolDeleted,
	event.MembersChanged, event.RouteCreated, event.RouteUpdated, event.RouteDeleted, event.RoutesMigrated, event.RoutesRelocated,
	event.OperatorState, event.OperatorPool, event.CodeMade, event.GatewayPaired, event.TokenRotated, event.TokenRevoked, event.Restored,
}

func showEvents(v *visit) error {
	typed := v.r.URL.Query()
	l := eventList{form: form{Values: typed}, First: typed.Get("before") == "", Kinds: kinds}
	query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
	for _, name := range []string{"kind", "gateway", "pool", "route", "before"} {
		if text := strings.TrimSpace(typed.Get(name)); text != "" {
			query.Set(name, text)
		}
	}
	list, err := get[[]event.Event](v, "/edge/events?"+query.Encode())
	if err != nil {
		return err
	}
	l.List = newsOfAll(list)
	if len(list) == eventsPage {
		query.Del("limit")
		query.Set("before", strconv.FormatUint(list[0].ID, 10))
		l.Older = link("events") + "?" + query.Encode()
	}
	return v.show("events", &screen{Title: "Events", Nav: "events", Data: l})
}
