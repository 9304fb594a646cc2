package firewall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// timerUnit is the name of the systemd timer that rolls back.
func timerUnit(id string) string { return "edge-firewall-rollback-" + id }

// armTime is how long the way back may take to be ready.
const armTime = 15 * time.Second

// arm makes sure that [Firewall.Guard] will be called, whatever becomes of this
// process. It returns what will call it.
func (f *Firewall) arm(ctx context.Context, st *store, id string, window time.Duration) (guard string, err error) {
	if len(f.cfg.Self) == 0 {
		return "", errors.New("no command to call")
	}
	ctx, cancel := context.WithTimeout(ctx, armTime)
	defer cancel()
	args := append(f.cfg.Self[1:len(f.cfg.Self):len(f.cfg.Self)], "--armed", id, "--state-dir", f.cfg.Dir)
	if systemdRun, ok := f.sys.Find("systemd-run"); ok && f.sys.Systemd() {
		unit := timerUnit(id)
		options := []string{
			"--quiet", "--collect", "--unit=" + unit, fmt.Sprintf("--on-active=%dms", window.Milliseconds()),
			"--timer-property=AccuracySec=100ms", "--property=Type=oneshot", "--description=Edgeward: take unconfirmed firewall rules back",
			"--", f.cfg.Self[0],
		}
		_, _, err := f.sys.Run(ctx, "", systemdRun, append(options, args...)...)
		if err == nil {
			return unit + ".timer", nil
		}
		// A process of our own would die with the session on many of these machines.
		return "", err
	}
	log, err := st.root.OpenFile(guardLog, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	if err := f.sys.Detach(ctx, log, f.cfg.Self[0], append(args, "--after", window.String())...); err != nil {
		return "", err
	}
	return "a process of its own", nil
}

// disarm stops what arm started, for tidiness: it would find nothing to do.
func (f *Firewall) disarm(ctx context.Context, state State) {
	if systemctl, ok := f.sys.Find("systemctl"); ok && state.Guard == timerUnit(state.ID)+".timer" {
		_, _, _ = f.sys.Run(ctx, "", systemctl, "stop", state.Guard)
	}
}

// Guard is the way back. It waits, if after is positive, while state id is to be
// confirmed, and then restores what was before unless that has happened. armed is
// called once nothing can keep it from doing so; a ctx that ends makes it roll
// back at once.
func (f *Firewall) Guard(ctx context.Context, id string, after time.Duration, armed func()) error {
	st, err := openStore(f.cfg.Dir)
	if err != nil {
		return err
	}
	defer st.close()
	if after > 0 {
		unlock, err := st.lock(ctx, guardLock) // for status to see that we live
		if err != nil {
			return err
		}
		defer unlock()
	}
	armed()
	if !f.watch(ctx, st, id, after) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLong)
	defer cancel()
	return f.expire(ctx, st, id)
}

// watch returns true when it is time, and false when there is nothing to do.
func (f *Firewall) watch(ctx context.Context, st *store, id string, after time.Duration) bool {
	if after <= 0 {
		return true
	}
	over := time.NewTimer(after)
	defer over.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-over.C:
			return true
		case <-ctx.Done():
			return true
		case <-look.C:
			// What cannot be read is not confirmed.
			if state, err := st.load(); err == nil && (state.ID != id || !state.pending()) {
				return false
			}
		}
	}
}
