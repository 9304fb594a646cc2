package workload

import (
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// maxDetail bounds what programs say of themselves and we pass on to people.
const maxDetail = 300

// judge says what a container's state means. What contradicts itself is unknown.
func judge(c container.InspectResponse) control.Seen {
	s := c.State
	if s == nil {
		return seen(control.RunningUnknown, "docker says nothing of its state")
	}
	alive := s.Running || s.Pid != 0
	switch s.Status {
	case container.StateCreated, container.StateExited, container.StateDead:
		if alive {
			return seen(control.RunningUnknown, "docker says %s and running at once", s.Status)
		}
		return seen(control.RunningStopped, "%s", stoppedDetail(s))
	case container.StateRestarting:
		return seen(control.RunningIll, "it is in a restart loop: %d restarts, %s", c.RestartCount, exit(s))
	case container.StatePaused:
		return seen(control.RunningIll, "it is paused")
	case container.StateRunning:
		if !s.Running {
			return seen(control.RunningUnknown, "docker says running and not running at once")
		}
		return health(s.Health)
	}
	return seen(control.RunningUnknown, "its state is %.40q", s.Status)
}

func seen(r control.Running, format string, args ...any) control.Seen {
	return control.Seen{Running: r, Detail: fmt.Sprintf(format, args...)}
}

func health(h *container.Health) control.Seen {
	if !checked(h) {
		return seen(control.RunningWell, "running, no health check")
	}
	switch h.Status {
	case container.Healthy:
		return seen(control.RunningWell, "healthy")
	case container.Starting:
		return seen(control.RunningIll, "its health check has not passed yet%s", lastCheck(h))
	case container.Unhealthy:
		return seen(control.RunningIll, "unhealthy, %d failures%s", h.FailingStreak, lastCheck(h))
	}
	return seen(control.RunningUnknown, "its health is %.40q", h.Status)
}

func checked(h *container.Health) bool {
	return h != nil && h.Status != container.NoHealthcheck && h.Status != ""
}

func lastCheck(h *container.Health) string {
	if len(h.Log) == 0 || h.Log[len(h.Log)-1] == nil {
		return ""
	}
	last := h.Log[len(h.Log)-1]
	if text := printable(last.Output); text != "" {
		return fmt.Sprintf("; the last one: exit code %d, %s", last.ExitCode, text)
	}
	return fmt.Sprintf("; the last one: exit code %d", last.ExitCode)
}

func stoppedDetail(s *container.State) string {
	if s.Status == container.StateCreated {
		return "created, never started"
	}
	return exit(s)
}

// exit says how it ended.
func exit(s *container.State) string {
	text := fmt.Sprintf("exit code %d", s.ExitCode)
	if s.OOMKilled {
		text += ", killed for its use of memory"
	}
	if s.Error != "" {
		text += ": " + printable(s.Error)
	}
	return text
}

// printable makes one short line of what a program said.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + " ..."
	}
	return text
}

// run is one life of a container: another start is another one.
type run struct {
	started  string
	restarts int
}

// steadiness says of a container without a health check whether it has run long enough
// in one piece. It goes by our clock, from when that life was first seen.
type steadiness struct {
	want  time.Duration
	life  run
	since time.Time
}

// judge takes a look at now.
func (y *steadiness) judge(c container.InspectResponse, now time.Time) control.Seen {
	s := judge(c)
	if s.Running != control.RunningWell || checked(c.State.Health) {
		y.life = run{}
		return s
	}
	life := run{c.State.StartedAt, c.RestartCount}
	if life != y.life {
		y.life, y.since = life, now
	}
	if now.Sub(y.since) < y.want {
		return seen(control.RunningIll, "running, but not for %v yet; %d restarts", y.want, c.RestartCount)
	}
	return s
}

// fresh says that a container in good looks has been restarted so lately that it may
// well be in a loop.
func fresh(c container.InspectResponse, now time.Time, steady time.Duration) bool {
	if c.RestartCount == 0 || c.State == nil || checked(c.State.Health) {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	age := now.Sub(at)
	// Another machine's clock may be ahead: then this says nothing.
	return err == nil && age >= 0 && age < 3*steady
}
