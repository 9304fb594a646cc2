// Package leasetest says what every lease.Store does, as tests. Each store's own tests
// run them.
//
//	leasetest.Run(t, store, 2*time.Second)
package leasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/lease"
)

// patience is how long something may take on a busy machine.
const patience = 30 * time.Second

// Run looks at a store, which must be empty. short is a TTL that it keeps to.
func Run(t *testing.T, store lease.Store, short time.Duration) {
	for name, test := range map[string]func(*testing.T, suite){
		"life": life, "expiry": expiry, "writes": writes, "again": again, "race": race, "watch": watch, "values": values,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, suite{store, short, "test/" + name})
		})
	}
}

type suite struct {
	lease.Store
	short time.Duration
	key   string
}

// long is a TTL that does not end within a test.
const long = 10 * time.Minute

func (s suite) acquire(t *testing.T, holder string, ttl time.Duration) lease.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), s.key, holder, ttl)
	if err != nil {
		t.Fatal(err)
	}
	if g.Key != s.key || g.Holder != holder || g.TTL != ttl || g.Epoch == 0 {
		t.Fatalf("grant %+v", g)
	}
	return g
}

func (s suite) read(t *testing.T) lease.Value {
	t.Helper()
	v, err := s.Read(t.Context(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func life(t *testing.T, s suite) {
	if v := s.read(t); v.Data != nil || v.Rev != 0 || v.Holder != "" || v.Epoch != 0 {
		t.Errorf("never written: %+v", v)
	}
	a := s.acquire(t, "a", long)
	if !a.Released {
		t.Error("nobody was before the first grant, and it does not say so")
	}
	_, err := s.Acquire(t.Context(), s.key, "b", long)
	if held, ok := errors.AsType[*lease.HeldError](err); !errors.Is(err, lease.ErrHeld) || !ok || held.By != "a" {
		t.Errorf("what a has: %v", err)
	}
	if v := s.read(t); v.Holder != "a" || v.Epoch != a.Epoch {
		t.Errorf("held by a: %+v", v)
	}
	if err := s.Renew(t.Context(), a); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), a); err != nil {
		t.Error(err)
	}
	if v := s.read(t); v.Holder != "" || v.Epoch != a.Epoch {
		t.Errorf("released: %+v", v)
	}
	if err := s.Renew(t.Context(), a); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewing what was released: %v", err)
	}
	if err := s.Release(t.Context(), a); !errors.Is(err, lease.ErrLost) {
		t.Errorf("releasing twice: %v", err)
	}
	b := s.acquire(t, "b", long)
	if b.Epoch <= a.Epoch || !b.Released {
		t.Errorf("after %+v: %+v", a, b)
	}
	if err := s.Release(t.Context(), a); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a releases what b has: %v", err)
	}
	if v := s.read(t); v.Holder != "b" {
		t.Errorf("held by b: %+v", v)
	}
}

// expiry: nobody renews, and somebody else gets it, not before the time is over.
func expiry(t *testing.T, s suite) {
	before := lease.Clock().Boot
	a := s.acquire(t, "a", s.short)
	var b lease.Grant
	s.eventually(t, "b has it", func() (err error) {
		b, err = s.Acquire(t.Context(), s.key, "b", long)
		return err
	})
	if took := lease.Clock().Boot - before; took < s.short-s.short/100 {
		t.Errorf("b had it after %v, and a had asked for %v", took, s.short)
	}
	if b.Epoch <= a.Epoch || b.Released {
		t.Errorf("after %+v: %+v", a, b)
	}
	if err := s.Renew(t.Context(), a); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewing what is over: %v", err)
	}
}

func (s suite) eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %s: %v", patience, what, err)
}

func writes(t *testing.T, s suite) {
	a := s.acquire(t, "a", long)
	rev, err := s.Write(t.Context(), a, []byte("one"), 0)
	if err != nil || rev == 0 {
		t.Fatal(rev, err)
	}
	if v := s.read(t); string(v.Data) != "one" || v.Rev != rev {
		t.Errorf("read %+v", v)
	}
	if _, err := s.Write(t.Context(), a, []byte("two"), 0); !errors.Is(err, lease.ErrChanged) {
		t.Errorf("over what was not read: %v", err)
	}
	next, err := s.Write(t.Context(), a, []byte("two"), rev)
	if err != nil || next <= rev {
		t.Errorf("revision %d after %d, %v", next, rev, err)
	}
	if err := s.Release(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), a, []byte("late"), next); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a write of who has nothing: %v", err)
	}
	b := s.acquire(t, "b", long)
	if _, err := s.Write(t.Context(), a, []byte("late"), next); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a write of the one before: %v", err)
	}
	if v := s.read(t); string(v.Data) != "two" || v.Rev != next {
		t.Errorf("the value lives longer than the grant: %+v", v)
	}
	if _, err := s.Write(t.Context(), b, []byte("three"), next); err != nil {
		t.Error(err)
	}
}

// again: a holder that was restarted takes its own grant anew, and the one before is
// void.
func again(t *testing.T, s suite) {
	one := s.acquire(t, "a", long)
	two := s.acquire(t, "a", long)
	if two.Epoch <= one.Epoch || two.Released {
		t.Errorf("after %+v: %+v", one, two)
	}
	if err := s.Renew(t.Context(), one); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewing the one before: %v", err)
	}
	if _, err := s.Write(t.Context(), one, nil, 0); !errors.Is(err, lease.ErrLost) {
		t.Errorf("writing by the one before: %v", err)
	}
	if err := s.Release(t.Context(), one); !errors.Is(err, lease.ErrLost) {
		t.Errorf("releasing the one before: %v", err)
	}
	if err := s.Renew(t.Context(), two); err != nil {
		t.Error(err)
	}
}

// race: of many who ask at once one gets it.
func race(t *testing.T, s suite) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := s.Acquire(t.Context(), s.key, fmt.Sprint("home", i), long)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, lease.ErrHeld):
				t.Log(err) // too many at once is no fault
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d homes got it", n)
	}
}

func watch(t *testing.T, s suite) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Int64
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx, []string{s.key, s.key + "2"}, func() { seen.Add(1) }) }()
	s.eventually(t, "it begins", func() error { return more(&seen, 0) })
	for name, change := range map[string]func(){
		"a grant":   func() { s.acquire(t, "a", long) },
		"a write":   func() { _, _ = s.Write(t.Context(), s.acquire(t, "a", long), []byte("x"), 0) },
		"a release": func() { _ = s.Release(t.Context(), s.acquire(t, "a", long)) },
	} {
		before := seen.Load()
		change()
		s.eventually(t, name, func() error { return more(&seen, before) })
	}
	before := seen.Load()
	s.acquire(t, "a", s.short)
	s.eventually(t, "a grant that ends by itself", func() error { return more(&seen, before) })
	s.eventually(t, "nobody has it", func() error {
		if v := s.read(t); v.Holder != "" {
			return errors.New(v.Holder)
		}
		return nil
	})
	s.eventually(t, "its end", func() error { return more(&seen, before+1) })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Watch goes on after its context")
	}
}

func more(seen *atomic.Int64, than int64) error {
	if n := seen.Load(); n <= than {
		return fmt.Errorf("seen %d times", n)
	}
	return nil
}

func values(t *testing.T, s suite) {
	a := s.acquire(t, "a", long)
	if _, err := s.Write(t.Context(), a, make([]byte, lease.MaxValue+1), 0); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too long: %v", err)
	}
	most := bytes.Repeat([]byte{0, 0xff, '\n', '"'}, lease.MaxValue/4)
	rev, err := s.Write(t.Context(), a, most, 0)
	if err != nil {
		t.Fatal(err)
	}
	v := s.read(t)
	if !bytes.Equal(v.Data, most) || v.Rev != rev {
		t.Errorf("%d bytes, revision %d", len(v.Data), v.Rev)
	}
	clear(v.Data) // ours
	if !bytes.Equal(s.read(t).Data, most) {
		t.Error("what Read gave away is the store's own")
	}
	if _, err := s.Write(t.Context(), a, nil, rev); err != nil {
		t.Error(err)
	}
	if v := s.read(t); v.Data == nil || len(v.Data) != 0 {
		t.Errorf("written empty: %+v", v)
	}
}
