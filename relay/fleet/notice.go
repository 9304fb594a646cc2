package fleet

import (
	"strings"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/relay/event"
)

// notice is how people are told of an event: what kind of notice, how much it
// matters, and which incident it opens or ends.
type notice struct {
	kind     notify.Kind
	severity notify.Severity
	incident string
	words    string // in place of a reason
}

var notices = map[event.Kind]notice{
	event.GatewayDown:       {notify.GatewayState, notify.Warning, "gateway", ""},
	event.GatewayAlive:      {notify.GatewayState, notify.Resolved, "gateway", ""},
	event.GatewayFlapping:   {notify.Flapping, notify.Warning, "", ""},
	event.FailoverActivated: {notify.PoolFailover, notify.Warning, "failover", ""},
	event.FailoverRestored:  {notify.PoolRestored, notify.Resolved, "failover", ""},
	event.OutageStarted:     {notify.PoolOutage, notify.Critical, "outage", ""},
	event.OutageResolved:    {notify.PoolOutageOver, notify.Resolved, "outage", ""},
	event.AgentSilent:       {notify.AgentSilent, notify.Warning, "agent", ""},
	event.AgentConnected:    {notify.AgentBack, notify.Resolved, "agent", ""},
	event.TargetDown:        {notify.TargetDown, notify.Warning, "target", ""},
	event.TargetUp:          {notify.TargetUp, notify.Resolved, "target", ""},
	event.GatewayPaired:     {notify.Enrolled, notify.Info, "", "an agent has enrolled as this gateway"},
	event.TokenRotated:      {notify.Enrolled, notify.Info, "", "its token was changed"},
	event.TokenRevoked:      {notify.Enrolled, notify.Info, "", "its token was revoked"},
}

// Notice is what people are told of an event; false if that is nothing. What happens
// to the stand-ins of one pin is told of the gateway and of its pools.
func Notice(ev event.Event) (notify.Event, bool) {
	n, found := notices[ev.Kind]
	if !found || strings.HasPrefix(string(ev.Kind), "pool_") && ev.Pool == "" {
		return notify.Event{}, false
	}
	if ev.Kind == event.GatewayAlive && ev.From != "down" {
		return notify.Event{}, false // it was not gone
	}
	subject := "gateway " + ev.Gateway
	switch {
	case ev.Pool != "":
		subject = "pool " + ev.Pool
	case len(ev.Routes) > 0:
		subject = "route " + strings.Join(ev.Routes, ", ") + " at " + ev.Gateway
	}
	out := notify.Event{
		Site: subject, Kind: n.kind, Severity: n.severity, At: ev.At, From: ev.From, To: ev.To, Reason: ev.Reason,
	}
	if n.words != "" {
		out.Reason = n.words
		if ev.Actor != "" {
			out.Detail = "Asked by " + ev.Actor
		}
	}
	if n.incident != "" {
		out.Incident = subject + "/" + n.incident
	}
	return out, true
}
