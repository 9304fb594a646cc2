package preflight_test

import (
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/preflight"
)

func TestPair(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		change func(mine, theirs *control.PeerStatus)
		took   time.Duration
		fails  string // check and a part of its detail; empty: all is well
	}{
		{"alike", func(_, _ *control.PeerStatus) {}, 0, ""},
		{"a later patch", func(_, b *control.PeerStatus) { b.Version = "v1.2.9" }, 0, ""},
		{"a later minor version", func(_, b *control.PeerStatus) { b.Version = "v1.3.0" }, 0, "version: versions v1.2.3 here and v1.3.0 at b"},
		{"a later major version", func(_, b *control.PeerStatus) { b.Version = "v2.2.3" }, 0, "version"},
		{"a version that begins like ours", func(_, b *control.PeerStatus) { b.Version = "v1.2.3-rc1" }, 0, "version"},
		{"no version", func(a, b *control.PeerStatus) { a.Version, b.Version = "", "" }, 0, "version"},
		{"the same build", func(a, b *control.PeerStatus) { a.Version, b.Version = "(devel)", "(devel)" }, 0, ""},
		{"another config", func(_, b *control.PeerStatus) { b.Config = "other" }, 0, "config"},
		{"no config", func(a, b *control.PeerStatus) { a.Config, b.Config = "", "" }, 0, "config"},
		{"not healthy", func(_, b *control.PeerStatus) { b.Healthy, b.Why = false, "docker is down" }, 0, "health: home b: docker is down"},
		{"a clock 5s ahead", func(_, b *control.PeerStatus) { b.Now = now.Add(5 * time.Second) }, 0, ""},
		{"a clock 6s ahead", func(_, b *control.PeerStatus) { b.Now = now.Add(6 * time.Second) }, 0, "clock: the clock of b: it is at least 6s ahead"},
		{"a clock 6s behind", func(_, b *control.PeerStatus) { b.Now = now.Add(-6 * time.Second) }, 0, "clock: the clock of b: it is at least 6s behind"},
		{"6s, of which the way may be 2", func(_, b *control.PeerStatus) { b.Now = now.Add(6 * time.Second) }, 2 * time.Second, ""},
		{"an answer that took too long", func(_, _ *control.PeerStatus) {}, 6 * time.Second, "clock: the clock of b: the answer took 6s"},
		{"our clock was set back", func(_, _ *control.PeerStatus) {}, -time.Second, "clock"},
		{"no time", func(_, b *control.PeerStatus) { b.Now = time.Time{} }, 0, "clock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mine := control.PeerStatus{ID: "a", Version: "v1.2.3", Config: "cafe", Healthy: true, Now: now}
			theirs := mine
			theirs.ID = "b"
			tt.change(&mine, &theirs)
			check(t, preflight.Pair(mine, theirs, now, now.Add(tt.took)), tt.fails)
		})
	}
}

// check wants one finding that is not well, or none.
func check(t *testing.T, list []control.Finding, fails string) {
	t.Helper()
	var failed []string
	for _, f := range list {
		if f.Check == "" || f.Detail == "" {
			t.Errorf("a finding that says nothing: %+v", f)
		}
		if !f.OK {
			failed = append(failed, f.Check+": "+f.Detail)
		}
	}
	got := strings.Join(failed, "; ")
	if fails == "" && got != "" || !strings.HasPrefix(got, fails) || len(failed) > 1 {
		t.Errorf("%q, want %q", got, fails)
	}
}
