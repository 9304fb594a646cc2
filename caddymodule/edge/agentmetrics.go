package edge

import (
	"github.com/edgeward/edgeward/relay/fleet"
)

var (
	mAgentConnected = desc("agent_connected", "1 while the gateway's agent reports itself.", "gateway")
	mAgentLast      = desc("agent_last_heartbeat_timestamp_seconds", "When the agent was last heard of, in seconds since 1970.", "gateway")
	mAgentBeats     = desc("agent_heartbeats_total", "Heartbeats that came.", "gateway")
	mAgentLost      = desc("agent_heartbeats_lost_total", "Heartbeats that did not come, by their numbers.", "gateway")
	mAgentCurrent   = desc("agent_table_current", "1 if the agent has confirmed the routes that it should have.", "gateway")
	mAgentFaults    = desc("agent_route_faults", "Routes that the agent cannot serve.", "gateway")
	mEvents         = desc("events_total", "What happened, by event.", "event")
	mRoutesParked   = desc("routes_parked", "Pinned routes that another gateway serves than their own.")
	mRoutesOut      = desc("routes_without_gateway", "Routes that nobody serves.")
)

// fleet writes what is known of agents and routes.
func (m sink) fleet(f *fleet.Fleet) {
	for _, a := range f.Agents() {
		if a.State == "none" {
			continue
		}
		m.flag(mAgentConnected, a.State == "connected", a.Gateway)
		m.gauge(mAgentLast, float64(a.Last.UnixNano())/1e9, a.Gateway)
		m.count(mAgentBeats, a.Beats, a.Gateway)
		m.count(mAgentLost, a.Lost, a.Gateway)
		m.flag(mAgentCurrent, a.Current, a.Gateway)
		m.gauge(mAgentFaults, float64(len(a.Failed)), a.Gateway)
	}
	parked, out := 0, 0
	for _, r := range f.Serving() {
		if r.Parked && r.Pin != "" {
			parked++
		}
		if len(r.Serving) == 0 {
			out++
		}
	}
	m.gauge(mRoutesParked, float64(parked))
	m.gauge(mRoutesOut, float64(out))
	for kind, n := range f.Counts() {
		m.count(mEvents, n, string(kind))
	}
}
