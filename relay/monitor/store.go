package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// saved is the file: what a restart must not forget.
type saved struct {
	At       time.Time               `json:"at"`
	Gateways map[string]savedGateway `json:"gateways"`
	Pools    map[string]pool.Marks   `json:"pools"`
}

type savedGateway struct {
	Dial     string        `json:"dial"`
	Op       pool.Operator `json:"operator"`
	HeldAs   health.Phase  `json:"held_as"`
	HeldBack time.Time     `json:"held_back,omitzero"`
	State    health.State  `json:"state"`
}

// saveDelay gathers changes that come together.
const saveDelay = time.Second

// load reads the file. One that cannot be read is set aside: unknown is not
// down, and an old state is no reason not to start.
func (m *Monitor) load() {
	m.saved.Gateways = map[string]savedGateway{}
	if m.o.File == "" {
		return
	}
	data, err := os.ReadFile(m.o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		m.o.Log.Error("health file is unreadable: starting without it", "file", m.o.File, "error", err)
		_ = os.Rename(m.o.File, m.o.File+".bad")
		return
	}
	if s.Gateways != nil {
		m.saved = s
	}
	if s.Pools != nil {
		m.marks = s.Pools
	}
}

// restore gives a new gateway what the file knows of it. Its health is a hint
// only, and only if it is still the same machine.
func (m *Monitor) restore(g *gateway, c Gateway) {
	old, ok := m.saved.Gateways[c.Name]
	if !ok {
		return
	}
	g.op, g.heldAs, g.heldBack = old.Op, old.HeldAs, old.HeldBack
	if old.Dial == c.Dial {
		g.Dial = c.Dial
		g.live.SetAddress(c.fixed())
		g.state, _ = health.Next(c.Policy, g.state, time.Now(), health.Restored{Saved: old.State})
	}
}

func (m *Monitor) saveLater() {
	if m.o.File == "" || m.saveSoon != nil {
		return
	}
	m.saveSoon = time.AfterFunc(saveDelay, func() {
		select {
		case m.inbox <- func() { m.saveSoon = nil; m.save() }:
		case <-m.stopped:
		}
	})
}

// save writes the file whole or not at all. Gateways that the config no longer
// has are kept in it: a config that loses one by mistake loses no operator state.
func (m *Monitor) save() {
	if m.o.File == "" {
		return
	}
	for name, g := range m.gateways {
		m.saved.Gateways[name] = savedGateway{Dial: g.Dial, Op: g.op, HeldAs: g.heldAs, HeldBack: g.heldBack, State: g.state}
	}
	m.saved.At, m.saved.Pools = time.Now(), m.marks
	data, err := json.MarshalIndent(m.saved, "", "\t")
	if err == nil {
		err = replaceFile(m.o.File, data)
	}
	if err != nil {
		m.o.Log.Error("health file could not be written", "file", m.o.File, "error", err)
	}
}

// replaceFile writes beside the file, syncs, and renames.
func replaceFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("making a new file: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return os.Rename(f.Name(), name)
}

func cloneTimes(m map[string]time.Time) map[string]time.Time { return maps.Clone(m) }
