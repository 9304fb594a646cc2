package watchdog

import (
	"cmp"
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
// one may stand still: a site's goes round each tick. A zone's does, too, but for
// requests to the provider, of which it makes up to ten in a row for a long list; each
// takes 10 s at most.
const (
	beat      = 5 * time.Second
	stuck     = 30 * time.Second
	zoneStuck = 2 * time.Minute
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
			n.cfg.Log.Error("a loop stands still", "event", "fatal", "what", still)
			if n.dead != nil {
				n.dead.Beat(false, still+" stands still")
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

// still says whose loop stands still, or nothing.
func (n *watch) still() string {
	for _, s := range n.sites {
		if n.age()-time.Duration(s.alive.Load()) > stuck {
			return "site " + s.cfg.Name
		}
	}
	for _, z := range n.zones {
		if n.age()-time.Duration(z.alive.Load()) > zoneStuck {
			return "zone " + cmp.Or(z.cfg.Name, z.cfg.ID)
		}
	}
	return ""
}

func stack() string { return string(debug.Stack()) }
