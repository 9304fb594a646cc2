package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Phase of what apply began.
type Phase string

// The phases. Absent: nothing was applied since boot. Arming: the way back is being
// prepared, and no rule has changed. Armed: the rules are, or are about to be, in
// force, and go away again unless they are confirmed. Confirmed and RolledBack are
// the two ends.
const (
	Absent     Phase = "absent"
	Arming     Phase = "arming"
	Armed      Phase = "armed"
	Confirmed  Phase = "confirmed"
	RolledBack Phase = "rolled back"
)

// State is what apply, confirm and the rollback share. It is kept on disk.
type State struct {
	ID       string    `json:"id"`
	Phase    Phase     `json:"phase"`
	Deadline time.Time `json:"deadline,omitzero"` // when the rollback comes
	Script   string    `json:"script"`            // what confirm makes permanent
	Previous string    `json:"previous"`          // our table as it was; empty if there was none
	Guard    string    `json:"guard"`             // what will roll back
	Backup   string    `json:"backup"`            // the file with all rules as they were
	Session  Session   `json:"session,omitzero"`  // over which they were applied
	Reason   string    `json:"reason,omitempty"`  // why they were rolled back
}

// pending tells whether the rollback is still to come.
func (s State) pending() bool { return s.Phase == Arming || s.Phase == Armed }

// store is a folder that only we can write. Scripts that root runs lie there.
type store struct {
	path string
	root *os.Root
}

// The files of the folder.
const (
	stateFile = "state.json"
	lockName  = "lock"
	guardLock = "guard.lock"
	guardLog  = "guard.log"
)

// openStore opens the folder, and makes it if it is not there.
func openStore(path string) (*store, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the state folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening the state folder: %s is not a folder", path)
	}
	if err := owned(info); err != nil {
		return nil, fmt.Errorf("state folder %s: %w; it must be ours alone", path, err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the state folder: %w", err)
	}
	return &store{path, root}, nil
}

func (s *store) close() { _ = s.root.Close() }

// load returns a State that is Absent if there is none.
func (s *store) load() (State, error) {
	text, err := s.root.ReadFile(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Phase: Absent}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the state: %w", err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return State{}, fmt.Errorf("reading the state in %s: %w", s.path, err)
	}
	return state, nil
}

func (s *store) save(state State) error {
	text, err := json.MarshalIndent(state, "", "\t")
	if err == nil {
		err = s.write(stateFile, string(text)+"\n")
	}
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// write replaces a file at once, and only with all of its content on disk.
func (s *store) write(name, text string) error {
	temporary := name + ".new"
	f, err := s.root.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return s.root.Rename(temporary, name)
}

// lock waits for the right to change anything. The kernel gives it back when the
// process ends, however it ends.
func (s *store) lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking the lock: %w", err)
	}
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for lockFile(f) != nil {
		select {
		case <-retry.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("taking the lock: another firewall command is at work: %w", context.Cause(ctx))
		}
	}
	return func() { f.Close() }, nil
}

// held tells whether somebody holds a lock.
func (s *store) held(name string) bool {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	return lockFile(f) != nil
}
