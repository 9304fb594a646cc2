package control

import (
	"context"
	"errors"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// Running is what was seen of an item.
type Running = fallback.Running

// What may be seen of an item. Unknown is not stopped.
const (
	RunningUnknown = fallback.RunningUnknown
	RunningWell    = fallback.RunningWell    // runs, and is healthy or has no health check
	RunningIll     = fallback.RunningIll     // runs, but is not healthy (yet)
	RunningStopped = fallback.RunningStopped // proven: it exists and does not run, or does not exist
)

// ErrRefused is what another home answers if it will not do what it was asked, and
// asking again would not help until something changes.
var ErrRefused = errors.New("the other home refuses")

// Seen is one look at an item.
type Seen struct {
	Running Running `json:"running"`
	Detail  string  `json:"detail,omitempty"` // for people
}

// Workloads start, stop and look at items of this machine.
type Workloads interface {
	// Start starts it and waits until it is well, or returns why it is not.
	Start(ctx context.Context, item fallback.Item) error
	// Stop returns nil only when it is proven stopped, and kept from starting by itself.
	Stop(ctx context.Context, item fallback.Item) error
	Look(ctx context.Context, item fallback.Item) (Seen, error)
}

// Finding is one thing that a preflight looked at.
type Finding struct {
	Check  string `json:"check"` // version, docker, image, mount, space, clock, ...
	Item   string `json:"item,omitempty"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// PeerStatus is what a home says of itself to another one.
type PeerStatus struct {
	ID      string                        `json:"id"`
	Version string                        `json:"version"`
	Config  string                        `json:"config"` // hash of what both must have alike
	Now     time.Time                     `json:"now"`
	Healthy bool                          `json:"healthy"` // its own services can run: Docker, disks
	Why     string                        `json:"why,omitempty"`
	Items   map[string]map[string]Running `json:"items,omitempty"` // by home and item
	Roles   map[string]string             `json:"roles,omitempty"` // by home: the state of its machine
	// Seats are those that it has written last itself, with what it holds: without a
	// store that all share, this is how homes know who covers whom.
	Seats map[string]fallback.Seat `json:"seats,omitempty"`
	Holds map[string]uint64        `json:"holds,omitempty"` // by home: the epoch of the lease it holds
}

// Service is what a home lets others ask of it: an allow-list, and nothing else.
// Every request names the asking home, as its certificate says.
type Service interface {
	Status(ctx context.Context, from string) (PeerStatus, error)
	// Preflight looks whether the home can take its items back. It changes nothing.
	Preflight(ctx context.Context, from, home string) ([]Finding, error)
	// Prove stops nothing: it says whether the item is proven stopped there.
	Prove(ctx context.Context, from, home, item string) (Seen, error)
	// StartItem starts an item that the seat gives to this home. epoch is that of the
	// seat by which the asking home acts; a lower one than known is refused.
	StartItem(ctx context.Context, from, home, item string, epoch uint64) error
	// StopItem stops an item that the seat does not give to this home.
	StopItem(ctx context.Context, from, home, item string, epoch uint64) error
}

// Peer asks another home. Its errors wrap what the transport said; a refusal by the
// other home is an ErrRefused.
type Peer interface {
	Status(ctx context.Context) (PeerStatus, error)
	Preflight(ctx context.Context, home string) ([]Finding, error)
	Prove(ctx context.Context, home, item string) (Seen, error)
	StartItem(ctx context.Context, home, item string, epoch uint64) error
	StopItem(ctx context.Context, home, item string, epoch uint64) error
}

// Carry is one writeback: data of one item, from here to another home.
type Carry struct {
	Home, Item string
	Data       fallback.Data
	To         string    // the home that gets it
	Since      time.Time // begin of the cover: what is newer there is a conflict
	Bandwidth  int64
	Epoch      uint64
}

// Progress of a writeback.
type Progress struct {
	Bytes, Total int64
	Rate         int64 // bytes a second
	Left         time.Duration
}

// Carried is what came of a writeback.
type Carried struct {
	Files, Bytes int64
	Took         time.Duration
	// Conflicts are paths that are newer at the other home: theirs is kept in place,
	// ours beside it.
	Conflicts []string
	Undo      string // where the other home keeps what was replaced
}

// Writeback carries data home. Both sides must be proven stopped before.
type Writeback interface {
	Carry(ctx context.Context, c Carry, progress func(Progress)) (Carried, error)
	// Age is how long ago the data was last synced to this machine.
	Age(ctx context.Context, d fallback.Data) (time.Duration, error)
}

// DNS is the one updater of a home's domain, at this home.
type DNS interface {
	// On publishes this home's addresses for names of the covered home and keeps them
	// so, until Off; ctx is that of the call alone. may is asked right before each write: the epoch by which this
	// home acts, or false. It returns when the first write is read back, or why not.
	On(ctx context.Context, home fallback.Home, may func() (epoch uint64, ok bool)) error
	// Off returns when no write of ours can land any more.
	Off(ctx context.Context, home string) error
	// Verify asks the zone's name servers and a resolver what the records lead to.
	Verify(ctx context.Context, home fallback.Home) error
}
