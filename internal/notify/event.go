package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Kind is what happened.
type Kind string

// The kinds. There are no others.
const (
	// Switched: visitors of the site were moved to another path, and it was seen
	// to have worked.
	Switched Kind = "switched"
	// SwitchFailed: they should have been, and it was not seen to have worked.
	SwitchFailed Kind = "switch_failed"
	// Returned: they are back on the preferred path.
	Returned Kind = "returned"
	// Repaired: records were put right; nobody was moved.
	Repaired Kind = "repaired"
	// Hold: something is wrong and nothing is done about it, for a reason.
	Hold Kind = "hold"
	// Outage: no path works.
	Outage Kind = "outage"
	// OutageOver: one works again.
	OutageOver Kind = "outage_over"
	// Blind: our own connectivity is gone, so that nothing is known.
	Blind Kind = "blind"
	// Sighted: it is back.
	Sighted Kind = "sighted"
	// Quarantined: a record is not touched any more, for a reason.
	Quarantined Kind = "quarantined"
	// QuarantineOver: it is again.
	QuarantineOver Kind = "quarantine_over"
	// ProviderRefusing: a switch is wanted and the provider does not do it.
	ProviderRefusing Kind = "provider_refusing"
	// ProviderOK: it does again.
	ProviderOK Kind = "provider_ok"
	// Certificate: one expires soon, or does not fit.
	Certificate Kind = "certificate"
	// StandbyDown: a path that is not in use would not work if it were needed.
	StandbyDown Kind = "standby_down"
	// StandbyUp: it would again.
	StandbyUp Kind = "standby_up"
	// Paused: somebody paused writes.
	Paused Kind = "paused"
	// Resumed: writes are allowed again.
	Resumed Kind = "resumed"
	// Fatal: the watchdog stopped, or cannot go on.
	Fatal Kind = "fatal"
	// Started: the watchdog runs.
	Started Kind = "started"
	// Test: somebody tries whether messages arrive.
	Test Kind = "test"
)

// The kinds of a relay. Site is a gateway, a pool or a route there, and From and To
// are phases or gateways.
const (
	// GatewayState: a gateway is down, or alive again.
	GatewayState Kind = "gateway_state_change"
	// Flapping: it goes down again and again.
	Flapping Kind = "gateway_flap_warning"
	// PoolFailover: another member of a pool serves than the first.
	PoolFailover Kind = "pool_failover_activated"
	// PoolRestored: the first one serves again.
	PoolRestored Kind = "pool_failover_restored"
	// PoolOutage: no member of a pool is alive.
	PoolOutage Kind = "pool_outage_started"
	// PoolOutageOver: one is again.
	PoolOutageOver Kind = "pool_outage_resolved"
	// AgentSilent: an agent does not report itself.
	AgentSilent Kind = "agent_silent"
	// AgentBack: it does again.
	AgentBack Kind = "agent_connected"
	// TargetDown: a server behind a gateway cannot be reached from there.
	TargetDown Kind = "target_unreachable"
	// TargetUp: it can again.
	TargetUp Kind = "target_reachable"
	// Enrolled: a gateway has paired, or its token has changed.
	Enrolled Kind = "gateway_credentials"
)

// The kinds of the fallback. Site is the home whose services it is about, and Reason says
// the rest.
const (
	// CoverBegan: another home runs its services now.
	CoverBegan Kind = "cover_began"
	// CoverOver: it runs them itself again.
	CoverOver Kind = "cover_over"
	// TierStarted: a home that covers has started one more tier.
	TierStarted Kind = "tier_started"
	// ItemFailed: an item could not be started, stopped or seen.
	ItemFailed Kind = "item_failed"
	// HandbackBegan: the services go back.
	HandbackBegan Kind = "handback_began"
	// HandbackFailed: they do not, for now.
	HandbackFailed Kind = "handback_failed"
	// NeedsPerson: nothing is done until somebody says so.
	NeedsPerson Kind = "needs_person"
	// PersonSaid: somebody did.
	PersonSaid Kind = "person_said"
	// LeaseLost: the home may not act, and has stopped what only the holder may run.
	LeaseLost Kind = "lease_lost"
	// LeaseBack: it may again.
	LeaseBack Kind = "lease_back"
	// DataConflict: data was newer where it was carried to. Both are kept.
	DataConflict Kind = "data_conflict"
	// DrillDue: the last good drill is too long ago.
	DrillDue Kind = "drill_due"
	// DrillDone: there was one.
	DrillDone Kind = "drill_done"
)

var kinds = []Kind{
	Switched, SwitchFailed, Returned, Repaired, Hold, Outage, OutageOver, Blind, Sighted, Quarantined,
	QuarantineOver, ProviderRefusing, ProviderOK, Certificate, StandbyDown, StandbyUp, Paused, Resumed, Fatal, Started, Test,
	GatewayState, Flapping, PoolFailover, PoolRestored, PoolOutage, PoolOutageOver, AgentSilent, AgentBack, TargetDown, TargetUp, Enrolled,
	CoverBegan, CoverOver, TierStarted, ItemFailed, HandbackBegan, HandbackFailed, NeedsPerson, PersonSaid, LeaseLost, LeaseBack, DataConflict, DrillDue, DrillDone,
}

// Severity is how much it matters.
type Severity string

// The severities. There are no others.
const (
	// Info is for the record: nobody needs to do anything.
	Info Severity = "info"
	// Warning opens an incident: somebody should look.
	Warning Severity = "warning"
	// Critical opens one that visitors notice, or will soon. It is never dropped
	// while there is something else to drop.
	Critical Severity = "critical"
	// Resolved ends an incident.
	Resolved Severity = "resolved"
)

var severities = []Severity{Info, Warning, Critical, Resolved}

// Event is something to tell.
type Event struct {
	// Incident names what it is about, the same from its first event to the one
	// that ends it. Empty: it stands alone, and is never a repetition.
	Incident string    `json:"incident,omitempty"`
	Site     string    `json:"site,omitempty"`
	Kind     Kind      `json:"kind"`
	Severity Severity  `json:"severity"`
	At       time.Time `json:"at"`
	// From and To are paths.
	From   string       `json:"from,omitempty"`
	To     string       `json:"to,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Paths  []PathHealth `json:"paths,omitempty"`
	Detail string       `json:"detail,omitempty"`
}

// PathHealth is what was known of a path then.
type PathHealth struct {
	Name      string         `json:"name"`
	Value     evidence.Value `json:"value"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	Detail    string         `json:"detail,omitempty"`
	Preferred bool           `json:"preferred,omitempty"`
	Serving   bool           `json:"serving,omitempty"`
}

// What an event may hold. More is cut off: an error message from outside must not
// fill the disk.
const (
	maxName  = 128
	maxText  = 1000
	maxPaths = 12
	maxAddrs = 6
)

// checked returns the event within its limits.
func (e Event) checked(now time.Time) (Event, error) {
	if !slices.Contains(kinds, e.Kind) {
		return e, fmt.Errorf("event has kind %q: there is no such kind", e.Kind)
	}
	if !slices.Contains(severities, e.Severity) {
		return e, fmt.Errorf("event %s has severity %q: want info, warning, critical or resolved", e.Kind, e.Severity)
	}
	if len(e.Incident) > maxName {
		return e, fmt.Errorf("event %s names its incident with %d bytes, at most %d are allowed", e.Kind, len(e.Incident), maxName)
	}
	if year := e.At.UTC().Year(); year < 1970 || year > 9999 {
		e.At = now // also if it is zero; JSON has no years beyond that
	}
	e.At = e.At.UTC().Round(0)
	e.Site, e.From, e.To = clip(e.Site, maxName), clip(e.From, maxName), clip(e.To, maxName)
	e.Reason, e.Detail = clip(e.Reason, maxText), clip(e.Detail, maxText)
	e.Paths = slices.Clone(e.Paths[:min(len(e.Paths), maxPaths)])
	for i := range e.Paths {
		p := &e.Paths[i]
		p.Name, p.Detail = clip(p.Name, maxName), clip(p.Detail, maxText/5)
		p.Addresses = slices.DeleteFunc(slices.Clone(p.Addresses), func(a netip.Addr) bool { return !a.IsValid() })
		p.Addresses = p.Addresses[:min(len(p.Addresses), maxAddrs)]
		if p.Value > evidence.Bad {
			p.Value = evidence.Unknown
		}
	}
	return e, nil
}

// id is what a receiver can tell a repetition by. It is the same however often,
// and in whatever process, the event is sent.
func (e Event) id(reminder int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %d %d", e.Incident, e.Site, e.Kind, e.From, e.To, e.At.UnixNano(), reminder)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// clip makes text one that can be shown: no control characters but newlines, and
// at most limit bytes.
func clip(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return ' ' // also what changes the direction of writing
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return shorten(strings.TrimSpace(text), limit)
}

// shorten cuts at a rune, and says so.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const dots = "…"
	limit = max(limit-len(dots), 0)
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + dots
}

// oneLine joins lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// named returns the first that is not empty, on one line.
func named(names ...string) string { return oneLine(cmp.Or(names...)) }
