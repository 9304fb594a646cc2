package origin_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestTraces plays testdata/*.trace. A line is "time address..." or "time unknown",
// and indented below it what Next said of it and, after a move, what is remembered.
// "by=" are the operators and "record=" is the record it came from; by default it is
// two operators. "policy" sets the policy, # begins a comment.
func TestTraces(t *testing.T) {
	golden.Files(t, "testdata/*.trace", play)
}

func play(t *testing.T, trace string) string {
	t.Helper()
	var (
		out strings.Builder
		p   origin.Policy
		s   origin.State
	)
	for line := range strings.Lines(trace) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line)
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
			continue
		case fields[0] == "policy":
			if _, err := fmt.Sscanf(fields[1], "confirm=%d", &p.Confirm); err != nil {
				t.Fatal(line, err)
			}
			continue
		}
		after, err := time.ParseDuration(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		var changes []origin.Change
		s, changes = origin.Next(p, s, epoch.Add(after), observation(t, fields[1:]))
		for _, c := range changes {
			fmt.Fprintf(&out, "       %s\n", c)
			if a := s.V4; c.Kind == origin.Moved && c.Family == resolve.IPv4 && len(a.Previous) > 0 {
				fmt.Fprintf(&out, "       remembers %v\n", a.Previous)
			}
		}
		s = restart(t, s)
	}
	return out.String()
}

// restart writes a state to disk and reads it back.
func restart(t interface{ Fatal(...any) }, s origin.State) origin.State {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back origin.State
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func observation(t *testing.T, fields []string) origin.Observation {
	t.Helper()
	by, record := []string{"one", "two"}, ""
	var o origin.Observation
	for _, f := range fields {
		switch key, value, _ := strings.Cut(f, "="); key {
		case "by":
			by = strings.Split(value, ",")
		case "record":
			record = value
		case "unknown":
		default:
			addr, err := netip.ParseAddr(f)
			if err != nil {
				t.Fatal(err)
			}
			if addr.Is4() {
				o.V4.Addr = addr
			} else {
				o.V6.Addr = addr
			}
		}
	}
	for _, r := range []*origin.Reading{&o.V4, &o.V6} {
		if r.Addr.IsValid() {
			r.By, r.Record = by, record
		}
	}
	return o
}

// TestOurs: an old address of ours is ours, no address is not.
func TestOurs(t *testing.T) {
	a := origin.Address{Current: home4, Previous: []netip.Addr{relay4}}
	if !a.Ours(home4) || !a.Ours(relay4) || a.Ours(other4) || a.Ours(netip.Addr{}) || (origin.Address{}).Ours(netip.Addr{}) {
		t.Error("Ours is wrong")
	}
}

// TestNextDoesNotModify: the state that went in stays as it was.
func TestNextDoesNotModify(t *testing.T) {
	s := origin.State{V4: origin.Address{
		Current: home4, Previous: make([]netip.Addr, 3, 10), Turns: append(make([]time.Time, 0, 10), epoch.Add(-2*time.Hour), epoch), Candidate: other4, Rounds: 1, Heard: epoch,
	}}
	before := restart(t, s)
	after, changes := origin.Next(origin.Policy{}, s, epoch.Add(time.Minute), origin.Observation{V4: good(other4)})
	if len(changes) != 1 || after.V4.Current != other4 {
		t.Fatalf("%v", changes)
	}
	if diff := cmp.Diff(before, s, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Next wrote into the old state:\n%s", diff)
	}
}

// TestTurnsAreBounded: an address that changes all the time does not fill the journal.
func TestTurnsAreBounded(t *testing.T) {
	var s origin.State
	told := 0
	for i := range 200 {
		var changes []origin.Change
		addr := []netip.Addr{home4, other4}[i%2]
		s, changes = origin.Next(origin.Policy{}, s, epoch.Add(time.Duration(i)*time.Second), origin.Observation{V4: good(addr)})
		told += len(changes)
	}
	if len(s.V4.Turns) != 32 || told != 1 || s.V4.Current.IsValid() {
		t.Errorf("%d turns, told %d times, at %s", len(s.V4.Turns), told, s.V4.Current)
	}
}

func good(addr netip.Addr) origin.Reading {
	return origin.Reading{Addr: addr, By: []string{"one", "two"}}
}

// TestNever: whatever comes, an address is believed only after rounds in a row that
// had proof, is never lost again, and the state stays small.
func TestNever(t *testing.T) {
	addrs := []netip.Addr{{}, home4, other4, relay4, home6, netip.MustParseAddr("198.51.100.99"), netip.AddrFrom16(home4.As16())}
	rapid.Check(t, func(t *rapid.T) {
		p := origin.Policy{Confirm: rapid.IntRange(0, 4).Draw(t, "confirm")}
		need := p.WithDefaults().Confirm
		var s origin.State
		var proof []netip.Addr // of the rounds that knew
		now := epoch
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 20).Draw(t, "minutes")) * time.Minute)
			r := origin.Reading{
				Addr:   rapid.SampledFrom(addrs).Draw(t, "addr"),
				By:     rapid.SliceOfN(rapid.SampledFrom([]string{"one", "two"}), 0, 3).Draw(t, "by"),
				Record: rapid.SampledFrom([]string{"", "", "home.example.com"}).Draw(t, "record"),
			}
			sources := slices.Contains(r.By, "one") && slices.Contains(r.By, "two")
			known := r.Addr.Is4() && (sources || r.Record != "")
			before := s.V4
			var changes []origin.Change
			s, changes = origin.Next(p, s, now, origin.Observation{V4: r})
			s = restart(t, s)
			if !known {
				if len(changes) > 0 || !cmp.Equal(before, s.V4, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })) {
					t.Fatalf("an unknown round changed %+v to %+v, %v", before, s.V4, changes)
				}
				continue
			}
			proof = append(proof, r.Addr)
			if s.V4.Current != before.Current {
				tail := proof[max(0, len(proof)-need):]
				if len(tail) < need || slices.ContainsFunc(tail, func(a netip.Addr) bool { return a != s.V4.Current }) {
					t.Fatalf("moved to %s after %v, want %d rounds", s.V4.Current, proof, need)
				}
				if before.Current.IsValid() && !s.V4.Ours(before.Current) {
					t.Fatalf("%s is forgotten", before.Current)
				}
			}
			if len(s.V4.Previous) > origin.MaxPrevious || len(s.V4.Turns) > 32 || slices.Contains(s.V4.Previous, s.V4.Current) {
				t.Fatalf("bad state %+v", s.V4)
			}
			if moved := slices.ContainsFunc(changes, func(c origin.Change) bool { return c.Kind == origin.Moved }); moved != (s.V4.Current != before.Current) {
				t.Fatalf("from %s to %s, and told %v", before.Current, s.V4.Current, changes)
			}
			if before.Current.IsValid() && !s.V4.Current.IsValid() || s.V6.Current.IsValid() {
				t.Fatalf("bad state %+v", s)
			}
		}
	})
}
