package fallback

import (
	"net/netip"
	"time"
)

// Home is one place that runs services, as every home's config describes it: the
// same text everywhere, but for the id.
type Home struct {
	// ID is its name among the homes.
	ID string
	// Peer is host:port of its agent endpoint, as the other homes dial it.
	Peer string
	// CoveredBy are the homes that cover it, best first. Empty: nobody does.
	CoveredBy []string
	// DNS is what leads visitors to it. Nil: an item with DNS set does that, or nobody.
	DNS *DNS
	// Names are what an item with DNS set keeps, if there is one: it is believed when the
	// records of all of them lead to who runs it. Empty: it is believed when it runs. Leave
	// out what a provider's proxy answers for with addresses of its own.
	Names []string
	// Tiers are what it runs for visitors, by growing After. The first one is 1.
	Tiers []Tier
	// Warm are items that run at every home at all times. They are looked at, never touched.
	Warm []Item
}

// DNS is a domain whose only updater is the holder of the home's lease.
type DNS struct {
	Zone  string   // its zone at the provider, by name or id
	Names []string // A and AAAA records of these
	// Proxied keeps what visitors see at the provider's edge.
	Proxied bool
	// IPv4 and IPv6 say which families are published. At least one.
	IPv4, IPv6 bool
	// Fixed are addresses of this home that need not be found out. By home.
	Fixed map[string][]netip.Addr
}

// Tier is a group of items that are covered when an outage is that old.
type Tier struct {
	Number int // from 1
	// After is how long the outage must have lasted. Tier 1: usually 0.
	After time.Duration
	// WritebackAfter is how long it must have lasted so that data is carried back.
	// Default: After; a shorter cover has changed little and says so. Negative: never.
	WritebackAfter time.Duration
	// Bandwidth is most bytes a second of a writeback. 0: no limit.
	Bandwidth int64
	Items     []Item
}

// Kind is what an item is.
type Kind string

// The kinds of items.
const (
	KindContainer Kind = "container" // a Docker container, by name or label
	KindCompose   Kind = "compose"   // the containers of a compose project, by its label
	KindUnit      Kind = "unit"      // a systemd unit
	KindCommand   Kind = "command"   // commands that start, stop and look
)

// Item is one thing that a home runs for visitors. Both homes have it, under the
// same name; only the one that the seat names for its tier runs it.
type Item struct {
	Name string // unique in its home
	Kind Kind
	// Ref is the container's name, or label=value of exactly one container, the
	// compose project, or the unit. Empty for commands. Default: Name.
	Ref string
	// Start, Stop and Look are a command's argument vectors: no shell. Look's exit
	// code is 0 if it runs and is well, 3 if it is stopped; anything else is unknown.
	Start, Stop, Look []string
	// After are items of the same or a lower tier that must be well first.
	After []string
	// Networks and Volumes must exist before it starts, Paths exist and not be empty.
	Networks, Volumes, Paths []string
	// Ready is how long it may take to be well. Default: 2m.
	Ready time.Duration
	// StopWithin is how long it may take to stop before it is killed. Default: 20s.
	StopWithin time.Duration
	// Data are what it writes, carried back when the cover ends.
	Data []Data
	// Optional: if it fails to start at the home that gets it back, the rest goes on.
	// An item of tier 1 that is not optional and fails is a reason to roll back.
	Optional bool
	// DNS says that this is the user's own updater of the home's DNS: the first item
	// of tier 1 when covering, the last one when handing back, and believed when the
	// records say so.
	DNS bool
}

// Data is a directory that an item writes.
type Data struct {
	// Path is where it is here; the other home has it at the same place, or At.
	Path string
	At   map[string]string // by home
	// Stamp is a file whose modification time is when it was last synced to this
	// home, usually touched by the user's own sync. Default: Path itself.
	Stamp string
	// MaxAge is how old that may be for a cover to start the item. 0: any age.
	MaxAge time.Duration
	// Union is data that the user's own sync keeps equal both ways: it is left alone.
	Union bool
	// Exclude are rsync patterns of what is not carried.
	Exclude []string
}
