package workload_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

// systemctl is a systemd of one unit, whose properties are files, as far as it is asked.
const systemctl = `
cd "$(dirname "$0")" || exit 9
while [ "${1#--}" != "$1" ]; do shift; done
verb=$1; shift
echo "$verb $*" >>log
while [ "${1#--}" != "$1" ] && [ "$1" != -- ]; do shift; done
[ "$1" = -- ] || exit 8
case $verb in
show)
	[ ! -e broken ] || { echo "Failed to connect to bus" >&2; exit 1; }
	case $2 in
	*.socket) echo LoadState=loaded; echo ActiveState=$(cat trigger) ;;
	*) for p in LoadState ActiveState SubState UnitFileState Result NRestarts ExecMainStatus TasksCurrent TriggeredBy WantedBy RequiredBy; do
			echo "$p=$(cat $p 2>/dev/null)"; done ;;
	esac ;;
start) cat onstart >ActiveState ;;
stop) cat onstop >ActiveState ;;
kill) echo failed >ActiveState; rm -f TasksCurrent ;;
disable) echo disabled >UnitFileState; rm -f WantedBy ;;
enable) echo enabled >UnitFileState ;;
esac`

type fakeUnit struct {
	t   *testing.T
	dir string
	w   *workload.Workloads
}

func newUnit(t *testing.T) *fakeUnit {
	u := &fakeUnit{t: t, dir: t.TempDir()}
	u.w = open(t, t.TempDir(), workload.Config{Systemctl: script(t, u.dir, "systemctl", systemctl)})
	u.set("LoadState", "loaded", "ActiveState", "inactive", "SubState", "dead", "UnitFileState", "enabled", "onstart", "active", "onstop", "inactive", "WantedBy", "multi-user.target")
	return u
}

func (u *fakeUnit) set(pairs ...string) {
	u.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		must(u.t, os.WriteFile(u.dir+"/"+pairs[i], []byte(pairs[i+1]+"\n"), 0o644))
	}
}

func (u *fakeUnit) get(name string) string {
	u.t.Helper()
	text, err := os.ReadFile(u.dir + "/" + name)
	must(u.t, err)
	return strings.TrimSpace(string(text))
}

func unitItem() fallback.Item {
	return fallback.Item{Name: "it", Kind: fallback.KindUnit, Ref: "web", Ready: patience, StopWithin: patience}
}

// TestUnitLife: a stop takes the enablement, a start gives it back.
func TestUnitLife(t *testing.T) {
	t.Parallel()
	u, it := newUnit(t), unitItem()
	must(t, u.w.Start(t.Context(), it))
	want(t, u.w, it, control.RunningWell)
	must(t, u.w.Stop(t.Context(), it))
	want(t, u.w, it, control.RunningStopped)
	if got := u.get("UnitFileState"); got != "disabled" {
		t.Errorf("after the stop it is %s", got)
	}
	must(t, u.w.Stop(t.Context(), it))
	must(t, u.w.Start(t.Context(), it))
	if got := u.get("UnitFileState"); got != "enabled" {
		t.Errorf("after the start it is %s", got)
	}
	for line := range strings.Lines(u.get("log")) {
		if !strings.HasSuffix(strings.TrimSpace(line), "-- web.service") {
			t.Errorf("systemctl was asked: %s", line)
		}
	}
}

func TestUnitStates(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pairs []string
		want  control.Running
	}{
		{"active", []string{"ActiveState", "active"}, control.RunningWell},
		{"starting", []string{"ActiveState", "activating", "SubState", "start"}, control.RunningIll},
		{"in a loop", []string{"ActiveState", "activating", "SubState", "auto-restart", "NRestarts", "12"}, control.RunningIll},
		{"stopping", []string{"ActiveState", "deactivating"}, control.RunningIll},
		{"inactive", []string{"ActiveState", "inactive", "TasksCurrent", "[not set]"}, control.RunningStopped},
		{"inactive, tasks uncounted", []string{"ActiveState", "inactive", "TasksCurrent", "18446744073709551615"}, control.RunningStopped},
		{"failed", []string{"ActiveState", "failed", "TasksCurrent", "0"}, control.RunningStopped},
		{"failed, and left something", []string{"ActiveState", "failed", "TasksCurrent", "2"}, control.RunningIll},
		{"not there", []string{"LoadState", "not-found", "ActiveState", "inactive"}, control.RunningStopped},
		{"its file is gone, and it runs", []string{"LoadState", "not-found", "ActiveState", "active"}, control.RunningWell},
		{"a state from the future", []string{"ActiveState", "hibernating"}, control.RunningUnknown},
		{"no state", []string{"ActiveState", ""}, control.RunningUnknown},
		{"no systemd", []string{"broken", "yes"}, control.RunningUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t)
			u.set(tt.pairs...)
			if seen, err := u.w.Look(t.Context(), unitItem()); seen.Running != tt.want {
				t.Errorf("%v, %v, want %s", seen, err, tt.want)
			}
		})
	}
}

func TestUnitStops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pairs  []string
		within time.Duration
		fails  string
	}{
		{"not there", []string{"LoadState", "not-found"}, patience, ""},
		{"killed", []string{"ActiveState", "active", "onstop", "deactivating"}, 200 * time.Millisecond, ""},
		{"what is left of it is killed", []string{"ActiveState", "failed", "onstop", "failed", "TasksCurrent", "2"}, 200 * time.Millisecond, ""},
		{"no systemd", []string{"broken", "yes"}, patience, "Failed to connect to bus"},
		{"a socket would start it", []string{"TriggeredBy", "web.socket", "trigger", "active"}, patience, "web.socket is active and may start it again"},
		{"a socket that is stopped", []string{"TriggeredBy", "web.socket", "trigger", "inactive"}, patience, ""},
		{"a boot would start it", []string{"UnitFileState", "static"}, patience, "multi-user.target starts it at boot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u, it := newUnit(t), unitItem()
			u.set(tt.pairs...)
			it.StopWithin = tt.within
			err := u.w.Stop(t.Context(), it)
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v, want %q", err, tt.fails)
			}
		})
	}
}

// TestUnitThatFails says how it was last seen, and needs say that it isn't there.
func TestUnitThatFails(t *testing.T) {
	t.Parallel()
	u, it := newUnit(t), unitItem()
	u.set("onstart", "activating", "SubState", "auto-restart", "NRestarts", "12", "ExecMainStatus", "203")
	it.Ready = time.Second
	if err := u.w.Start(t.Context(), it); err == nil || !strings.Contains(err.Error(), "not well within 1s") {
		t.Error(err)
	}
	u.set("ActiveState", "activating")
	if seen := want(t, u.w, it, control.RunningIll); !strings.Contains(seen.Detail, "restart loop: 12 restarts, exit code 203") {
		t.Error(seen.Detail)
	}
	it.Ready = patience
	u.set("LoadState", "not-found")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := u.w.Start(ctx, it); err == nil || !strings.Contains(err.Error(), "it is not-found") {
		t.Error(err)
	}
}
