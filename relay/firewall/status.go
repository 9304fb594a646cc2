package firewall

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Status is what there is to say about the rules now.
type Status struct {
	Phase Phase `json:"phase"`
	// InForce: our table is there and drops what it does not name.
	InForce bool `json:"in_force"`
	// Persisted: the file for the next boot holds what was confirmed, or, if nothing
	// was applied since boot, is there.
	Persisted bool `json:"persisted"`
	// Left is the time until the rollback, in seconds; negative if it is overdue.
	Left float64 `json:"left,omitempty"`
	// Guarded: what will roll back is still there.
	Guarded bool   `json:"guarded"`
	Guard   string `json:"guard,omitempty"`
	Backup  string `json:"backup,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Status looks, and changes nothing.
func (f *Firewall) Status(ctx context.Context) (Status, error) {
	state, guarded, err := f.recall(ctx)
	if err != nil {
		return Status{}, err
	}
	now, err := f.current(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Phase: state.Phase, InForce: strings.Contains(now, "policy drop;"), Reason: state.Reason}
	saved, _ := os.ReadFile(f.cfg.Persist) // one that cannot be read will not be loaded either
	switch state.Phase {
	case Confirmed:
		s.Persisted = string(saved) == state.Script
	default:
		s.Persisted = strings.HasPrefix(string(saved), marker)
	}
	if state.Backup != "" {
		s.Backup = filepath.Join(f.cfg.Dir, state.Backup)
	}
	if state.pending() {
		s.Left = time.Until(state.Deadline).Seconds()
		s.Guard, s.Guarded = state.Guard, guarded
	}
	return s, nil
}

// recall reads the state without making its folder.
func (f *Firewall) recall(ctx context.Context) (state State, guarded bool, err error) {
	if _, err := os.Lstat(f.cfg.Dir); errors.Is(err, fs.ErrNotExist) {
		return State{Phase: Absent}, false, nil
	}
	st, err := openStore(f.cfg.Dir)
	if err != nil {
		return State{}, false, err
	}
	defer st.close()
	if state, err = st.load(); err != nil {
		return State{}, false, err
	}
	return state, state.pending() && f.guarded(ctx, st, state), nil
}

// guarded tells whether the way back is there.
func (f *Firewall) guarded(ctx context.Context, st *store, state State) bool {
	if state.Guard != timerUnit(state.ID)+".timer" {
		return st.held(guardLock)
	}
	systemctl, ok := f.sys.Find("systemctl")
	if !ok {
		return false
	}
	out, _, _ := f.sys.Run(ctx, "", systemctl, "is-active", state.Guard)
	return strings.TrimSpace(out) == "active"
}
