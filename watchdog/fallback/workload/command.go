package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload/program"
)

// Exit codes of a look command, as those of an init script's status action (LSB 5.0,
// 22.2).
const (
	codeWell    = 0
	codeStopped = 3
)

// command runs items that are commands.
type command struct{ *Workloads }

func (r command) look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	if len(item.Look) == 0 {
		return control.Seen{}, errors.New("it has no look command: set look")
	}
	result, err := program.Run(ctx, program.Command{Argv: item.Look})
	if err != nil {
		return control.Seen{}, fmt.Errorf("its look command: %w", err)
	}
	said := printable(cmp.Or(result.Stdout, result.Stderr))
	switch result.Code {
	case codeWell:
		return control.Seen{Running: control.RunningWell, Detail: cmp.Or(said, "its look command says so")}, nil
	case codeStopped:
		return control.Seen{Running: control.RunningStopped, Detail: cmp.Or(said, "its look command says so")}, nil
	}
	return seen(control.RunningUnknown, "exit code %d of its look command is neither 0 (well) nor 3 (stopped): %s", result.Code, said), nil
}

// start runs the start command only if the item is known to be stopped.
func (r command) start(ctx context.Context, item fallback.Item) error {
	saw, err := r.once(ctx, item)
	if err != nil {
		return err
	}
	if saw.Running == control.RunningStopped {
		if err := r.run(ctx, "start", program.Command{Argv: item.Start, Keep: true}); err != nil {
			return err
		}
	}
	return untilWell(ctx, func() (control.Seen, error) { return r.once(ctx, item) })
}

func (r command) stop(ctx context.Context, item fallback.Item) error {
	saw, err := r.once(ctx, item)
	if err == nil && saw.Running == control.RunningStopped {
		return nil
	}
	within := cmp.Or(item.StopWithin, defaultStopWithin)
	limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took longer than %v (its stop_within)", within))
	defer cancel()
	failed := r.run(limited, "stop", program.Command{Argv: item.Stop})
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		saw, err := r.once(ctx, item)
		if err == nil && saw.Running == control.RunningStopped {
			return nil
		}
		if !sleep(ctx, wait) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), errors.Join(failed, cmp.Or(err, errors.New(saw.Detail))))
		}
	}
}

// once looks, within the time of one look.
func (r command) once(ctx context.Context, item fallback.Item) (control.Seen, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("it took longer than %v", lookTime))
	defer cancel()
	return r.look(ctx, item)
}

func (r command) run(ctx context.Context, what string, c program.Command) error {
	if len(c.Argv) == 0 {
		return fmt.Errorf("it has no %s command: set %s", what, what)
	}
	result, err := program.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("its %s command: %w", what, err)
	}
	if result.Code != 0 {
		return fmt.Errorf("its %s command: exit code %d: %s", what, result.Code, printable(cmp.Or(result.Stderr, result.Stdout)))
	}
	return nil
}

func (r command) needs(ctx context.Context, item fallback.Item) []control.Finding {
	var list []control.Finding
	for _, argv := range [][]string{item.Start, item.Stop, item.Look} {
		what, err := "a command", errors.New("it is missing: set start, stop and look")
		if len(argv) > 0 {
			what = "command " + argv[0]
			_, err = exec.LookPath(argv[0])
		}
		list = append(list, finding("item", item, what, err))
	}
	return append(list, r.pathNeeds(ctx, item)...)
}
