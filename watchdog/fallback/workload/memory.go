package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"

	"github.com/moby/moby/api/types/container"

	"github.com/edgeward/edgeward/internal/journal"
)

// document is the name of what is remembered.
const document = "workloads"

// taken is what Stop has taken away and Start gives back.
type taken struct {
	// Policies are restart policies of containers, by id: one that was made anew has
	// its own.
	Policies map[string]container.RestartPolicy `json:"policies,omitempty"`
	// Enabled are units that were enabled.
	Enabled map[string]bool `json:"enabled,omitempty"`
}

// memory is taken, on disk.
type memory struct {
	journal *journal.Journal

	mu   sync.Mutex // held while it is saved: two saves must not cross
	what taken
}

func newMemory(j *journal.Journal, log *slog.Logger) (*memory, error) {
	m := &memory{journal: j}
	_, err := j.Load(document, &m.what)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, journal.ErrCorrupt):
		// Items run without it, but do not come back after a reboot.
		log.Error("restart policies are forgotten: set them again where they matter", "error", err)
	default:
		return nil, fmt.Errorf("reading what was taken from workloads: %w", err)
	}
	return m, nil
}

// policy returns what was taken from a container.
func (m *memory) policy(id string) (container.RestartPolicy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.what.Policies[id]
	return p, ok
}

// enabled says whether enablement was taken from a unit.
func (m *memory) enabled(unit string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.what.Enabled[unit]
}

func (m *memory) keepPolicy(id string, p container.RestartPolicy) error {
	return m.change(func(t *taken) { t.Policies[id] = p })
}

func (m *memory) dropPolicy(id string) error {
	return m.change(func(t *taken) { delete(t.Policies, id) })
}

func (m *memory) keepEnabled(unit string) error {
	return m.change(func(t *taken) { t.Enabled[unit] = true })
}

func (m *memory) dropEnabled(unit string) error {
	return m.change(func(t *taken) { delete(t.Enabled, unit) })
}

// change changes a copy, and takes it once it is on disk.
func (m *memory) change(f func(*taken)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := taken{Policies: map[string]container.RestartPolicy{}, Enabled: map[string]bool{}}
	maps.Copy(next.Policies, m.what.Policies)
	maps.Copy(next.Enabled, m.what.Enabled)
	f(&next)
	if maps.Equal(next.Policies, m.what.Policies) && maps.Equal(next.Enabled, m.what.Enabled) {
		return nil
	}
	if err := m.journal.Save(document, next); err != nil {
		return err
	}
	m.what = next
	return nil
}
