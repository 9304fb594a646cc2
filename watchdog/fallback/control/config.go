package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// Config of a Control.
type Config struct {
	// ID is the home that this machine stands in. Homes are all homes, in the same words
	// everywhere.
	ID    string
	Homes []fallback.Home
	// Policy is what all homes share; Self, Home and Single are filled in.
	Policy fallback.Policy
	// Store is where homes agree. Nil: there is none (single), and what covers another
	// home asks a person first.
	Store lease.Store
	// Dir is where the journal is, and the leases if there is no Store.
	Dir string

	Workloads Workloads
	// Peer returns the client of another home.
	Peer func(home string) Peer
	// Writeback carries data. Nil is enough if no item has any.
	Writeback Writeback
	// DNS is the updater. Nil is enough if no home has one.
	DNS DNS

	// Remote says whether a home lives. Default: its agent endpoint answers and says
	// that it is healthy.
	Remote func(ctx context.Context, home fallback.Home) Evidence
	// Witnesses test our own connection, each in a way of its own. At least two, if
	// this machine covers anybody or has a DNS updater.
	Witnesses []func(context.Context) evidence.Value
	// Health says whether services can run here: Docker, disks. Nil: always.
	Health func(context.Context) Evidence
	// Preflight looks whether items can be taken back here. Nil: there is nothing to
	// look at.
	Preflight func(ctx context.Context, home fallback.Home) ([]Finding, error)

	// Pair compares what two homes say of themselves before a handback; theirs was asked
	// for and answered at those times. Nil: only that their configs are the same.
	Pair func(mine, theirs PeerStatus, asked, answered time.Time) []Finding

	// Version of this program.
	Version string
	Log     *slog.Logger
	// Tell hears what people should hear of. It must not block.
	Tell  func(fallback.Record)
	Seams Seams
}

// Evidence is what one look at something said.
type Evidence struct {
	Value evidence.Value
	Why   string
}

// Seams are the places where a Control touches this machine. Zero fields mean the real
// thing.
type Seams struct {
	// Clock is this machine's clock that goes on while it is suspended.
	Clock func() lease.Moment
	// Boot is another text after each start of the machine. Empty: unknown.
	Boot func() string
	// Jitter returns a number from 0 up to 1.
	Jitter func() float64
	// Keep opens what is on disk.
	Keep func(dir string, log *slog.Logger) (Keep, error)
	// Local opens this machine's own leases, if there is no Store.
	Local func(dir string, log *slog.Logger) (Local, error)
}

// Local are the leases of one machine.
type Local interface {
	lease.Store
	// Above has the epochs of a key go on above one that another machine has used.
	Above(ctx context.Context, key string, epoch uint64) error
	Close() error
}

func openLocal(dir string, log *slog.Logger) (Local, error) {
	return lease.OpenSingle(filepath.Join(dir, "lease"), log)
}

// bootID is the kernel's, random(4).
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tell == nil {
		c.Tell = func(fallback.Record) {}
	}
	if c.Health == nil {
		c.Health = func(context.Context) Evidence { return Evidence{Value: evidence.Good} }
	}
	if c.Preflight == nil {
		c.Preflight = func(context.Context, fallback.Home) ([]Finding, error) { return nil, nil }
	}
	if c.Pair == nil {
		c.Pair = sameConfig
	}
	if c.Seams.Clock == nil {
		c.Seams.Clock = lease.Clock
	}
	if c.Seams.Boot == nil {
		c.Seams.Boot = bootID
	}
	if c.Seams.Jitter == nil {
		c.Seams.Jitter = rand.Float64
	}
	if c.Seams.Keep == nil {
		c.Seams.Keep = openJournal
	}
	if c.Seams.Local == nil {
		c.Seams.Local = openLocal
	}
	return c
}

// policy is that of one home.
func (c Config) policy(home fallback.Home) fallback.Policy {
	p := c.Policy
	p.Self, p.Home, p.Single = c.ID, home, c.Store == nil
	return p.WithDefaults()
}

// about reports whether this machine has to do with a home.
func (c Config) about(home fallback.Home) bool {
	return home.ID == c.ID || slices.Contains(home.CoveredBy, c.ID)
}

func (c Config) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	for _, h := range c.Homes {
		if names[h.ID] {
			add("home %s is there twice", h.ID)
		}
		names[h.ID] = true
	}
	if !names[c.ID] {
		add("id %q is none of the homes", c.ID)
	}
	if c.Workloads == nil {
		add("workloads are missing")
	}
	if c.Dir == "" {
		add("dir is empty")
	}
	for _, h := range c.Homes {
		for _, other := range h.CoveredBy {
			if !names[other] {
				add("home %s: covered_by names %s, which is no home", h.ID, other)
			}
		}
		if c.about(h) {
			errs = append(errs, c.needs(h))
		}
	}
	return errors.Join(errs...)
}

// needs says what is missing for one home.
func (c Config) needs(h fallback.Home) error {
	err := c.policy(h).Validate()
	add := func(what string) { err = errors.Join(err, fmt.Errorf("home %s needs %s", h.ID, what)) }
	if len(h.CoveredBy) > 0 && c.Peer == nil {
		add("peers")
	}
	if (h.DNS != nil || len(h.Names) > 0) && c.DNS == nil {
		add("a DNS updater")
	}
	if (h.DNS != nil || h.ID != c.ID) && len(c.Witnesses) < 2 {
		add("two witnesses or more: one alone may be filtered")
	}
	data := slices.ContainsFunc(h.Items(), func(i fallback.Item) bool { return len(i.Data) > 0 })
	if data && h.ID != c.ID && c.Writeback == nil {
		add("a writeback")
	}
	return err
}

// hash is of what all homes must have alike.
func (c Config) hash() string {
	text, err := json.Marshal(c.Homes)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func sameConfig(mine, theirs PeerStatus, _, _ time.Time) []Finding {
	f := Finding{Check: "config", OK: mine.Config == theirs.Config, Detail: "the homes' configs are the same"}
	if !f.OK {
		f.Detail = "the homes' configs differ: give both the same but for id"
	}
	return []Finding{f}
}
