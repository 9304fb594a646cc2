package follow

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/sidecar/follow/plan"
)

// Counts since the beginning.
type Counts struct {
	Workers     uint64        `json:"workers"` // of HAProxy that answered
	Writes      uint64        `json:"writes"`
	Unconfirmed uint64        `json:"unconfirmed"`
	Drift       uint64        `json:"drift"` // what others have changed
	Errors      uint64        `json:"errors"`
	Took        time.Duration `json:"took_ns"` // the last batch, with reading back
}

// Status is what is followed, and how far.
type Status struct {
	At time.Time `json:"at"`
	// Worker is the pid of HAProxy's worker, 0 if none answers.
	Worker  int       `json:"worker,omitzero"`
	Version string    `json:"haproxy,omitzero"`
	Started time.Time `json:"started,omitzero"`
	ReadAt  time.Time `json:"read_at,omitzero"` // when all servers were read last
	// Picture is the version of what the source has said, 0 if it says nothing.
	Picture uint64    `json:"picture"`
	Heard   time.Time `json:"heard,omitzero"`
	// Blocked is why nothing is written.
	Blocked string    `json:"blocked,omitzero"`
	Error   string    `json:"error,omitzero"`
	ErrorAt time.Time `json:"error_at,omitzero"`
	Members []Member  `json:"members"`
	Counts  Counts    `json:"counts"`
}

// Member is one server.
type Member struct {
	Pool    string    `json:"pool"`
	Backend string    `json:"backend"`
	Gateway string    `json:"gateway"`
	Want    plan.Role `json:"want"`
	// Seen is nil if HAProxy does not answer, or has no such server.
	Seen    *plan.State    `json:"seen"`
	Weight  int            `json:"weight,omitzero"`
	Address netip.AddrPort `json:"address,omitzero"`
	Since   time.Time      `json:"since,omitzero"` // when it was last seen to change
	Done    bool           `json:"done"`           // it is as it should be
	Why     string         `json:"why"`
}

// Status returns the latest.
func (f *Follower) Status() *Status { return f.status.Load() }

// publish makes a status of what there is.
func (f *Follower) publish() {
	f.mu.Lock()
	members, picture := f.members, f.picture
	f.mu.Unlock()
	s := &Status{At: time.Now(), ReadAt: f.readAt, Counts: f.counts}
	if f.seen != nil {
		s.Worker, s.Version, s.Started = f.worker.PID, f.worker.Version, f.worker.Started
	}
	if picture != nil {
		s.Picture, s.Heard = picture.Version, picture.Heard
	}
	if f.blocked != nil {
		s.Blocked = f.blocked.Error()
	}
	if f.err != nil {
		s.Error, s.ErrorAt = f.err.Error(), f.errAt
	}
	wanted := f.wishes()
	for _, m := range members {
		k := plan.Key{Backend: m.Backend, Server: m.Gateway}
		w := wanted[k]
		member := Member{Pool: m.Pool, Backend: m.Backend, Gateway: m.Gateway, Want: w.Role, Why: w.Why, Since: f.since[k]}
		if seen, ok := f.seen[k]; ok {
			member.Seen, member.Weight, member.Done = &seen.State, seen.Weight, plan.Done(w.Want, seen)
			if !seen.Nowhere {
				member.Address = seen.Addr
			}
		}
		s.Members = append(s.Members, member)
	}
	slices.SortStableFunc(s.Members, func(a, b Member) int { return cmp.Compare(a.Backend, b.Backend) })
	f.status.Store(s)
	f.dirty = false
	f.c.Changed()
}
