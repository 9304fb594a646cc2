package fleet

import (
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
)

// RouteStatus tells who serves a route now, and why.
type RouteStatus struct {
	Route string   `json:"route"`
	Kind  string   `json:"kind"`
	Hosts []string `json:"hosts,omitempty"`
	Port  int      `json:"port,omitzero"`
	// Pin and Pool are what is configured; one of them is empty.
	Pin  string `json:"gateway,omitzero"`
	Pool string `json:"pool,omitzero"`
	// Serving lists who new visitors go to; empty in an outage.
	Serving []string `json:"serving"`
	// Parked says that a pinned route is served by another gateway than its own;
	// Since is when that began.
	Parked bool      `json:"parked,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Back is when the pinned gateway, which is well again, takes over; zero if
	// it is not in cooldown.
	Back    time.Time     `json:"back,omitzero"`
	Reason  string        `json:"reason"` // one sentence
	Members []RouteMember `json:"members"`
}

// RouteMember is one gateway that may serve a route, in order.
type RouteMember struct {
	Gateway string    `json:"gateway"`
	Role    pool.Role `json:"role"`
	// Avoid is why it is passed over for this route while another can serve:
	// its agent has not applied the route, or cannot reach the target.
	Avoid  string `json:"avoid,omitzero"`
	Reason string `json:"reason"`
}

// AgentStatus is what is known of one gateway's agent. It is the control channel:
// whether visitors reach the gateway is told by its health.
type AgentStatus struct {
	Gateway string `json:"gateway"`
	// State: none (never heard of), connected, silent, stopping.
	State    string            `json:"state"`
	Token    bool              `json:"token"` // it has one
	Last     time.Time         `json:"last_heartbeat,omitzero"`
	Lost     uint64            `json:"heartbeats_lost_total"`
	Beats    uint64            `json:"heartbeats_total"`
	Version  string            `json:"version,omitzero"`
	Hostname string            `json:"hostname,omitzero"`
	LAN      netip.Addr        `json:"lan,omitzero"`
	Tunnel   float64           `json:"tunnel_age_seconds,omitzero"`
	Want     string            `json:"table_wanted"`  // hash
	Applied  string            `json:"table_applied"` // hash
	Current  bool              `json:"current"`       // it has what it should
	Failed   []link.RouteFault `json:"failed,omitempty"`
}

// External is what a health source outside of Edgeward says of one gateway.
type External struct {
	Gateway string       `json:"gateway"`
	Phase   health.Phase `json:"phase"` // alive, down; unknown takes back what was said
	Reason  string       `json:"reason,omitzero"`
}
