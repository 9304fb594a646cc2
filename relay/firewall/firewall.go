package firewall

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Defaults of a Config and of Options.
const (
	DefaultDir     = "/run/edge-firewall"
	DefaultPersist = "/etc/nftables.d/edgeward.nft"
	DefaultWindow  = 3 * time.Minute
)

// Config says where things are. Zero values mean the defaults.
type Config struct {
	// Folder for the state and the backup. Default: [DefaultDir], which a reboot
	// empties, as it does the rules.
	Dir string
	// The file with the rules for the next boot. Default: [DefaultPersist].
	Persist string
	// The command that calls [Firewall.Guard]; this package appends "--armed <id>
	// --state-dir <dir>", and "--after <duration>" if it is to wait by itself.
	// Required for Apply.
	Self []string
	// How long the kernel watches connections before the first rule drops any.
	// Default: 2s; negative for not at all.
	Learn time.Duration
	// Default: [Host].
	System *System
}

// Firewall applies rules and takes them back.
type Firewall struct {
	cfg Config
	sys System
	nft string
}

// New returns a Firewall. It changes nothing.
func New(cfg Config) (*Firewall, error) {
	cfg.Dir = cmp.Or(cfg.Dir, DefaultDir)
	cfg.Persist = cmp.Or(cfg.Persist, DefaultPersist)
	cfg.Learn = cmp.Or(cfg.Learn, 2*time.Second)
	if cfg.System == nil {
		cfg.System = new(Host())
	}
	for _, f := range []bool{
		cfg.System.Run == nil, cfg.System.Find == nil, cfg.System.ReadFile == nil, cfg.System.Systemd == nil, cfg.System.Detach == nil,
	} {
		if f {
			return nil, errors.New("firewall: every function of System must be set")
		}
	}
	nft, _ := cfg.System.Find("nft")
	return &Firewall{cfg, *cfg.System, nft}, nil
}

// Check finds what would fight with the rules. It changes nothing.
func (f *Firewall) Check(ctx context.Context) []Finding { return Judge(Gather(ctx, f.sys)) }

// Options of Apply.
type Options struct {
	// How long the rules hold without being confirmed. Default: [DefaultWindow].
	Window time.Duration
	// How the operator is logged in. It must be set and fit the rules, unless
	// Console is.
	Session Session
	// The operator has a console, and cannot be locked out.
	Console bool
}

// The window must leave time to log in, and end.
const (
	shortest = time.Second
	longest  = time.Hour
)

func (o Options) check(r Rules) error {
	switch {
	case o.Window < shortest || o.Window > longest:
		return fmt.Errorf("window %s: want %s to %s", o.Window, shortest, longest)
	case o.Console:
		return nil
	case o.Session.IsZero():
		return errors.New("there is no SSH_CONNECTION to see where you are logged in from: say --console if you sit at the console, or run it as \"sudo --preserve-env=SSH_CONNECTION\"")
	}
	return r.Admits(o.Session)
}

// Refused is an error of findings that must be dealt with first.
type Refused struct{ Findings []Finding }

// Error names the first finding.
func (r *Refused) Error() string {
	more := ""
	if n := len(r.Findings) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return fmt.Sprintf("%s%s: see \"firewall check\"", r.Findings[0].What, more)
}

// Plan does all of Apply that changes nothing: it returns the script, and an error if
// Apply would refuse. What is not said by an error is in the findings.
func (f *Firewall) Plan(ctx context.Context, r Rules, o Options) (script string, findings []Finding, err error) {
	o.Window = cmp.Or(o.Window, DefaultWindow)
	if err := r.Validate(); err != nil {
		return "", nil, err
	}
	script = r.Script()
	if err := o.check(r); err != nil {
		return script, nil, err
	}
	findings = f.Check(ctx)
	if stops := Stops(findings); len(stops) > 0 {
		return script, findings, &Refused{stops}
	}
	if _, _, err := f.sys.Run(ctx, script, f.nft, "--check", "-f", "-"); err != nil {
		return script, findings, fmt.Errorf("checking the rules: %w", err)
	}
	return script, findings, nil
}

// Apply puts the rules in force until the window ends; [Firewall.Confirm] keeps
// them. If it returns an error, the rules are as they were before, or the error
// says that they could not be restored. That also holds when ctx ends in the middle, and
// if this process is killed the rollback does the same at the end of the window.
func (f *Firewall) Apply(ctx context.Context, r Rules, o Options) (State, error) {
	o.Window = cmp.Or(o.Window, DefaultWindow)
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
	if old, err := st.load(); err != nil {
		return State{}, err
	} else if old.Phase == Armed {
		return old, errors.New("rules are in force and not confirmed yet: say \"firewall confirm\" or \"firewall rollback\" first")
	}
	script, _, err := f.Plan(ctx, r, o)
	if err != nil {
		return State{}, err
	}
	state := State{ID: rand.Text(), Phase: Arming, Deadline: time.Now().Add(o.Window), Script: script, Session: o.Session}
	// Work that takes longer than the window must not end after the rollback.
	ctx, cancel := context.WithTimeoutCause(ctx, o.Window, errors.New("the window is over"))
	defer cancel()
	if err := f.prepare(ctx, st, &state, o.Window); err != nil {
		state.Phase, state.Reason = RolledBack, err.Error()
		saved := st.save(state)
		f.disarm(context.WithoutCancel(ctx), state)
		return state, errors.Join(err, saved)
	}
	if err := f.enforce(ctx, state.Previous, r.table()); err != nil {
		return f.undo(ctx, st, state, err)
	}
	return state, nil
}

// lockTime is how long a command waits for another one.
const lockTime = 5 * time.Second

func (f *Firewall) lock(ctx context.Context, st *store) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return st.lock(ctx, lockName)
}

// prepare makes the backup and arms the way back. No rule is changed.
func (f *Firewall) prepare(ctx context.Context, st *store, state *State, window time.Duration) error {
	text, ruleset, err := f.backup(ctx)
	if err != nil {
		return err
	}
	state.Previous, state.Backup = ours(ruleset), "backup-"+state.ID
	if err := st.write(state.Backup, text); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	if err := st.save(*state); err != nil {
		return err
	}
	if state.Guard, err = f.arm(ctx, st, state.ID, window); err != nil {
		return fmt.Errorf("arming the rollback: %w", err)
	}
	state.Phase = Armed
	return st.save(*state)
}

// backup returns all rules, for people, and nft's alone.
func (f *Firewall) backup(ctx context.Context) (text, ruleset string, err error) {
	for _, c := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}} {
		path, ok := f.sys.Find(c[0])
		if !ok {
			continue
		}
		out, _, err := f.sys.Run(ctx, "", path, c[1:]...)
		if err != nil {
			return "", "", fmt.Errorf("making the backup: %w", err)
		}
		if c[0] == "nft" {
			ruleset = out
		}
		text += fmt.Sprintf("#### %s\n%s", c[0], out)
	}
	return text, ruleset, nil
}

// enforce puts our table in force and reads it back.
func (f *Firewall) enforce(ctx context.Context, previous, next string) error {
	if previous == "" && f.cfg.Learn > 0 {
		if err := f.load(ctx, "", learning); err != nil {
			return err
		}
		select {
		case <-time.After(f.cfg.Learn):
		case <-ctx.Done():
		}
		previous = learning
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.load(ctx, previous, next); err != nil {
		return err
	}
	now, err := f.current(ctx)
	if err != nil {
		return err
	}
	if err := sameRules(next, now); err != nil {
		return fmt.Errorf("reading the rules back: %w", err)
	}
	return context.Cause(ctx)
}

func (f *Firewall) load(ctx context.Context, current, next string) error {
	if _, _, err := f.sys.Run(ctx, replace(current, next), f.nft, "-f", "-"); err != nil {
		return fmt.Errorf("loading the rules: %w", err)
	}
	return nil
}

// current returns our table as it is, or nothing.
func (f *Firewall) current(ctx context.Context) (string, error) {
	out, _, err := f.sys.Run(ctx, "", f.nft, "list", "ruleset")
	if err != nil {
		return "", fmt.Errorf("reading the rules: %w", err)
	}
	return ours(out), nil
}
