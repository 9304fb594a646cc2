package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

func running(started string, restarts int) container.InspectResponse {
	return container.InspectResponse{
		RestartCount: restarts,
		State:        &container.State{Status: container.StateRunning, Running: true, Pid: 1, StartedAt: started},
	}
}

// TestSteadiness: a container that is restarted in between begins anew.
func TestSteadiness(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	restarting := container.InspectResponse{State: &container.State{Status: container.StateRestarting, Restarting: true}}
	y := steadiness{want: 3 * time.Second}
	for _, tt := range []struct {
		after time.Duration
		c     container.InspectResponse
		want  control.Running
	}{
		{0, running("a", 0), control.RunningIll},
		{2 * time.Second, running("a", 0), control.RunningIll},
		{3 * time.Second, running("b", 1), control.RunningIll}, // another life
		{5 * time.Second, restarting, control.RunningIll},
		{6 * time.Second, running("b", 1), control.RunningIll}, // seen restarting in between
		{9 * time.Second, running("b", 1), control.RunningWell},
	} {
		if got := y.judge(tt.c, begin.Add(tt.after)); got.Running != tt.want {
			t.Errorf("after %v: %v, want %s", tt.after, got, tt.want)
		}
	}
}

func TestFresh(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339Nano) }
	for _, tt := range []struct {
		name string
		c    container.InspectResponse
		want bool
	}{
		{"never restarted", running(at(time.Second), 0), false},
		{"restarted just now", running(at(time.Second), 4), true},
		{"restarted long ago", running(at(time.Hour), 4), false},
		{"a clock that is ahead", running(at(-time.Hour), 4), false},
		{"no time", running("", 4), false},
	} {
		if got := fresh(tt.c, now, 3*time.Second); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{" a\n\tb \r\n", "a b"},
		{"\x1b[31mred\x07\x9b\xff", "[31mred"},
		{strings.Repeat("ü", 200), strings.Repeat("ü", 150) + " ..."},
	} {
		if got := printable(tt.in); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestOrderIsTotal: any labels give each member once, or a circle.
func FuzzOrder(f *testing.F) {
	f.Add("b:service_started:false", "c", "")
	f.Add("b", "a", "x:y:z,,::")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var all []member
		for name, after := range map[string]string{"a": a, "b": b, "c": c} {
			all = append(all, newMember(container.InspectResponse{
				ID: name, State: &container.State{}, HostConfig: &container.HostConfig{},
				Config: &container.Config{Labels: map[string]string{labelService: name, labelDependsOn: after}},
			}))
		}
		sorted, err := order(all)
		if err != nil {
			return
		}
		at := map[string]int{}
		for i, m := range sorted {
			at[m.service] = i + 1
		}
		for _, m := range sorted {
			for service := range m.after {
				if at[service] >= at[m.service] {
					t.Errorf("%s comes before %s, which it needs", m.service, service)
				}
			}
		}
		if len(at) != 3 {
			t.Errorf("%d of 3 members", len(at))
		}
	})
}
