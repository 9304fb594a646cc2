// Package event is what happened: to gateways, to pools, and by whose hand. Each
// fact is one event, with a stable name, in the log, in the stream, in hooks and
// in notices alike.
package event

import "time"

// Kind is the stable name of an event.
type Kind string

// The events that health makes.
const (
	GatewayDown       Kind = "gateway_down"
	GatewayAlive      Kind = "gateway_alive"
	GatewayUnknown    Kind = "gateway_unknown"
	RecoveryCut       Kind = "gateway_recovery_interrupted"
	FailoverActivated Kind = "pool_failover_activated"
	FailoverRestored  Kind = "pool_failover_restored"
	OutageStarted     Kind = "pool_outage_started"
	OutageResolved    Kind = "pool_outage_resolved"
	GatewayFlapping   Kind = "gateway_flap_warning"
)

// The events of agents.
const (
	AgentConnected Kind = "agent_connected"
	AgentSilent    Kind = "agent_silent" // the control channel; the data path has its own events
	AgentApplied   Kind = "agent_applied"
	AgentFailed    Kind = "agent_apply_failed"
	TargetDown     Kind = "target_unreachable"
	TargetUp       Kind = "target_reachable"
)

// The events that people make.
const (
	GatewayCreated  Kind = "gateway_created"
	GatewayUpdated  Kind = "gateway_updated"
	GatewayDeleted  Kind = "gateway_deleted"
	PoolCreated     Kind = "pool_created"
	PoolUpdated     Kind = "pool_updated"
	PoolDeleted     Kind = "pool_deleted"
	MembersChanged  Kind = "pool_members_changed"
	RouteCreated    Kind = "route_created"
	RouteUpdated    Kind = "route_updated"
	RouteDeleted    Kind = "route_deleted"
	RoutesMigrated  Kind = "routes_migrated"
	RoutesRelocated Kind = "routes_relocated"
	OperatorState   Kind = "operator_state" // drain, disabled, hold, ready
	OperatorPool    Kind = "operator_pool"  // failover, failback
	CodeMade        Kind = "pairing_code_created"
	GatewayPaired   Kind = "gateway_paired"
	TokenRotated    Kind = "gateway_token_rotated"
	TokenRevoked    Kind = "gateway_token_revoked"
	Restored        Kind = "backup_restored"
)

// Event is one thing that happened.
type Event struct {
	// ID grows by one with each event that is kept. Zero until then.
	ID    uint64    `json:"id"`
	At    time.Time `json:"at"`
	Kind  Kind      `json:"event"`
	Actor string    `json:"actor,omitzero"` // who asked; empty if nobody did

	Gateway string   `json:"gateway,omitzero"`
	Pool    string   `json:"pool,omitzero"`
	Routes  []string `json:"routes,omitempty"`
	From    string   `json:"from,omitzero"` // phase, gateway or state before
	To      string   `json:"to,omitzero"`   // and after
	Reason  string   `json:"reason,omitzero"`
}
