package firewall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Confirm keeps the rules: it calls the rollback off, and writes the file for the
// next boot. It must be called over another SSH connection than Apply was, because
// one that is open goes on whatever the rules say; session may be the zero value for
// an operator at the console. Called again it writes the file again.
func (f *Firewall) Confirm(ctx context.Context, session Session) (State, error) {
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
	if err := f.mayConfirm(ctx, state, session); err != nil {
		return state, err
	}
	if err := writable(f.cfg.Persist); err != nil {
		return state, err
	}
	was := state.Phase
	state.Phase = Confirmed
	// From here the guard does nothing. Should we die before the file is written,
	// status says so and confirm can be repeated.
	if err := st.save(state); err != nil {
		return state, err
	}
	if was == Armed {
		f.disarm(ctx, state)
	}
	if err := persist(f.cfg.Persist, state.Script); err != nil {
		return state, fmt.Errorf("the rules are confirmed and stay until the next boot; writing them for it: %w; confirm again when that is repaired", err)
	}
	return state, nil
}

func (f *Firewall) mayConfirm(ctx context.Context, state State, session Session) error {
	switch {
	case state.Phase == RolledBack:
		return fmt.Errorf("the rules were taken back: %s; apply them again", state.Reason)
	case state.Phase != Armed && state.Phase != Confirmed:
		return errors.New("there is nothing to confirm: apply rules first")
	case state.Phase == Armed && !session.IsZero() && session == state.Session:
		return errors.New("this is the connection over which the rules were applied, and it goes on whatever they say: open a new one and confirm there (with ssh -S none if connections are shared), or say --console")
	}
	now, err := f.current(ctx)
	if err != nil {
		return err
	}
	if err := sameRules(state.Script, now); err != nil {
		return fmt.Errorf("the rules are not what was applied: %w; apply them again", err)
	}
	return nil
}

// writable says why the file may not be written.
func writable(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	// Root loads the file at boot.
	if err := owned(info); err != nil {
		return fmt.Errorf("persist: folder %s: %w; say another --persist", dir, err)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	if !strings.HasPrefix(string(text), marker+"\n") {
		return fmt.Errorf("persist: %s is not ours and would be overwritten; say another --persist", path)
	}
	return nil
}

func persist(path, script string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".edgeward-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(script)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename survive a crash.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
