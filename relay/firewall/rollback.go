package firewall

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long a rollback is tried for: by a person who waits, and by the guard.
const (
	restoreShort = 15 * time.Second
	restoreLong  = 10 * time.Minute
	restorePause = 250 * time.Millisecond
)

// Rollback takes back at once what is not confirmed. It returns an error if
// there is nothing of that kind.
func (f *Firewall) Rollback(ctx context.Context) (State, error) {
	st, err := openStore(f.cfg.Dir)
	if err != nil {
		return State{}, err
	}
	defer st.close()
	unlock, err := f.lock(ctx, st)
	if err != nil {
		return State{}, err
	}
	defer unlock()
	state, err := st.load()
	if err != nil {
		return State{}, err
	}
	if !state.pending() {
		return state, fmt.Errorf("nothing waits to be confirmed; to remove the rules for good: \"nft delete table %s\", and remove %s", Table, f.cfg.Persist)
	}
	ctx, cancel := context.WithTimeout(ctx, restoreShort)
	defer cancel()
	return f.takeBack(ctx, st, state, "asked to")
}

// expire is the rollback at the end of the window.
func (f *Firewall) expire(ctx context.Context, st *store, id string) error {
	state, err := st.load()
	if err == nil && state.ID != id {
		return nil
	}
	unlock, lockErr := f.lock(ctx, st)
	if lockErr != nil {
		// Apply hangs, perhaps stopped in the middle. Nobody waits for it, and
		// what it does when it goes on is taken back below.
		if err == nil && state.pending() {
			_ = f.restore(ctx, state.Previous)
		}
		if unlock, lockErr = st.lock(context.WithoutCancel(ctx), lockName); lockErr != nil {
			return lockErr
		}
	}
	defer unlock()
	if state, err = st.load(); err != nil {
		return err
	}
	if state.ID != id || !state.pending() {
		return nil
	}
	_, err = f.takeBack(ctx, st, state, "not confirmed in time")
	return err
}

// undo is the rollback of an Apply that failed.
func (f *Firewall) undo(ctx context.Context, st *store, state State, cause error) (State, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreShort)
	defer cancel()
	state, err := f.takeBack(ctx, st, state, cause.Error())
	if err != nil {
		return state, errors.Join(cause, err)
	}
	return state, fmt.Errorf("%w; the rules are as they were", cause)
}

// takeBack restores, says so in the state, and calls the guard off.
func (f *Firewall) takeBack(ctx context.Context, st *store, state State, reason string) (State, error) {
	if err := f.restore(ctx, state.Previous); err != nil {
		return state, fmt.Errorf("could not restore the rules: %w; the ones from before are in %s/%s", err, st.path, state.Backup)
	}
	state.Phase, state.Reason = RolledBack, reason
	if err := st.save(state); err != nil {
		return state, err
	}
	f.disarm(ctx, state)
	return state, nil
}

// restore makes our table what it was, and tries again until it is or ctx ends.
func (f *Firewall) restore(ctx context.Context, previous string) error {
	for {
		err := f.restoreOnce(ctx, previous)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(restorePause):
		case <-ctx.Done():
			return err
		}
	}
}

func (f *Firewall) restoreOnce(ctx context.Context, previous string) error {
	now, err := f.current(ctx)
	if err != nil || now == previous {
		return err
	}
	if err := f.load(ctx, now, previous); err != nil {
		return err
	}
	if now, err = f.current(ctx); err == nil && now != previous {
		err = errors.New("reading the rules back: they are not what they were")
	}
	return err
}
