package decide_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/decide"
)

// story plays lines of a trace and remembers what came of them.
type story struct {
	t      *testing.T
	p      decide.Policy
	s      decide.State
	now    time.Time
	writes []decide.Write
	told   []decide.Announce
}

func tell(t *testing.T, policy string) *story {
	t.Helper()
	y := &story{t: t, p: readPolicy(t, strings.Fields(policy)), now: epoch}
	y.s = decide.Restore(y.p, decide.Saved{}, epoch, false)
	return y
}

// play has lines happen now.
func (y *story) play(lines ...string) {
	y.t.Helper()
	for _, line := range lines {
		for _, ev := range readEvents(y.t, y.p, y.s, y.now, strings.Fields(line), line) {
			y.next(ev)
		}
	}
}

func (y *story) next(ev decide.Event) decide.Record {
	var actions []decide.Action
	var rec decide.Record
	y.s, actions, rec = decide.Next(y.p, y.s, y.now, ev)
	for _, a := range actions {
		switch a := a.(type) {
		case decide.Write:
			y.writes = append(y.writes, a)
		case decide.Announce:
			y.told = append(y.told, a)
		}
	}
	return rec
}

// last plays a line each half second for so long.
func (y *story) last(d time.Duration, line string) {
	y.t.Helper()
	for end := y.now.Add(d); y.now.Before(end); y.now = y.now.Add(500 * time.Millisecond) {
		y.play(line)
	}
}

// wrote wants the last write to have gone there.
func (y *story) wrote(path string) {
	y.t.Helper()
	if n := len(y.writes); n == 0 || y.writes[n-1].Path != path {
		y.t.Errorf("at %s want a write to %s, got %v; the site is %s: %s", y.now.Sub(epoch), path, y.writes,
			decide.PhaseOf(y.p, y.s, y.now), decide.Explain(y.p, y.s, y.now).Why)
	}
}

// heard reports how often something was announced.
func (y *story) heard(what decide.What) (n int) {
	for _, a := range y.told {
		if a.What == what {
			n++
		}
	}
	return n
}

// restart is a new process that has what the old one kept.
func (y *story) restart(saved decide.Saved) {
	y.t.Helper()
	text, err := json.Marshal(saved)
	if err != nil {
		y.t.Fatal(err)
	}
	saved = decide.Saved{}
	if err := json.Unmarshal(text, &saved); err != nil {
		y.t.Fatal(err)
	}
	y.s = decide.Restore(y.p, saved, y.now, true)
}

const (
	bothWell   = "round witness=good cloudflare=good relay=good"
	relayFirst = "round witness=good relay=good cloudflare=good"
	relayDead  = "round witness=good cloudflare=good relay=bad"
	allDead    = "round witness=good cloudflare=bad relay=bad"
)

// TestUnsureRepair: a repair of which nobody knows whether it came through does not
// hold visitors on a path that dies meanwhile.
func TestUnsureRepair(t *testing.T) {
	for name, restart := range map[string]bool{"reply lost": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			y := tell(t, "relay cloudflare witness")
			y.play("read relay")
			y.last(4*time.Second, bothWell)
			y.play("read relay drift")
			y.wrote("relay")
			if restart {
				y.restart(decide.Save(y.p, y.s, y.now))
			} else {
				y.play(`wrote unsure "no answer"`)
			}
			y.play("read relay drift")
			y.last(20*time.Second, relayDead)
			y.wrote("cloudflare")
			y.play("wrote ok")
			if y.s.On != 1 || y.heard(decide.Moved) != 1 {
				t.Errorf("on %d, moved %d times", y.s.On, y.heard(decide.Moved))
			}
		})
	}
}

// TestUnsureReturn: nor does a way back.
func TestUnsureReturn(t *testing.T) {
	y := tell(t, "relay cloudflare witness")
	y.play("read cloudflare")
	y.last(6*time.Minute, bothWell)
	y.wrote("relay")
	y.play(`wrote unsure "no answer"`, "read relay drift")
	y.last(20*time.Second, relayDead)
	y.wrote("cloudflare")
}

// TestPinnedUnsure: a pin holds a dead path, and a move to it too.
func TestPinnedUnsure(t *testing.T) {
	y := tell(t, "relay cloudflare witness")
	y.play("read cloudflare")
	y.last(4*time.Second, bothWell)
	y.play("pin relay", `wrote unsure "no answer"`, "read relay drift")
	y.last(20*time.Second, relayDead)
	for _, w := range y.writes {
		if w.Path != "relay" {
			t.Errorf("pinned to the relay, and written: %s", w)
		}
	}
}

// TestWithdrawRefused: records that still have their AAAA are no sign that it has been
// withdrawn.
func TestWithdrawRefused(t *testing.T) {
	const dead = "round witness=good witness6=good relay=bad relay6=bad cloudflare=bad cloudflare6=bad"
	y := tell(t, "relay cloudflare witness v6 withdraw")
	y.play("read relay")
	y.last(10*time.Second, dead)
	y.wrote("relay")
	y.play(`wrote refused "503"`, "read relay")
	y.last(10*time.Second, dead)
	if len(y.writes) != 2 || !y.writes[1].Bare {
		t.Errorf("writes are %v, want a second try", y.writes)
	}
	y.play("wrote ok")
	if !y.s.Bare || y.s.Told.Refusing {
		t.Errorf("withdrawn: bare %t, refusing %t", y.s.Bare, y.s.Told.Refusing)
	}
}

// TestWithdrawOnlyFamily: what has no A record keeps its AAAA.
func TestWithdrawOnlyFamily(t *testing.T) {
	y := tell(t, "relay cloudflare witness v6 withdraw")
	for i := range y.p.Paths {
		y.p.Paths[i].V4 = false
	}
	y.play("read relay")
	y.last(10*time.Second, "round witness=good witness6=good relay6=bad cloudflare6=bad")
	if len(y.writes) > 0 {
		t.Errorf("written: %v", y.writes)
	}
}

// TestFailoverElsewhere: a failover that was refused takes the path that works by the
// time it is tried again, if the one it was meant for does not.
func TestFailoverElsewhere(t *testing.T) {
	for name, then := range map[string]string{
		"the home is down": "round local=bad witness=good relay=bad cloudflare=good mirror=good",
		"nobody can say":   "round local=good witness=good relay=bad cloudflare=unknown mirror=good",
		"dead":             "round local=good witness=good relay=bad cloudflare=bad mirror=good",
	} {
		t.Run(name, func(t *testing.T) {
			y := tell(t, "relay cloudflare mirror! local witness")
			y.play("read relay")
			y.last(4*time.Second, "round local=good witness=good relay=good cloudflare=good mirror=good")
			y.last(6*time.Second, "round local=good witness=good relay=bad cloudflare=good mirror=good")
			y.wrote("cloudflare")
			y.play(`wrote refused "503"`)
			y.last(20*time.Second, then)
			y.wrote("mirror")
		})
	}
}

// TestOperatorsMoveDies: a move that an operator asked for and the provider refused
// keeps nobody on a dead path.
func TestOperatorsMoveDies(t *testing.T) {
	y := tell(t, "relay cloudflare mirror! witness")
	y.play("read relay")
	y.last(4*time.Second, "round witness=good relay=good cloudflare=good mirror=good")
	y.play("switch cloudflare", `wrote refused "503"`)
	y.last(20*time.Second, "round witness=good relay=bad cloudflare=bad mirror=good")
	y.wrote("mirror")
}

// TestMovedByHandMeanwhile: where the provider refuses us, somebody may move the
// records by hand. What works is left where it is.
func TestMovedByHandMeanwhile(t *testing.T) {
	for _, outcome := range []string{"refused", "unsure"} {
		y := tell(t, "relay cloudflare mirror! witness")
		y.play("read relay")
		y.last(4*time.Second, "round witness=good relay=good cloudflare=good mirror=good")
		y.last(5*time.Second, "round witness=good relay=bad cloudflare=good mirror=good")
		y.wrote("cloudflare")
		y.play("wrote "+outcome+` "token"`, "read mirror")
		y.last(time.Minute, "round witness=good relay=bad cloudflare=good mirror=good")
		if len(y.writes) != 1 || y.s.Want != 2 || y.s.Told.Refusing {
			t.Errorf("%s: written %v, wanted %d, told %+v", outcome, y.writes, y.s.Want, y.s.Told)
		}
	}
}

// TestHoldWhilePinned: a hold is over when its path works, pinned or not.
func TestHoldWhilePinned(t *testing.T) {
	y := tell(t, "relay cloudflare witness")
	y.play("read relay")
	y.last(4*time.Second, bothWell)
	y.last(10*time.Second, allDead)
	y.last(time.Second, "round witness=good cloudflare=bad relay=good")
	y.play("pin relay")
	y.last(10*time.Second, bothWell)
	if y.heard(decide.Held) != 1 || y.heard(decide.Released) != 1 || decide.PhaseOf(y.p, y.s, y.now) != decide.Steady {
		t.Errorf("held %d times, released %d, and %s", y.heard(decide.Held), y.heard(decide.Released), decide.PhaseOf(y.p, y.s, y.now))
	}
}

// TestStandbyTaken: a standby that was down is no standby any more once somebody else
// has moved visitors there, and it works.
func TestStandbyTaken(t *testing.T) {
	y := tell(t, "relay cloudflare witness")
	y.play("read relay")
	y.last(4*time.Second, bothWell)
	y.last(8*time.Second, "round witness=good cloudflare=bad relay=good")
	y.last(8*time.Second, "round witness=good cloudflare=bad relay=bad")
	y.play("read cloudflare")
	y.last(20*time.Second, relayDead)
	if y.s.Want != 1 || y.heard(decide.StandbyUp) != 1 || slices.Contains(y.s.Told.Down, 1) {
		t.Errorf("on %d, up %d, down %v: %v", y.s.Want, y.heard(decide.StandbyUp), y.s.Told.Down, y.told)
	}
}

// TestToldOutlivesRestart: what people were told of is ended by the process, or the run
// of a timer, that sees the end of it.
func TestToldOutlivesRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		before       func(y *story)
		after        func(y *story)
		began, ended decide.What
	}{
		"quarantine": {
			func(y *story) { y.play(`read conflict "CNAME"`) },
			func(y *story) { y.play("read relay") }, decide.Quarantined, decide.Cleared,
		},
		"refusing": {
			func(y *story) { y.last(6*time.Second, relayDead); y.play(`wrote refused "503"`) },
			func(y *story) {
				y.last(2*time.Second, relayFirst)
				if y.s.Move != nil { // the intent went on
					y.play("wrote ok")
				}
			}, decide.Refusing, decide.Accepting,
		},
		"hold": {
			func(y *story) { y.last(10*time.Second, allDead) },
			func(y *story) { y.last(30*time.Second, relayFirst) }, decide.Held, decide.Released,
		},
		"outage": {
			func(y *story) { y.last(10*time.Second, allDead) },
			func(y *story) { y.last(30*time.Second, bothWell) }, decide.OutageBegan, decide.OutageOver,
		},
		"blind": {
			func(y *story) { y.last(40*time.Second, "witness bad") },
			func(y *story) { y.last(30*time.Second, bothWell) }, decide.WentBlind, decide.SeesAgain,
		},
		"standby": {
			func(y *story) { y.last(10*time.Second, "round witness=good cloudflare=bad relay=good") },
			func(y *story) { y.last(30*time.Second, bothWell) }, decide.StandbyDown, decide.StandbyUp,
		},
	} {
		for _, kept := range []struct {
			how  string
			save func(decide.Policy, decide.State, time.Time) decide.Saved
		}{{"a restart", decide.Save}, {"the next run", decide.SaveEvidence}} {
			t.Run(name+" and "+kept.how, func(t *testing.T) {
				y := tell(t, "relay cloudflare witness")
				y.play("read relay")
				y.last(4*time.Second, bothWell)
				tc.before(y)
				if y.heard(tc.began) != 1 {
					t.Fatalf("not announced: %v", y.told)
				}
				y.now = y.now.Add(2 * time.Second)
				y.restart(kept.save(y.p, y.s, y.now))
				y.play("read relay")
				tc.after(y)
				if y.heard(tc.ended) != 1 {
					t.Errorf("%s was not ended: %v", tc.began, y.told)
				}
			})
		}
	}
}

// TestRefusingEnds: a provider that refuses what nobody wants any more is no trouble.
func TestRefusingEnds(t *testing.T) {
	for name, end := range map[string]func(y *story){
		"an operator stays": func(y *story) {
			y.play("wrote unsure", "read relay drift", bothWell, "switch relay", "wrote ok")
		},
		"the path is gone": func(y *story) {
			saved := decide.Save(y.p, y.s, y.now)
			y.p = readPolicy(y.t, strings.Fields("relay mirror witness"))
			y.restart(saved)
			y.play("read relay")
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := tell(t, "relay cloudflare witness")
			y.play("read relay")
			y.last(4*time.Second, bothWell)
			y.last(6*time.Second, relayDead)
			y.play(`wrote refused "503"`)
			y.now = y.now.Add(5 * time.Second)
			y.play(relayDead)
			end(y)
			if y.s.Move != nil || y.heard(decide.Refusing) != 1 || y.heard(decide.Accepting) != 1 {
				t.Errorf("refusing %d, accepting %d, move %+v", y.heard(decide.Refusing), y.heard(decide.Accepting), y.s.Move)
			}
		})
	}
}

// TestMeddlingIsNoWayBack: another writer is not fought by going back either.
func TestMeddlingIsNoWayBack(t *testing.T) {
	y := tell(t, "relay cloudflare witness")
	y.play("read relay")
	y.last(4*time.Second, bothWell)
	for range 6 {
		y.play("read cloudflare")
		y.wrote("relay")
		y.play("wrote ok")
		y.last(time.Second, bothWell)
	}
	y.play("read cloudflare")
	y.last(30*time.Minute, bothWell)
	if len(y.writes) != 6 {
		t.Errorf("%d writes, want the 6 repairs: the last is %v", len(y.writes), y.writes[len(y.writes)-1])
	}
	y.last(time.Hour, bothWell)
	y.wrote("relay")
}

// TestRemovedPath: nothing remembers by number what the config calls by name.
func TestRemovedPath(t *testing.T) {
	y := tell(t, "relay cloudflare mirror! witness")
	y.play("read relay")
	y.last(4*time.Second, "round witness=good relay=good cloudflare=good mirror=good")
	y.last(10*time.Second, "round witness=good relay=good cloudflare=bad mirror=good")
	y.play("pin mirror", "wrote ok")
	saved := decide.SaveEvidence(y.p, y.s, y.now)
	y.p = readPolicy(t, strings.Fields("mirror! relay witness"))
	y.restart(saved)
	y.play("read mirror")
	if y.s.Want != 0 || y.s.Pinned != 0 || slices.Contains(y.s.Told.Down, 1) {
		t.Errorf("want %d, pinned %d, down %v", y.s.Want, y.s.Pinned, y.s.Told.Down)
	}
}
