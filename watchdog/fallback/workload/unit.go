package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload/program"
)

// unit runs items that are a systemd unit, by systemctl(1).
type unit struct{ *Workloads }

// unitRule is what systemd.unit(5) allows in a name, with its type.
var unitRule = regexp.MustCompile(`^[a-zA-Z0-9:_.\\@][a-zA-Z0-9:_.\\@-]{0,240}\.(service|socket|timer|target|path|mount|scope|slice)$`)

// unitName is the item's unit, a service if it doesn't say.
func unitName(item fallback.Item) (string, error) {
	name := ref(item)
	if !unitRule.MatchString(name) {
		name += ".service"
	}
	if !unitRule.MatchString(name) {
		return "", fmt.Errorf("%q can't be a unit's name", ref(item))
	}
	return name, nil
}

// properties are what is asked of systemd; see org.freedesktop.systemd1(5).
var properties = []string{
	"Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "NRestarts", "ExecMainStatus", "TasksCurrent", "TriggeredBy", "WantedBy", "RequiredBy",
}

// show returns the unit's properties. Those of a unit that doesn't exist say so.
func (r unit) show(ctx context.Context, name string) (map[string]string, error) {
	out, err := r.systemd(ctx, "show", "--property="+strings.Join(properties, ","), "--", name)
	if err != nil {
		return nil, err
	}
	p := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok {
			p[key] = value
		}
	}
	if p["LoadState"] == "" || p["ActiveState"] == "" {
		return nil, errors.New("systemctl's answer lacks the unit's state")
	}
	return p, nil
}

// systemd runs systemctl. The error holds what it said.
func (r unit) systemd(ctx context.Context, args ...string) (string, error) {
	argv := append([]string{r.systemctl, "--no-pager", "--no-ask-password", "--quiet"}, args...)
	result, err := program.Run(ctx, program.Command{Argv: argv})
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w", args[0], err)
	}
	if result.Code != 0 {
		return "", fmt.Errorf("systemctl %s: exit code %d: %s", args[0], result.Code, printable(result.Stderr))
	}
	return result.Stdout, nil
}

// judgeUnit says what systemd's properties mean.
func judgeUnit(p map[string]string) control.Seen {
	if p["LoadState"] == "not-found" && p["ActiveState"] == "inactive" {
		return seen(control.RunningStopped, "there is no such unit")
	}
	state := p["ActiveState"] + " (" + p["SubState"] + ")"
	switch p["ActiveState"] {
	case "active":
		return seen(control.RunningWell, "%s", state)
	case "activating", "reloading", "refreshing", "deactivating", "maintenance":
		if p["SubState"] == "auto-restart" {
			return seen(control.RunningIll, "it is in a restart loop: %s restarts, exit code %s", p["NRestarts"], p["ExecMainStatus"])
		}
		return seen(control.RunningIll, "%s", state)
	case "inactive", "failed":
		// What a unit leaves behind (KillMode=process) still writes.
		if n, err := strconv.ParseUint(p["TasksCurrent"], 10, 64); err == nil && n > 0 && n < 1<<63 {
			return seen(control.RunningIll, "%s, but %d of its tasks still run", state, n)
		}
		return seen(control.RunningStopped, "%s, result %s", state, p["Result"])
	}
	return seen(control.RunningUnknown, "its state is %.80q", state)
}

func (r unit) look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	name, err := unitName(item)
	if err != nil {
		return control.Seen{}, err
	}
	p, err := r.show(ctx, name)
	if err != nil {
		return control.Seen{}, err
	}
	return judgeUnit(p), nil
}

func (r unit) start(ctx context.Context, item fallback.Item) error {
	name, err := unitName(item)
	if err != nil {
		return err
	}
	if r.memory.enabled(name) {
		if _, err := r.systemd(ctx, "enable", "--", name); err != nil {
			return err
		}
		if err := r.memory.dropEnabled(name); err != nil {
			return err
		}
	}
	// A job is not waited for here: systemctl can hang for as long as the unit does.
	if _, err := r.systemd(ctx, "start", "--no-block", "--", name); err != nil {
		return err
	}
	life := unitLife{want: r.steady}
	return untilWell(ctx, func() (control.Seen, error) {
		p, err := r.show(ctx, name)
		if err != nil {
			return control.Seen{}, err
		}
		return life.judge(p, time.Now()), nil
	})
}

// unitLife says whether a unit has been active for long enough in one piece.
type unitLife struct {
	want     time.Duration
	restarts string
	since    time.Time
}

func (l *unitLife) judge(p map[string]string, now time.Time) control.Seen {
	saw := judgeUnit(p)
	if saw.Running != control.RunningWell {
		l.since = time.Time{}
		return saw
	}
	if l.since.IsZero() || l.restarts != p["NRestarts"] {
		l.since, l.restarts = now, p["NRestarts"]
	}
	if now.Sub(l.since) < l.want {
		return seen(control.RunningIll, "active, but not for %v yet; %s restarts", l.want, cmp.Or(p["NRestarts"], "no"))
	}
	return saw
}

// stop takes the enablement first, then stops the unit, and kills what is left of it.
func (r unit) stop(ctx context.Context, item fallback.Item) error {
	name, err := unitName(item)
	if err != nil {
		return err
	}
	p, err := r.show(ctx, name)
	if err != nil {
		return err
	}
	if p["LoadState"] == "not-found" && judgeUnit(p).Running == control.RunningStopped {
		return nil
	}
	if err := r.disable(ctx, name, p); err != nil {
		return err
	}
	if err := r.halt(ctx, name, cmp.Or(item.StopWithin, defaultStopWithin)); err != nil {
		return err
	}
	return r.untriggered(ctx, name)
}

// disable keeps systemd from starting the unit at the next boot.
func (r unit) disable(ctx context.Context, name string, p map[string]string) error {
	if p["UnitFileState"] != "enabled" {
		return nil
	}
	if err := r.memory.keepEnabled(name); err != nil {
		return err
	}
	_, err := r.systemd(ctx, "disable", "--", name)
	return err
}

// halt stops the unit and proves it.
func (r unit) halt(ctx context.Context, name string, within time.Duration) error {
	if _, err := r.systemd(ctx, "stop", "--no-block", "--", name); err != nil {
		return err
	}
	killAt := time.Now().Add(within)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		p, err := r.show(ctx, name)
		saw := judgeUnit(p)
		if err == nil && saw.Running == control.RunningStopped {
			return nil
		}
		if time.Now().After(killAt) {
			r.log.Warn("killing a unit that does not stop", "unit", name)
			_, _ = r.systemd(ctx, "kill", "--kill-who=all", "--signal=KILL", "--", name)
			killAt = killAt.Add(within)
		}
		if !sleep(ctx, wait) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), cmp.Or(err, errors.New(saw.Detail)))
		}
	}
}

// untriggered returns an error if a boot, or another unit that is active, may start this
// one again.
func (r unit) untriggered(ctx context.Context, name string) error {
	p, err := r.show(ctx, name)
	if err != nil {
		return err
	}
	for wanter := range strings.FieldsSeq(p["WantedBy"] + " " + p["RequiredBy"]) {
		if strings.HasSuffix(wanter, ".target") {
			return fmt.Errorf("it is stopped, but %s starts it at boot: remove that dependency", wanter)
		}
	}
	for trigger := range strings.FieldsSeq(p["TriggeredBy"]) {
		other, err := r.show(ctx, trigger)
		if err != nil {
			return err
		}
		if judgeUnit(other).Running != control.RunningStopped {
			return fmt.Errorf("it is stopped, but %s is %s and may start it again: make that one the item, or stop and disable it", trigger, other["ActiveState"])
		}
	}
	return nil
}

func (r unit) needs(ctx context.Context, item fallback.Item) []control.Finding {
	name, err := unitName(item)
	if err == nil {
		var p map[string]string
		p, err = r.show(ctx, name)
		if err == nil && p["LoadState"] != "loaded" {
			err = fmt.Errorf("it is %s", p["LoadState"])
		}
	}
	return append([]control.Finding{finding("item", item, "unit "+ref(item), err)}, r.pathNeeds(ctx, item)...)
}
