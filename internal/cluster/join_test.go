package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/cluster"
)

// three makes a cluster of three voters.
func three(t testing.TB) (a, b, c *rig) {
	t.Helper()
	a = first(t, "nuc")
	b = a.join(t, "nas", "")
	c = b.join(t, "vps", "") // any member can give out codes
	return a, b, c
}

// TestThreeLoseOne: three members agree without the leader, and another one takes the
// lost one's place.
func TestThreeLoseOne(t *testing.T) {
	t.Parallel()
	a, b, c := three(t)
	eventually(t, "all are well", healthy(c, 3))
	leader, others := a, []*rig{b, c}
	for i, r := range []*rig{b, c} {
		if s := r.Status(); s.Leader == s.Name {
			leader, others[i] = r, a
		}
	}
	lost := leader.Status().Name
	leader.Stop()
	eventually(t, "a write without "+lost, others[0].puts("a"))
	eventually(t, "a write without "+lost, others[1].puts("b"))

	if _, err := others[0].Code(t.Context(), "tv"); !errors.Is(err, cluster.ErrNoMember) {
		t.Errorf("replacing who never was: %v", err)
	}
	if _, err := others[0].Code(t.Context(), others[1].Status().Name); !errors.Is(err, cluster.ErrAlive) {
		t.Errorf("replacing who lives: %v", err)
	}
	// Its report is good for a minute: that is how long a lost one counts as alive.
	c2 := others[0].client(t)
	if _, err := c2.Delete(t.Context(), "/edgeward/cluster/report/"+idOf(others[0], lost)); err != nil {
		t.Fatal(err)
	}
	next := others[0].join(t, lost, lost)
	eventually(t, "a write at the new one", next.puts("c"))
	eventually(t, "what was written before is there", next.has("a"))
	eventually(t, "three members", func() error {
		if s := next.Status(); len(s.Members) != 3 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// TestLead: the member that is to lead does, as soon as it is there, and again after it
// was away.
func TestLead(t *testing.T) {
	t.Parallel()
	a, b, c := three(t)
	leads := func(r *rig, name string) func() error {
		return func() error {
			if got := r.Status().Leader; got != name {
				return fmt.Errorf("%s leads", got)
			}
			return nil
		}
	}
	eventually(t, "vps leads", leads(a, "vps"))
	c.Stop()
	eventually(t, "another one leads", func() error {
		if got := b.Status().Leader; got == "" || got == "vps" {
			return fmt.Errorf("%q leads", got)
		}
		return nil
	})
	eventually(t, "a write without vps", a.puts("a"))
	start(t, c.config)
	eventually(t, "vps leads again", leads(b, "vps"))
	eventually(t, "a write", a.puts("b"))
}

// TestRemovedJoinsAgain: what it had is set aside.
func TestRemovedJoinsAgain(t *testing.T) {
	t.Parallel()
	a := first(t, "nuc")
	if err := a.Remove(t.Context(), "nuc"); !errors.Is(err, cluster.ErrLast) {
		t.Errorf("removing the only member: %v", err)
	}
	b := a.join(t, "nas", "")
	if err := a.Remove(t.Context(), "tv"); !errors.Is(err, cluster.ErrNoMember) {
		t.Errorf("removing who never was: %v", err)
	}
	eventually(t, "removed", func() error { return a.Remove(t.Context(), "nas") })
	eventually(t, "it knows", b.is(cluster.StateRemoved))
	if _, err := b.Client(); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("a client of who was removed: %v", err)
	}
	inv := a.code(t, "")
	if err := b.Join(t.Context(), inv.Address, inv.Code); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it votes again", func() error {
		if s := b.Status(); s.State != cluster.StateRunning || s.Learner {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if old, _ := filepath.Glob(filepath.Join(b.config.Dir, "etcd.before-*")); len(old) != 1 {
		t.Errorf("the data of before is at %q", old)
	}
}

func idOf(r *rig, name string) string {
	for _, m := range r.Status().Members {
		if m.Name == name {
			return m.ID
		}
	}
	return ""
}

func healthy(r *rig, want int) func() error {
	return func() error {
		n := 0
		s := r.Status()
		for _, m := range s.Members {
			if m.Health == cluster.HealthGood && m.Version != "" {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}
}

// TestMinority: without a majority nothing is answered, and that is said.
func TestMinority(t *testing.T) {
	t.Parallel()
	a := first(t, "nuc")
	b := a.join(t, "nas", "")
	b.Stop()
	eventually(t, "it says so", func() error {
		if s := a.Status(); s.Quorum || s.State != cluster.StateRunning {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := a.client(t).Get(ctx, "a"); err == nil {
		t.Error("it answers alone")
	}
	for _, m := range a.Status().Members {
		if m.Health != cluster.HealthUnknown {
			t.Errorf("%s is %s: who has no majority knows nothing of others", m.Name, m.Health)
		}
	}
	// A copy of what it has is made all the same.
	if path, err := a.Snapshot(t.Context()); err != nil || path == "" {
		t.Error(path, err)
	}
	again := start(t, b.config)
	eventually(t, "with the other one", again.is(cluster.StateRunning))
	eventually(t, "a write", a.puts("a"))
}

// TestCodes: each is good once, whoever is how fast, and for its own cluster.
func TestCodes(t *testing.T) {
	t.Parallel()
	a := first(t, "nuc")
	other := first(t, "other")
	inv, foreign := a.code(t, ""), other.code(t, "")
	kept, err := a.client(t).Get(t.Context(), "/edgeward/cluster/code/", prefix)
	if err != nil || kept.Count != 1 || kept.Kvs[0].Lease == 0 || strings.Contains(string(kept.Kvs[0].Key)+string(kept.Kvs[0].Value), inv.Code[:9]) {
		t.Errorf("kept of the code: %v, %v", kept, err)
	}

	b := start(t, config(t, "nas"))
	eventually(t, "it is in no cluster", b.is(cluster.StateNone))
	for name, tc := range map[string]struct{ address, code, want string }{
		"no code":               {inv.Address, "letmein", "that is no code"},
		"another one":           {inv.Address, "0000-0000-0000-0000" + inv.Code[19:], "that code was used"},
		"of another cluster":    {inv.Address, foreign.Code, "that is not the cluster that the code is for"},
		"at another cluster":    {foreign.Address, inv.Code, "that is not the cluster that the code is for"},
		"where nobody is":       {freePort(), inv.Code, "could not confirm joining"},
		"an address that isn't": {"nas", inv.Code, "want host:port"},
	} {
		if err := b.Join(t.Context(), tc.address, tc.code); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	twin := start(t, config(t, "nuc"))
	spare := a.code(t, "")
	if err := twin.Join(t.Context(), spare.Address, spare.Code); err == nil || !strings.Contains(err.Error(), "a member of that name") {
		t.Errorf("a name that is taken: %v", err)
	}

	// The code as a person types it, by many at once.
	typed := strings.ToLower(strings.ReplaceAll(inv.Code, "-", " "))
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 5 {
		r := b
		if i > 0 {
			r = start(t, config(t, fmt.Sprint("nas", i)))
		}
		wg.Go(func() {
			if r.Join(t.Context(), inv.Address, typed) == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d machines joined by one code", n)
	}
}

// TestHalfAJoin: the answer was lost. Another code takes back what was begun.
func TestHalfAJoin(t *testing.T) {
	t.Parallel()
	a := first(t, "nuc")
	c := config(t, "nas")
	lost, err := cluster.New(c) // and never started
	if err != nil {
		t.Fatal(err)
	}
	inv := a.code(t, "")
	if err := lost.Join(t.Context(), inv.Address, inv.Code); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.Dir); err != nil { // nothing of it was kept
		t.Fatal(err)
	}
	members := len(a.Status().Members)
	again := start(t, c)
	inv = a.code(t, "")
	if err := again.Join(t.Context(), inv.Address, inv.Code); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it votes", func() error {
		if s := again.Status(); s.State != cluster.StateRunning || s.Learner || len(s.Members) != 2 {
			return fmt.Errorf("%+v, with %d before", s, members)
		}
		return nil
	})
}

func TestMoves(t *testing.T) {
	t.Parallel()
	a := first(t, "nuc")
	b := a.join(t, "nas", "")
	b.Stop()
	c := b.config
	c.Listen = freePort()
	c.Advertise = c.Listen
	moved := start(t, c)
	eventually(t, "it runs", moved.is(cluster.StateRunning))
	eventually(t, "the others know", func() error {
		for _, m := range a.Status().Members {
			if m.Name == "nas" && m.Advertise == c.Advertise {
				return nil
			}
		}
		return fmt.Errorf("%+v", a.Status().Members)
	})
	eventually(t, "a write", moved.puts("a"))
	c.Name = "tv"
	moved.Stop()
	named := start(t, c)
	eventually(t, "another name is refused", func() error {
		if s := named.Status(); s.State != cluster.StateFailed || !strings.Contains(s.Error, `this machine is member "nas"`) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}
