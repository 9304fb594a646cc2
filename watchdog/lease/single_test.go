package lease_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/lease"
	"github.com/edgeward/edgeward/watchdog/lease/leasetest"
)

func open(t *testing.T, dir string) *lease.Single {
	t.Helper()
	s, err := lease.OpenSingle(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSingle(t *testing.T) {
	leasetest.Run(t, open(t, t.TempDir()), 300*time.Millisecond)
}

// TestSingleSurvives: epochs and values do, grants don't.
func TestSingleSurvives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := lease.OpenSingle(dir, nil); !errors.Is(err, journal.ErrLocked) {
		t.Fatalf("two have it: %v", err)
	}
	one, err := s.Acquire(t.Context(), "k", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := s.Write(t.Context(), one, []byte("seat"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), one); !errors.Is(err, lease.ErrClosedStore) {
		t.Errorf("after Close: %v", err)
	}
	s = open(t, dir)
	v, err := s.Read(t.Context(), "k")
	if err != nil || string(v.Data) != "seat" || v.Rev != rev || v.Epoch != one.Epoch || v.Holder != "" {
		t.Errorf("read %+v, %v", v, err)
	}
	if err := s.Renew(t.Context(), one); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a grant of the process before: %v", err)
	}
	two, err := s.Acquire(t.Context(), "k", "b", time.Hour)
	if err != nil || two.Epoch <= one.Epoch || two.Released {
		t.Errorf("grant %+v after %+v, %v", two, one, err)
	}
	if next, err := s.Write(t.Context(), two, nil, rev); err != nil || next <= rev {
		t.Errorf("revision %d after %d, %v", next, rev, err)
	}
}

// TestSingleLosesItsLock: who deletes the lock file has made room for another process.
func TestSingleLosesItsLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "k", "a", time.Hour); !errors.Is(err, journal.ErrLockLost) {
		t.Errorf("without the lock: %v", err)
	}
}

// TestSingleDamaged: what was granted before is unknown then, and so is not said to be
// nothing.
func TestSingleDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one, err := s.Acquire(t.Context(), "k", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "leases.json*"))
	if len(files) == 0 {
		t.Fatal("nothing is kept")
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lease.OpenSingle(dir, nil); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("damaged: %v", err)
	}
	// It is set aside; begun anew, epochs still grow.
	two, err := open(t, dir).Acquire(t.Context(), "k", "a", time.Hour)
	if err != nil || two.Epoch < one.Epoch {
		t.Errorf("epoch %d after %d, %v", two.Epoch, one.Epoch, err)
	}
}

func TestNextEpoch(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, tc := range []struct {
		last uint64
		now  time.Time
		want uint64
	}{
		{0, now, 1_700_000_000},
		{5, now, 1_700_000_000},
		{1_700_000_000, now, 1_700_000_001},
		{1_800_000_000, now, 1_800_000_001},
		{7, time.Time{}, 8},
	} {
		if got := lease.NextEpoch(tc.last, tc.now); got != tc.want {
			t.Errorf("after %d at %v: %d, want %d", tc.last, tc.now, got, tc.want)
		}
	}
}

// TestSingleAbove: epochs go on above what another machine has used, also after a restart,
// and a grant that is held stays what it is.
func TestSingleAbove(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first, err := s.Acquire(t.Context(), "k", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	above := first.Epoch + 1_000_000
	if err := s.Above(t.Context(), "k", above); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), first); err != nil {
		t.Errorf("what is held: %v", err)
	}
	if err := s.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []uint64{above, 3} {
		if err := s.Above(t.Context(), "k", epoch); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Above(t.Context(), "k", above+1); !errors.Is(err, lease.ErrClosedStore) {
		t.Errorf("after Close: %v", err)
	}
	g, err := open(t, dir).Acquire(t.Context(), "k", "a", time.Hour)
	if err != nil || g.Epoch <= above || g.Released {
		t.Errorf("grant %+v, want an epoch above %d that nobody gave back: %v", g, above, err)
	}
}
