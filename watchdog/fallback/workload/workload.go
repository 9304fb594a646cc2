package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Defaults, and how long an answer may take beyond what an item says.
const (
	defaultReady      = 2 * time.Minute
	defaultStopWithin = 20 * time.Second
	defaultSteady     = 3 * time.Second
	lookTime          = 10 * time.Second
	// stopGrace is for the kill and the proof, after StopWithin.
	stopGrace = 20 * time.Second
)

// Config of Workloads.
type Config struct {
	// Docker is where containers and compose projects run. Nil: items of these kinds
	// are refused.
	Docker *Docker
	// Journal remembers what Stop has taken from containers and units. Required.
	Journal *journal.Journal
	// Systemctl is the program. Default: systemctl.
	Systemctl string
	// Steady is how long what has no health check must run before it is well.
	// Default: 3s.
	Steady time.Duration
	Log    *slog.Logger
}

// Workloads implements [control.Workloads] on this machine. Its methods may be called
// from several goroutines: a Stop ends all Starts of the same item, and none begins
// while it is going on.
type Workloads struct {
	docker    *Docker
	memory    *memory
	systemctl string
	steady    time.Duration
	log       *slog.Logger
	gates     gates
	paths     Paths
}

// runner does the work for one kind of item. Its contexts have a deadline.
type runner interface {
	start(ctx context.Context, item fallback.Item) error
	stop(ctx context.Context, item fallback.Item) error
	look(ctx context.Context, item fallback.Item) (control.Seen, error)
	needs(ctx context.Context, item fallback.Item) []control.Finding
}

// New returns Workloads. It asks nobody anything yet. The error is about the journal.
func New(c Config) (*Workloads, error) {
	if c.Journal == nil {
		return nil, errors.New("workloads need a journal to remember restart policies in")
	}
	log := cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	memory, err := newMemory(c.Journal, log)
	if err != nil {
		return nil, err
	}
	return &Workloads{
		docker: c.Docker, memory: memory, log: log,
		systemctl: cmp.Or(c.Systemctl, "systemctl"), steady: cmp.Or(c.Steady, defaultSteady),
	}, nil
}

// Start starts the item and waits until it is well, for its Ready at most. An item that
// is well already is left alone. The error says what is missing, or how it was last seen.
func (w *Workloads) Start(ctx context.Context, item fallback.Item) error {
	ctx, leave, err := w.gates.start(ctx, item.Name)
	if err != nil {
		return fmt.Errorf("starting %s: %w", item.Name, err)
	}
	defer leave()
	ready := cmp.Or(item.Ready, defaultReady)
	ctx, cancel := context.WithTimeoutCause(ctx, ready, fmt.Errorf("it was not well within %v (its ready)", ready))
	defer cancel()
	err = w.run(item, func(r runner) error {
		if err := firstError(r.needs(ctx, item)); err != nil {
			return err
		}
		return r.start(ctx, item)
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", item.Name, err)
	}
	return nil
}

// Stop stops the item, with a signal first and by force after its StopWithin. It returns
// nil only when it is proven stopped and kept from starting by itself.
func (w *Workloads) Stop(ctx context.Context, item fallback.Item) error {
	within := cmp.Or(item.StopWithin, defaultStopWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within+stopGrace, errors.New("could not confirm that it is stopped in time"))
	defer cancel()
	leave, err := w.gates.stop(ctx, item.Name)
	if err == nil {
		defer leave()
		err = w.run(item, func(r runner) error { return r.stop(ctx, item) })
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", item.Name, err)
	}
	return nil
}

// Look looks at the item once. What it returns with an error is always unknown.
func (w *Workloads) Look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("no answer within %v", lookTime))
	defer cancel()
	var seen control.Seen
	err := w.run(item, func(r runner) (err error) {
		seen, err = r.look(ctx, item)
		return err
	})
	if err != nil {
		err = fmt.Errorf("looking at %s: %w", item.Name, err)
		return control.Seen{Running: control.RunningUnknown, Detail: err.Error()}, err
	}
	return seen, nil
}

// Needs says what the item needs of this machine and whether it is there: what it is
// itself, its image, networks, volumes and paths. It changes nothing.
func (w *Workloads) Needs(ctx context.Context, item fallback.Item) []control.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("no answer within %v", lookTime))
	defer cancel()
	var list []control.Finding
	err := w.run(item, func(r runner) error {
		list = r.needs(ctx, item)
		return nil
	})
	if err != nil {
		list = []control.Finding{{Check: "item", Item: item.Name, Detail: err.Error()}}
	}
	return list
}

// DockerUp returns nil if Docker answers, or if there is none in the config.
func (w *Workloads) DockerUp(ctx context.Context) error {
	if w.docker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("no answer within %v", lookTime))
	defer cancel()
	s, err := w.docker.session(ctx)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// run opens what the item's kind needs and calls f.
func (w *Workloads) run(item fallback.Item, f func(runner) error) error {
	switch item.Kind {
	case fallback.KindContainer, fallback.KindCompose:
		if w.docker == nil {
			return errors.New("it is a matter of Docker's, and none is configured: set docker")
		}
		if item.Kind == fallback.KindCompose {
			return f(project{w})
		}
		return f(single{w})
	case fallback.KindUnit:
		return f(unit{w})
	case fallback.KindCommand:
		return f(command{w})
	}
	return fmt.Errorf("kind %q is none of container, compose, unit and command", item.Kind)
}

// ref is the item's name where it runs.
func ref(item fallback.Item) string { return cmp.Or(item.Ref, item.Name) }

// firstError is the first finding that is not well.
func firstError(list []control.Finding) error {
	for _, f := range list {
		if !f.OK && f.Check != "image" { // a container that exists has what it needs of it
			return errors.New(f.Detail)
		}
	}
	return nil
}

// final is what waiting does not change.
type final struct{ error }

// untilWell asks look until the item is well, or never will be. The error is how it was
// last seen.
func untilWell(ctx context.Context, look func() (control.Seen, error)) error {
	last := "nothing was seen of it"
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		seen, err := look()
		if err == nil && seen.Running == control.RunningWell {
			return nil
		}
		if _, over := errors.AsType[final](err); over {
			return err
		}
		switch {
		case err == nil:
			last = seen.Detail
		case ctx.Err() == nil: // else it is the end of our patience and says nothing of the item
			last = err.Error()
		}
		if !sleep(ctx, wait) {
			return fmt.Errorf("%w: %s", context.Cause(ctx), last)
		}
	}
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
