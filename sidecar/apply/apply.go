// Package apply puts a rendered config into force: it lets HAProxy check it, replaces
// the file in one step, reloads, and waits for the new worker. If that one does not
// come up, the former config is put back and loaded again.
//
//	result, err := apply.Apply(ctx, apply.Config{Path: "/etc/haproxy/haproxy.cfg", Reload: reload}, out)
//
// If nothing is different, nothing is touched. A run that was cut off between the
// file and the reload is finished by the next one.
//
// What the running HAProxy knows of its servers goes along, so that the new worker
// does not begin by sending visitors to a member that is down.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/render"
)

// Config is where and how.
type Config struct {
	// Path is HAProxy's config.
	Path    string
	Checker haproxy.Checker
	Reload  Reload
	// Maps is the running HAProxy: where a config differs from the one before in its
	// maps alone, they are changed without a reload. Default: nil, a reload for all.
	Maps Maps
}

// Result is what was done.
type Result struct {
	Changed bool   `json:"changed"` // false: all was so already, and nothing was touched
	Backup  string `json:"backup,omitzero"`
	Worker  int    `json:"worker,omitzero"` // the pid of the new worker, if there was a reload
	Carried int    `json:"carried"`         // servers whose state went along
	Names   int    `json:"names,omitzero"`  // maps that were changed without a reload
	// Notices are HAProxy's warnings, and what could not be carried.
	Notices []string `json:"notices,omitempty"`
}

// Undone is a config that was checked and did not come up.
type Undone struct {
	Cause error
	// Restored says that the former config is back and in force; Restore is why
	// it is not, or could not be seen to be.
	Restored bool
	Restore  error
}

// Error implements error.
func (e *Undone) Error() string {
	if e.Restored {
		return fmt.Sprintf("could not confirm the new config, the former one is back: %v", e.Cause)
	}
	return fmt.Sprintf("could not confirm the new config: %v; restoring the former one: %v", e.Cause, e.Restore)
}

// Unwrap returns why the config did not come up.
func (e *Undone) Unwrap() error { return e.Cause }

// Apply puts a config into force. It returns [*haproxy.Invalid] if HAProxy refuses
// it, with nothing changed, and [*Undone] if it did not come up.
func Apply(ctx context.Context, c Config, out render.Output) (r Result, err error) {
	a := applier{Config: c, out: out}
	if a.Path, err = resolve(c.Path); err != nil {
		return r, err
	}
	if err := makeFolder(out.Folder); err != nil {
		return r, err
	}
	unlock, err := lock(filepath.Join(out.Folder, "lock"))
	if err != nil {
		return r, err
	}
	defer unlock()
	if same, err := a.unchanged(); same || err != nil {
		return r, err
	}
	return a.run(ctx)
}

// applier is one run of Apply.
type applier struct {
	Config
	out render.Output
	old []byte // the config before
	had bool   // there was one
	r   Result
}

// pending is there while a config is in place that no worker was seen to have.
func (a *applier) pending() string { return filepath.Join(a.out.Folder, "pending") }

func (a *applier) interrupted() bool {
	_, err := os.Stat(a.pending())
	return err == nil
}

// unchanged reads what is there, and reports whether that is all we want.
func (a *applier) unchanged() (bool, error) {
	old, err := os.ReadFile(a.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the config of HAProxy: %w", err)
	}
	a.old, a.had = old, err == nil
	if a.interrupted() {
		return false, nil
	}
	if !a.had || string(old) != a.out.Text {
		return false, nil
	}
	for _, f := range a.out.Files {
		if have, err := os.ReadFile(f.Path); err != nil || string(have) != f.Content {
			return false, nil
		}
	}
	return true, nil
}

// backup is where the config before is kept.
func (a *applier) backup() string { return a.Path + ".edge-backup" }

func (a *applier) run(ctx context.Context) (Result, error) {
	before, err := a.before(ctx)
	if err != nil {
		return a.r, err
	}
	for _, f := range a.out.Files {
		if err := write(f.Path, []byte(f.Content), nil); err != nil {
			return a.r, err
		}
	}
	if err := a.check(ctx); err != nil {
		a.sweep(string(a.old))
		return a.r, err
	}
	names := !a.Reload.off() && a.names(ctx)
	if !names {
		a.carry(ctx)
	}
	if err := a.replace(); err != nil {
		return a.r, errors.Join(err, os.Remove(a.pending()))
	}
	a.r.Changed = true
	if names || a.Reload.off() {
		return a.r, a.settle()
	}
	worker, cause := a.reload(ctx, before)
	if cause != nil {
		return a.r, a.undo(ctx, cause)
	}
	a.r.Worker = worker
	return a.r, a.settle()
}

// before looks at who works now: without that, no worker can be told to be new.
func (a *applier) before(ctx context.Context) (w workers, err error) {
	if a.Reload.off() {
		return w, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return a.Reload.workers(ctx, a.out.Socket)
}

// check lets HAProxy look at the config under another name, beside where it will be.
func (a *applier) check(ctx context.Context) error {
	if _, err := os.Stat(a.out.StateFile); err != nil {
		if err := a.states(haproxy.EmptyStates); err != nil {
			return err
		}
	}
	problems, err := look(ctx, a.Checker, filepath.Dir(a.Path), a.out, a.out.Text)
	for _, p := range problems {
		a.r.Notices = append(a.r.Notices, p.String())
	}
	return err
}

// Check lets HAProxy look at a config without putting anything in place. It returns
// its warnings, or [*haproxy.Invalid].
func Check(ctx context.Context, c haproxy.Checker, out render.Output) ([]haproxy.Problem, error) {
	dir, err := os.MkdirTemp("", "edge-sidecar-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	swap := []string{out.StateFile, filepath.Join(dir, "servers.state")}
	files := []render.File{{Path: out.StateFile, Content: haproxy.EmptyStates}}
	for _, f := range append(files, out.Files...) {
		there := filepath.Join(dir, filepath.Base(f.Path))
		if err := write(there, []byte(f.Content), nil); err != nil {
			return nil, err
		}
		swap = append(swap, f.Path, there)
	}
	return look(ctx, c, dir, out, strings.NewReplacer(swap...).Replace(out.Text))
}

// look checks a text, which may be out's with other paths, in a folder.
func look(ctx context.Context, c haproxy.Checker, dir string, out render.Output, text string) ([]haproxy.Problem, error) {
	candidate, err := temporary(filepath.Join(dir, "haproxy.cfg"), []byte(text), nil)
	if err != nil {
		return nil, err
	}
	defer os.Remove(candidate)
	problems, err := c.Check(ctx, candidate)
	if bad, ok := errors.AsType[*haproxy.Invalid](err); ok {
		return nil, &haproxy.Invalid{Problems: named(bad.Problems, out)}
	}
	return named(problems, out), err
}

// named puts what a line is about into what HAProxy said of it.
func named(problems []haproxy.Problem, out render.Output) []haproxy.Problem {
	list := make([]haproxy.Problem, len(problems))
	for i, p := range problems {
		if origin := out.Origin(p.Line); origin != "" {
			p.Text = origin + ": " + p.Text
		}
		list[i] = p
	}
	return list
}

// carry writes down what the servers are now. With a snapshot, that is in the
// config already.
func (a *applier) carry(ctx context.Context) {
	if a.Reload.off() || a.out.Stopped {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	states, err := haproxy.Stats(a.out.Socket).States(ctx)
	if err != nil {
		a.r.Notices = append(a.r.Notices, "the servers' states are not carried along: "+err.Error())
		return
	}
	text, carried := haproxy.StateFile(states, a.out.Servers)
	if err := a.states(text); err != nil {
		a.r.Notices = append(a.r.Notices, "the servers' states are not carried along: "+err.Error())
		return
	}
	a.r.Carried = carried
}

func (a *applier) states(text string) error {
	return write(a.out.StateFile, []byte(text), nil)
}

// replace puts the config in its place, with a backup beside it.
func (a *applier) replace() error {
	info, err := os.Stat(a.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if a.had {
		a.r.Backup = a.backup()
		if string(a.old) != a.out.Text { // else a run was cut off, and the backup is of before it
			if err := write(a.r.Backup, a.old, info); err != nil {
				return err
			}
		}
	}
	if err := write(a.pending(), nil, nil); err != nil {
		return err
	}
	return write(a.Path, []byte(a.out.Text), info)
}

// settle is what is left when the config is in force.
func (a *applier) settle() error {
	// What it says is old from now on, and HAProxy would read it at a cold start.
	err := a.states(haproxy.EmptyStates)
	a.sweep(a.out.Text, string(a.old))
	return errors.Join(err, os.Remove(a.pending()))
}

// undo puts the former config back and loads it. It goes on when ctx is over: that
// may be why we are here.
func (a *applier) undo(ctx context.Context, cause error) error {
	ctx = context.WithoutCancel(ctx)
	failed := &Undone{Cause: cause}
	if !a.had {
		failed.Restore = errors.New("there was none; the new one is still in place")
		return failed
	}
	old := a.old
	if string(old) == a.out.Text { // a run that was cut off has replaced it
		if backup, err := os.ReadFile(a.backup()); err == nil {
			old = backup
		}
	}
	info, err := os.Stat(a.Path)
	if err == nil {
		err = write(a.Path, old, info)
	}
	if err != nil {
		failed.Restore = err
		return failed
	}
	failed.Restore = a.loadAgain(ctx)
	failed.Restored = failed.Restore == nil
	if failed.Restored {
		failed.Restore = os.Remove(a.pending())
		a.sweep(string(old))
	}
	return failed
}

// loadAgain brings back the former config's worker. Where the new one never took
// over, the former is still there, and a reload lets the master forget the failure.
func (a *applier) loadAgain(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	before, err := a.Reload.workers(wait, a.out.Socket)
	if err != nil {
		return err
	}
	_, err = a.reload(ctx, before)
	return err
}

// askAgain is when a reload is asked for once more: a signal that comes while the
// master replaces itself is lost. It is much longer than a reload takes.
const askAgain = 5 * time.Second

func (a *applier) reload(ctx context.Context, before workers) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.Reload.timeout(), fmt.Errorf("no new worker after %s", a.Reload.timeout()))
	defer cancel()
	first, stop := context.WithTimeout(ctx, min(askAgain, a.Reload.timeout()/2))
	defer stop()
	if err := a.Reload.ask(first); err != nil {
		return 0, err
	}
	worker, err := a.Reload.confirm(first, a.out.Socket, before)
	if err == nil || first.Err() == nil || ctx.Err() != nil {
		return worker, err
	}
	if err := a.Reload.ask(ctx); err != nil {
		return 0, err
	}
	return a.Reload.confirm(ctx, a.out.Socket, before)
}
