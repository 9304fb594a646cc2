package probe

import (
	"net/netip"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Reason is why a probe ended as it did. The set is closed, for metrics.
type Reason string

// The reasons.
const (
	OK             Reason = "ok"
	Refused        Reason = "refused"       // nothing listens there
	Unreachable    Reason = "unreachable"   // a router says that the host is not there
	Timeout        Reason = "timeout"       // not done in time, whatever the phase
	Reset          Reason = "reset"         // the other side ended the connection
	BadTLS         Reason = "tls"           // the handshake failed, or it is not TLS
	BadCertificate Reason = "certificate"   // expired, of an unknown authority, for another name
	BadHTTP        Reason = "http"          // the answer is not HTTP, or its head has no end
	WrongStatus    Reason = "status"        // another status than asked for
	WrongBody      Reason = "body"          // another body
	CacheControl   Reason = "cache_control" // no-store is missing
	Semantic       Reason = "semantic"      // a rule on the body does not hold
	WrongNode      Reason = "node"          // another node answered
	RateLimited    Reason = "rate_limited"  // status 429: we ask too often
	EdgeOrigin     Reason = "edge_origin"   // the edge cannot get an answer from the origin: 520 to 526
	EdgeDNS        Reason = "edge_dns"      // the edge does not accept our DNS: 1000, 1001, 1016 ...
	EdgeBlocked    Reason = "edge_blocked"  // the edge keeps the probe out: 1015, 1020, a challenge
	NoRay          Reason = "no_ray"        // the answer did not come through the edge
	Cached         Reason = "cached"        // the answer may be one that the edge remembers
	DNS            Reason = "dns"           // the name could not be found
	Cancelled      Reason = "cancelled"     // the caller gave up, or gave too little time
	Local          Reason = "local"         // our own machine: settings, descriptors, no network
)

// value is what a reason says of the path, but for DNS, where it depends.
func (r Reason) value() evidence.Value {
	switch r {
	case OK:
		return evidence.Good
	case RateLimited, EdgeDNS, EdgeBlocked, DNS, Cancelled, Local:
		return evidence.Unknown
	}
	return evidence.Bad
}

// Result is what a probe found.
type Result struct {
	Value  evidence.Value
	Reason Reason
	// Detail is one phrase for people. It holds nothing of the body and no secret.
	Detail  string
	Started time.Time
	// Took is all of it. A polite goodbye after the finding is not part of it.
	Took time.Duration
	// Resolve, Connect, Handshake and FirstByte are how long each phase took, the
	// last from the request to the first byte of the answer. Zero: not finished.
	Resolve, Connect, Handshake, FirstByte time.Duration
	// Addr is where the probe connected. Of a canary that found none, invalid.
	Addr netip.AddrPort
	// Status is the HTTP status. Zero if none was seen.
	Status      int
	Certificate Certificate
	// Ray and CacheStatus are the headers CF-Ray and CF-Cache-Status, Node is
	// X-Edge-Node, as they were seen.
	Ray, CacheStatus, Node string
	// Degraded are the rules of severity degrade that do not hold. They do not
	// change Value.
	Degraded []string
	// Lookup is how the resolvers answered a canary.
	Lookup *resolve.Found
}

// conclude sets reason and value. Only the first finding counts.
func (r *Result) conclude(reason Reason, detail string) {
	r.Reason, r.Value, r.Detail = reason, reason.value(), clip(detail)
}

// clip is text of others for a log: short, in one line, and valid.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\u2028' || c == '\u2029' {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}
