package watchdog

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// beat is how often the heart looks whether all loops go round, and stuck how long
// one may stand still. A loop goes round each tick.
const (
	beat  = 5 * time.Second
	stuck = 30 * time.Second
)

// heart tells systemd (WatchdogSec) and the dead-man service that every loop goes
// round. If one stands still it is silent, and they do what they are there for.
func (n *watch) heart(ctx context.Context) {
	timer := time.NewTicker(beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if still := n.still(); still != "" {
			n.cfg.Log.Error("a loop stands still", "event", "fatal", "site", still)
			if n.dead != nil {
				n.dead.Beat(false, "site "+still+" is not watched")
			}
			continue
		}
		_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		if n.dead != nil {
			n.dead.Beat(true, fmt.Sprintf("%d sites are watched", len(n.sites)))
		}
	}
}

// lookout looks for maintenance files, once for all sites: they look closer if there
// is one.
func (n *watch) lookout(ctx context.Context) {
	timer := time.NewTicker(time.Second)
	defer timer.Stop()
	for {
		n.look()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// look errs on the side of looking closer.
func (n *watch) look() {
	entries, err := os.ReadDir(n.cfg.Dir)
	n.maintained.Store(err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "maintenance")
	}))
}

// age is how long the watch has been there. A clock that jumps does not change it.
func (n *watch) age() time.Duration { return time.Since(n.began) }

// still names a site whose loop stands still, or nothing.
func (n *watch) still() string {
	for _, s := range n.sites {
		if n.age()-time.Duration(s.alive.Load()) > stuck {
			return s.cfg.Name
		}
	}
	return ""
}

func stack() string { return string(debug.Stack()) }
