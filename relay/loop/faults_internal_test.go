//go:build linux

package loop

import (
	"log/slog"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/session"
)

func bareLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := newLoop(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.release)
	return l
}

// The list of pairs that wait for a turn keeps none that has had it.
func TestReadyListForgets(t *testing.T) {
	l := bareLoop(t)
	for range 3 {
		l.later(&pair{phase: ended})
	}
	list := l.ready
	l.serveReady()
	for i, p := range list {
		if p != nil {
			t.Errorf("entry %d still points to a pair that has ended", i)
		}
	}
}

// After a day without a connection the first deadline lies where it belongs, and
// not a day back.
func TestWheelSkipsQuietTime(t *testing.T) {
	const day = int64(24 * 3600e9)
	var w wheel
	var p pair
	w.set(&p, 10*tick)
	w.clear(&p)
	w.skip(day)
	w.set(&p, day+5*tick)
	if want := day/tick + 5; p.tick != want {
		t.Errorf("the deadline waits at tick %d, want %d", p.tick, want)
	}
}

// A door that cannot be watched again after its pause pauses once more.
func TestPausedDoorIsNotForgotten(t *testing.T) {
	l := bareLoop(t)
	d := &door{fd: -1, listener: &session.Listener{Name: "test"}}
	if l.openDoor(d) == 0 {
		t.Fatal("watching a descriptor that does not exist worked")
	}
	l.pauseDoor(d, unix.EMFILE)
	l.wheel.expire(l.now+2*acceptPause, l.onTime)
	if l.wheel.count != 1 {
		t.Errorf("%d timers after the pause, want another pause", l.wheel.count)
	}
}
