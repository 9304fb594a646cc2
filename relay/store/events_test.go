package store_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

// TestEventsRoundTrip: each field comes back, those added later too.
func TestEventsRoundTrip(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "edge.db"), store.Options{MaxEventAge: -1})
	last := uint64(0)
	events := rapid.Custom(func(t *rapid.T) event.Event {
		e := rapid.Make[event.Event]().Draw(t, "event")
		e.ID, e.At = 0, time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		e.Kind += "x"
		return e
	})
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(events, 1, 5).Draw(rt, "events")
		kept, err := s.AddEvents(t.Context(), want)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range want {
			if want[i].ID != 0 {
				rt.Fatal("the caller's events were changed")
			}
			last++
			want[i].ID = last
		}
		got, err := s.Events(t.Context(), store.EventQuery{Limit: len(want)})
		if err != nil {
			rt.Fatal(err)
		}
		for _, list := range [][]event.Event{kept, got} {
			if d := cmp.Diff(want, list, cmpopts.EquateEmpty()); d != "" {
				rt.Fatal("-want +got:\n", d)
			}
		}
	})
}

func TestEventQuery(t *testing.T) {
	s, _ := fresh(t)
	var events []event.Event
	for i := range 200 {
		e := event.Event{At: noon, Kind: event.GatewayDown, Gateway: fmt.Sprint("g", i%3)}
		switch {
		case i%10 == 0:
			e = event.Event{At: noon, Kind: event.RoutesMigrated, Pool: "home", Routes: []string{"site", fmt.Sprint("r", i)}}
		case i%2 == 0:
			e.Kind = event.GatewayAlive
		}
		events = append(events, e)
	}
	if _, err := s.AddEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		q    store.EventQuery
		want string // IDs
	}{
		{"the newest", store.EventQuery{Limit: 3}, "198 199 200"},
		{"going on", store.EventQuery{After: 10, Limit: 3}, "11 12 13"},
		{"going on at the end", store.EventQuery{After: 200}, ""},
		{"going back", store.EventQuery{Before: 10, Limit: 3}, "7 8 9"},
		{"between", store.EventQuery{After: 10, Before: 13}, "11 12"},
		{"nothing between", store.EventQuery{After: 10, Before: 11}, ""},
		{"after all that can be", store.EventQuery{After: math.MaxUint64}, ""},
		{"before all that can be", store.EventQuery{Before: math.MaxUint64, Limit: 1}, "200"},
		{"a kind", store.EventQuery{Kinds: []event.Kind{event.RoutesMigrated}, Limit: 2}, "181 191"},
		{"two kinds", store.EventQuery{Kinds: []event.Kind{event.RoutesMigrated, event.GatewayAlive}, Limit: 3}, "195 197 199"},
		{"a gateway", store.EventQuery{Gateway: "g0", Limit: 2}, "196 199"},
		{"a pool", store.EventQuery{Pool: "home", After: 1, Limit: 2}, "11 21"},
		{"a route", store.EventQuery{Route: "site", Limit: 2}, "181 191"},
		{"another route", store.EventQuery{Route: "r50"}, "51"},
		{"all of it", store.EventQuery{Route: "r50", Pool: "home", Kinds: []event.Kind{event.RoutesMigrated}, After: 50, Before: 52}, "51"},
		{"contradictory", store.EventQuery{Gateway: "g0", Pool: "home"}, ""},
		{"hostile", store.EventQuery{Gateway: "' OR TRUE --", Kinds: []event.Kind{"') OR TRUE --"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := s.Events(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			if got := ids(list); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if list, err := s.Events(t.Context(), store.EventQuery{}); err != nil || len(list) != 100 {
		t.Errorf("without a limit there are %d, %v", len(list), err)
	}
}

func ids(list []event.Event) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprint(e.ID))
	}
	return strings.Join(out, " ")
}

func TestRetention(t *testing.T) {
	day := 24 * time.Hour
	ages := []time.Duration{100 * day, 50 * day, 10 * day, 5 * day, day}
	tests := []struct {
		name string
		o    store.Options
		want string
	}{
		{"defaults", store.Options{}, "2 3 4 5"},
		{"by count", store.Options{MaxEvents: 2}, "4 5"},
		{"by age", store.Options{MaxEventAge: 7 * day}, "4 5"},
		{"by both", store.Options{MaxEvents: 3, MaxEventAge: 2 * day}, "5"},
		{"never", store.Options{MaxEvents: -1, MaxEventAge: -1}, "1 2 3 4 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "edge.db")
			s := open(t, path, tt.o)
			for _, age := range ages {
				e := event.Event{At: time.Now().Add(-age), Kind: event.GatewayDown, Routes: []string{"site"}}
				if _, err := s.AddEvents(t.Context(), []event.Event{e}); err != nil {
					t.Fatal(err)
				}
			}
			list, err := s.Events(t.Context(), store.EventQuery{})
			if err != nil || ids(list) != tt.want {
				t.Errorf("kept %s, %v; want %s", ids(list), err, tt.want)
			}
			intact(t, path)
		})
	}
}

// TestIDsAreNotReused, not even after all events were pruned and the store reopened:
// who goes on from an ID misses nothing.
func TestIDsAreNotReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edge.db")
	add := func(want uint64) {
		s := open(t, path, store.Options{})
		old := event.Event{At: time.Now().AddDate(-1, 0, 0), Kind: event.GatewayDown}
		kept, err := s.AddEvents(t.Context(), []event.Event{old})
		if err != nil || kept[0].ID != want {
			t.Errorf("got %v %v, want ID %d", kept, err, want)
		}
		if list, _ := s.Events(t.Context(), store.EventQuery{}); len(list) > 0 {
			t.Errorf("%v was not pruned", list)
		}
		s.Close()
	}
	add(1)
	add(2)
}

// TestCommitKeepsEvents, with the change or not at all; TestCommitIsWhole has the rest.
func TestCommitKeepsEvents(t *testing.T) {
	s, _ := fresh(t)
	did := []event.Event{
		{At: noon, Kind: event.PoolCreated, Pool: "home", Actor: "ann"},
		{At: noon, Kind: event.RouteCreated, Routes: []string{"site"}, Actor: "ann"},
	}
	kept := commit(t, s, empty(), small(), did...)
	list, err := s.Events(t.Context(), store.EventQuery{})
	if err != nil || ids(list) != "1 2" || !slices.EqualFunc(kept, list, func(a, b event.Event) bool { return cmp.Equal(a, b) }) {
		t.Errorf("kept %v, returned %v, %v", list, kept, err)
	}
	// Events of what changed nothing are events too.
	commit(t, s, small(), small(), event.Event{At: noon, Kind: event.OperatorPool})
	if list, _ := s.Events(t.Context(), store.EventQuery{After: 2}); ids(list) != "3" {
		t.Errorf("got %v", list)
	}
}
