package notify

import (
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Title says in one line what happened.
func (e Event) Title() string {
	subject := named(e.Site, "watchdog")
	return shorten(subject+": "+oneLine(e.sentence()), 250)
}

func (e Event) sentence() string {
	from, to, reason := named(e.From, "another path"), named(e.To, "another path"), named(e.Reason, "no reason given")
	switch e.Kind {
	case Switched:
		return fmt.Sprintf("moved from %s to %s", from, to)
	case SwitchFailed:
		return fmt.Sprintf("could not move from %s to %s: %s", from, to, reason)
	case Returned:
		return fmt.Sprintf("back on %s", to)
	case Repaired:
		return "records repaired, visitors stay on " + named(e.To, e.From, "the same path")
	case Hold:
		return "nothing is changed: " + reason
	case Outage:
		return "no path works"
	case OutageOver:
		return "reachable again through " + to
	case Blind:
		return "our own connectivity is gone, nothing is known and nothing is changed"
	case Sighted:
		return "our own connectivity is back"
	case Quarantined:
		return "a record is left alone: " + reason
	case QuarantineOver:
		return "the record is managed again"
	case ProviderRefusing:
		return fmt.Sprintf("wanted %s, provider refusing: %s", to, reason)
	case ProviderOK:
		return "the provider takes changes again"
	case Certificate:
		return "certificate: " + reason
	case StandbyDown:
		return fmt.Sprintf("standby %s would not work: %s", named(e.To, e.From, "path"), reason)
	case StandbyUp:
		return fmt.Sprintf("standby %s would work again", named(e.To, e.From, "path"))
	case Paused:
		return "writes are paused: " + reason
	case Resumed:
		return "writes are allowed again"
	case Fatal:
		return "stopped: " + reason
	case Started:
		return "started"
	case Test:
		return "this is a test message"
	}
	return e.ofRelay(from, to, reason)
}

// ofRelay is the sentence of what happens at a relay.
func (e Event) ofRelay(from, to, reason string) string {
	switch e.Kind {
	case GatewayState:
		return fmt.Sprintf("%s, was %s: %s", to, from, reason)
	case Flapping:
		return "goes down again and again: " + reason
	case PoolFailover:
		return fmt.Sprintf("served by %s in place of %s: %s", to, from, reason)
	case PoolRestored:
		return fmt.Sprintf("served by %s again", to)
	case PoolOutage:
		return "nobody serves: " + reason
	case PoolOutageOver:
		return fmt.Sprintf("served again, by %s", to)
	case AgentSilent:
		return "its agent does not report: " + reason
	case AgentBack:
		return "its agent reports"
	case TargetDown:
		return "what is behind it cannot be reached: " + reason
	case TargetUp:
		return "what is behind it is reached again"
	case Enrolled:
		return reason
	}
	return e.ofFallback(from, to, reason)
}

// ofFallback is the sentence of what happens between homes.
func (e Event) ofFallback(from, to, reason string) string {
	switch e.Kind {
	case CoverBegan:
		return fmt.Sprintf("covered by %s: %s", to, reason)
	case CoverOver:
		return "runs its services itself again"
	case TierStarted, PersonSaid, DrillDone, DrillDue:
		return reason
	case ItemFailed:
		return fmt.Sprintf("an item failed at %s: %s", to, reason)
	case HandbackBegan:
		return fmt.Sprintf("gets its services back from %s: %s", from, reason)
	case HandbackFailed:
		return fmt.Sprintf("cannot get its services back from %s yet: %s", from, reason)
	case NeedsPerson:
		return "waits for a person: " + reason
	case LeaseLost:
		return "the lease is lost, and what only its holder may run has been stopped: " + reason
	case LeaseBack:
		return "the lease is held again"
	case DataConflict:
		return "data was newer where it was carried to, and both are kept: " + reason
	}
	return string(e.Kind)
}

// Text says all of it, in plain text and a few lines, without the title.
func (e Event) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Time: %s\n", utc(e.At))
	if e.Reason != "" {
		fmt.Fprintf(&b, "Reason: %s\n", oneLine(e.Reason))
	}
	for _, p := range e.Paths {
		fmt.Fprintf(&b, "%s %s\n", mark(p.Value), p.line())
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, "%s\n", e.Detail)
	}
	if e.Incident != "" {
		fmt.Fprintf(&b, "Incident: %s\n", oneLine(e.Incident))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// line is "relay: bad, preferred (198.51.100.7): connection refused".
func (p PathHealth) line() string {
	text := named(p.Name, "path") + ": " + p.Value.String() + p.roles()
	if a := p.addresses(); a != "" {
		text += " (" + a + ")"
	}
	if p.Detail != "" {
		text += ": " + oneLine(p.Detail)
	}
	return text
}

func (p PathHealth) roles() string {
	var text string
	if p.Serving {
		text += ", serving"
	}
	if p.Preferred {
		text += ", preferred"
	}
	return text
}

func (p PathHealth) addresses() string {
	var list []string
	for _, a := range p.Addresses {
		list = append(list, a.String())
	}
	return strings.Join(list, ", ")
}

func mark(v evidence.Value) string {
	switch v {
	case evidence.Good:
		return "[+]"
	case evidence.Bad:
		return "[-]"
	}
	return "[?]"
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Message is an event on its way to a channel.
type Message struct {
	Event
	// ID is the same for each attempt to deliver it, also after a restart.
	ID string
	// Sent is the time of this attempt.
	Sent time.Time
	// Reminder counts the repetitions of an incident that is still open. 0: it is
	// news.
	Reminder int
	// Lost counts the messages before it that this channel will not get, because
	// there were too many or it refused them; LostSince is when the first of them
	// happened.
	Lost      int
	LostSince time.Time
}

// late is when a delay is worth a word.
const late = time.Minute

// Delay is how late the message is, as far as a reader cares. Zero for a reminder,
// and if it is in time.
func (m Message) Delay() time.Duration {
	if d := m.Sent.Sub(m.At); d >= late && m.Reminder == 0 {
		return d
	}
	return 0
}

// Title is that of the event; one of a reminder says so.
func (m Message) Title() string {
	if m.Reminder > 0 {
		return shorten("Still: "+m.Event.Title(), 250)
	}
	return m.Event.Title()
}

// Text is that of the event with what there is to say of the message itself.
func (m Message) Text() string {
	return strings.Join(append(m.remarks(), m.Event.Text()), "\n")
}

// remarks are about the message.
func (m Message) remarks() (list []string) {
	if d := m.Delay(); d > 0 {
		list = append(list, fmt.Sprintf("Delivered %s late: it happened at %s.", roughly(d), utc(m.At)))
	}
	if m.Reminder > 0 {
		list = append(list, fmt.Sprintf("Reminder %d: open for %s, since %s.", m.Reminder, roughly(m.Sent.Sub(m.At)), utc(m.At)))
	}
	if m.Lost > 0 {
		list = append(list, fmt.Sprintf("%d earlier messages, the first of %s, could not be delivered here. The history has them.", m.Lost, utc(m.LostSince)))
	}
	return list
}

// roughly leaves out what nobody reads.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
