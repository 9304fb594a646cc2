package session

// Reason tells why a connection was refused or how it ended. Its text is the
// same in the log, in metrics and in the admin API.
type Reason uint8

// How a connection that reached a gateway ended.
const (
	// None: still open.
	None Reason = iota
	// ClientClosed and GatewayClosed: an orderly end, by who closed first.
	ClientClosed
	GatewayClosed
	// ClientReset and GatewayReset: one side reset, and the other saw a reset.
	ClientReset
	GatewayReset
	// Idle: no byte either way for the pool's idle timeout.
	Idle
	// HalfClosed: one side had finished and the other said nothing for the
	// pool's linger timeout.
	HalfClosed
	// GatewayDown: the gateway went down and the pool says on_down close.
	GatewayDown
	// Disabled: an operator disabled the gateway.
	Disabled
	// Returned: the gateway was the stand-in of one that has its visitors again, and
	// the pool's return_after was over.
	Returned
	// Stopped: the relay stopped and the drain deadline passed.
	Stopped
	// Internal: a fault of the relay itself; the log has the stack.
	Internal

	// Denied: the source is on the deny list.
	Denied
	// SourceConns, SourceRate, TotalConns, TotalRate: a limit, by its setting.
	SourceConns
	SourceRate
	TotalConns
	TotalRate
	// BadProxyHeader: a trusted proxy sent no valid PROXY header.
	BadProxyHeader
	// NotTLS, NotHello, BadHello, HelloTooLarge: what came is no ClientHello
	// that can be routed.
	NotTLS
	NotHello
	BadHello
	HelloTooLarge
	// HelloTimeout: the ClientHello was not complete in time.
	HelloTimeout
	// HelloAborted: the visitor left before the ClientHello was complete.
	HelloAborted
	// NoName and UnknownName: no server name, or one that no route has.
	NoName
	UnknownName
	// Outage: no member of the pool could be reached.
	Outage
	// Starved: this machine was short of descriptors, ports or memory.
	Starved

	reasons // how many there are
)

var reasonNames = [reasons]string{
	None:           "open",
	ClientClosed:   "client_closed",
	GatewayClosed:  "gateway_closed",
	ClientReset:    "client_reset",
	GatewayReset:   "gateway_reset",
	Idle:           "idle",
	HalfClosed:     "half_closed",
	GatewayDown:    "gateway_down",
	Disabled:       "gateway_disabled",
	Returned:       "returned",
	Stopped:        "stopped",
	Internal:       "internal_error",
	Denied:         "denied",
	SourceConns:    "source_conns",
	SourceRate:     "source_rate",
	TotalConns:     "total_conns",
	TotalRate:      "total_rate",
	BadProxyHeader: "bad_proxy_header",
	NotTLS:         "not_tls",
	NotHello:       "not_hello",
	BadHello:       "bad_hello",
	HelloTooLarge:  "hello_too_large",
	HelloTimeout:   "hello_timeout",
	HelloAborted:   "hello_aborted",
	NoName:         "no_name",
	UnknownName:    "unknown_name",
	Outage:         "outage",
	Starved:        "out_of_resources",
}

// String is the reason as logs and metrics spell it.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Refusal tells whether the connection never reached a gateway.
func (r Reason) Refusal() bool { return r >= Denied }

// settings names what to change for a visitor who was refused by mistake.
var settings = [reasons]string{
	Denied:         "limit deny",
	SourceConns:    "limit per_source",
	SourceRate:     "limit rate",
	TotalConns:     "limit total",
	TotalRate:      "limit total_rate",
	BadProxyHeader: "trusted_proxies",
	HelloTooLarge:  "hello",
	HelloTimeout:   "hello",
	NoName:         "no_name",
	UnknownName:    "route",
	Outage:         "pool",
	Starved:        "limit total",
	Idle:           "idle",
	HalfClosed:     "linger",
	GatewayDown:    "on_down",
	Returned:       "return_after",
}

// Setting names the Caddyfile setting behind the reason, or is empty.
func (r Reason) Setting() string {
	if r >= reasons {
		return ""
	}
	return settings[r]
}

// Reasons lists all of them, for metrics.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons)
	for r := range reasons {
		all = append(all, r)
	}
	return all
}
