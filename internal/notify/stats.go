package notify

import (
	"maps"
	"slices"
	"time"
)

// Stats is how the outbox gets on. It holds no secret.
type Stats struct {
	// Queued counts messages that somebody does not have.
	Queued   int            `json:"queued"`
	Channels []ChannelStats `json:"channels"`
	// Open are the incidents that are reminded of, by name.
	Open []string `json:"open"`
	// Repetitions counts events that said nothing new, since the start.
	Repetitions uint64 `json:"repetitions"`
	// DiskError, if not empty, says why messages are in memory only.
	DiskError string `json:"disk_error,omitempty"`
}

// ChannelStats is how one channel gets on.
type ChannelStats struct {
	Name      string `json:"name"`
	Queued    int    `json:"queued"`
	Delivered uint64 `json:"delivered"`
	// Lost counts messages it will not get and does not know of yet.
	Lost int `json:"lost"`
	// Failures counts attempts that failed, in a row; LastError is the last one.
	Failures  int       `json:"failures"`
	LastError string    `json:"last_error,omitempty"`
	LastOK    time.Time `json:"last_ok,omitzero"`
	// Next is the next attempt, if it has to wait.
	Next time.Time `json:"next,omitzero"`
}

// Stats returns a copy.
func (b *Outbox) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Queued: len(b.state.Queue), Repetitions: b.dups, DiskError: b.diskErr, Open: []string{}}
	for _, l := range b.lanes {
		p := b.state.Channels[l.name]
		s.Channels = append(s.Channels, ChannelStats{
			Name: l.name, Queued: b.state.waiting(l.name), Delivered: p.Delivered, Lost: p.Lost,
			Failures: p.Failures, LastError: p.LastError, LastOK: p.LastOK, Next: p.Next,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(b.state.Incidents)) {
		if b.state.Incidents[name].Open {
			s.Open = append(s.Open, name)
		}
	}
	return s
}
