package workload_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

const fakeID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// engine is a Docker that answers what it is told to, well or not.
type engine struct {
	ping, list, inspect, act http.HandlerFunc
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hangs answers nothing until the asker gives up.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drips begins an answer and never ends it.
func drips(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(`[{"Id":`))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// cut ends in the middle.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10000")
	_, _ = w.Write([]byte(`[{"Id":`))
	panic(http.ErrAbortHandler)
}

// floods never stops talking.
func floods(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(`[{"Id":"`))
	for block := []byte(strings.Repeat("x", 64<<10)); r.Context().Err() == nil; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func state(json string) http.HandlerFunc {
	return says(200, fmt.Sprintf(`{"Id":"%s","Name":"/web","State":%s,"HostConfig":{"RestartPolicy":{"Name":"no"}},"Config":{}}`, fakeID, json))
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pick := func(h, fallback http.HandlerFunc) http.HandlerFunc {
		if h != nil {
			return h
		}
		return fallback
	}
	switch path := r.URL.Path; {
	case path == "/_ping":
		w.Header().Set("Api-Version", "1.41")
		pick(e.ping, says(200, "OK"))(w, r)
	case strings.HasSuffix(path, "/containers/json"):
		pick(e.list, says(200, fmt.Sprintf(`[{"Id":"%s","Names":["/web"]}]`, fakeID)))(w, r)
	case strings.HasSuffix(path, "/"+fakeID+"/json"):
		pick(e.inspect, state(`{"Status":"running","Running":true,"Pid":9}`))(w, r)
	default:
		pick(e.act, says(204, ""))(w, r)
	}
}

func listen(t *testing.T, e *engine) *workload.Workloads {
	t.Helper()
	socket := t.TempDir() + "/s"
	ln, err := net.Listen("unix", socket)
	must(t, err)
	server := &http.Server{Handler: e}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{Host: "unix://" + socket}})
}

// TestHostileDocker: whatever is not a clear answer proves nothing. A stop succeeds in
// none of these, and a look says unknown, or that it runs.
func TestHostileDocker(t *testing.T) {
	stopped := `{"Status":"exited","Running":false}`
	for _, tt := range []struct {
		name string
		e    engine
		look control.Running
		// silent: it would be waited for until the deadline of a look.
		silent bool
	}{
		{"the ping hangs", engine{ping: hangs}, control.RunningUnknown, true},
		{"the ping fails", engine{ping: says(500, `{"message":"no"}`)}, control.RunningUnknown, false},
		{"the list hangs", engine{list: hangs}, control.RunningUnknown, true},
		{"the list drips", engine{list: drips}, control.RunningUnknown, true},
		{"the list is cut off", engine{list: cut}, control.RunningUnknown, false},
		{"the list floods", engine{list: floods}, control.RunningUnknown, false},
		{"the list is null", engine{list: says(200, `null`)}, control.RunningUnknown, false},
		{"the list is empty text", engine{list: says(200, ``)}, control.RunningUnknown, false},
		{"the list is an object", engine{list: says(200, `{}`)}, control.RunningUnknown, false},
		{"the list is a page", engine{list: says(200, `<html>`)}, control.RunningUnknown, false},
		{"the list fails", engine{list: says(500, `{"message":"no"}`)}, control.RunningUnknown, false},
		{"there is no such address", engine{list: says(404, `{"message":"page not found"}`)}, control.RunningUnknown, false},
		{"an id that is a path", engine{list: says(200, `[{"Id":"../../images","Names":["/web"]}]`)}, control.RunningUnknown, false},
		{"it is listed, and not there", engine{inspect: says(404, `{"message":"no such container"}`)}, control.RunningUnknown, false},
		{"the look fails", engine{inspect: says(500, `{"message":"no"}`)}, control.RunningUnknown, false},
		{"the look hangs", engine{inspect: hangs}, control.RunningUnknown, true},
		{"the look is empty", engine{inspect: says(200, `{}`)}, control.RunningUnknown, false},
		{"the look is of another one", engine{inspect: says(200, `{"Id":"ff","State":`+stopped+`,"HostConfig":{},"Config":{}}`)}, control.RunningUnknown, false},
		{"stopped and running at once", engine{inspect: state(`{"Status":"exited","Running":true}`)}, control.RunningUnknown, false},
		{"stopped with a process", engine{inspect: state(`{"Status":"exited","Pid":7}`)}, control.RunningUnknown, false},
		{"a state from the future", engine{inspect: state(`{"Status":"hibernating"}`)}, control.RunningUnknown, false},
		{"being removed", engine{inspect: state(`{"Status":"removing"}`)}, control.RunningUnknown, false},
		{"it says that it did", engine{}, control.RunningWell, false}, // and it did not
		{"the stop fails", engine{act: says(500, `{"message":"tried to kill it, and did not succeed"}`)}, control.RunningWell, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := listen(t, &tt.e)
			it := fallback.Item{Name: "web", Kind: fallback.KindContainer, StopWithin: 100 * time.Millisecond, Ready: time.Second}
			// Long enough for it to go wrong; in all of these it would otherwise go on.
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			if err := w.Stop(ctx, it); err == nil {
				t.Error("proven stopped, by nothing")
			}
			if ctx = t.Context(); tt.silent {
				ctx, cancel = context.WithTimeout(ctx, 400*time.Millisecond)
				defer cancel()
			}
			seen, err := w.Look(ctx, it)
			if seen.Running != tt.look || (err != nil) && seen.Running != control.RunningUnknown {
				t.Errorf("seen %v, %v, want %s", seen, err, tt.look)
			}
			if len(seen.Detail) > 2000 {
				t.Errorf("a detail of %d bytes", len(seen.Detail))
			}
		})
	}
}

// TestProofOfAbsence: an empty list is an answer.
func TestProofOfAbsence(t *testing.T) {
	w := listen(t, &engine{list: says(200, `[]`)})
	it := fallback.Item{Name: "web", Kind: fallback.KindContainer}
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
}

// TestPolicyThatStays: stopped, but Docker would start it again at the next boot.
func TestPolicyThatStays(t *testing.T) {
	stays := says(200, fmt.Sprintf(`{"Id":"%s","Name":"/web","State":{"Status":"exited"},"HostConfig":{"RestartPolicy":{"Name":"always"}},"Config":{}}`, fakeID))
	w := listen(t, &engine{inspect: stays, act: says(200, `{}`)})
	err := w.Stop(t.Context(), fallback.Item{Name: "web", Kind: fallback.KindContainer})
	if err == nil || !strings.Contains(err.Error(), "its restart policy is always") {
		t.Error(err)
	}
}

// TestSwarm: what swarm runs is swarm's.
func TestSwarm(t *testing.T) {
	swarm := says(200, fmt.Sprintf(`{"Id":"%s","Name":"/web","State":{"Status":"exited"},"HostConfig":{},"Config":{"Labels":{"com.docker.swarm.service.name":"web"}}}`, fakeID))
	w := listen(t, &engine{inspect: swarm})
	it := fallback.Item{Name: "web", Kind: fallback.KindContainer}
	for _, do := range []func(context.Context, fallback.Item) error{w.Start, w.Stop} {
		if err := do(t.Context(), it); err == nil || !strings.Contains(err.Error(), "swarm service web") {
			t.Error(err)
		}
	}
}

// TestIDsAreNoPaths: what docker calls an id does not lead us anywhere else.
func TestIDsAreNoPaths(t *testing.T) {
	led := make(chan string, 10)
	w := listen(t, &engine{
		list: says(200, `[{"Id":"../images/x","Names":["/web"]}]`),
		act:  func(_ http.ResponseWriter, r *http.Request) { led <- r.URL.Path },
	})
	if seen, err := w.Look(t.Context(), fallback.Item{Name: "web", Kind: fallback.KindContainer}); err == nil {
		t.Error(seen)
	}
	select {
	case path := <-led:
		t.Errorf("it led us to %s", path)
	default:
	}
}

// TestFlood: an answer without an end ends at a bound, not at the deadline.
func TestFlood(t *testing.T) {
	w := listen(t, &engine{list: floods})
	_, err := w.Look(t.Context(), fallback.Item{Name: "web", Kind: fallback.KindContainer})
	if err == nil || !strings.Contains(err.Error(), "the answer is longer than") {
		t.Error(err)
	}
}

// TestNeighbours: containers that were not asked for are nobody's, whatever is listed.
func TestNeighbours(t *testing.T) {
	other := strings.Replace(fakeID, "0", "f", 1)
	w := listen(t, &engine{list: says(200, fmt.Sprintf(`[{"Id":"%s","Names":["/web2","/x/web"]},{"Id":"%s","Names":["/web"]}]`, other, fakeID))})
	want(t, w, fallback.Item{Name: "web", Kind: fallback.KindContainer}, control.RunningWell)
}

// TestPolicyOfALoop: Docker does not take a restart policy while the container is
// restarting. It is taken after the stop.
func TestPolicyOfALoop(t *testing.T) {
	var mu sync.Mutex
	status, policy := "restarting", "always"
	e := &engine{
		inspect: func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			says(200, fmt.Sprintf(`{"Id":"%s","State":{"Status":"%s"},"HostConfig":{"RestartPolicy":{"Name":"%s"}},"Config":{}}`, fakeID, status, policy))(w, r)
		},
		act: func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(r.URL.Path, "/stop"):
				status = "exited"
				w.WriteHeader(204)
			case strings.HasSuffix(r.URL.Path, "/update") && status == "restarting":
				says(409, `{"message":"Container is restarting, wait until the container is running"}`)(w, r)
			default:
				policy = "no"
				says(200, `{}`)(w, r)
			}
		},
	}
	must(t, listen(t, e).Stop(t.Context(), fallback.Item{Name: "web", Kind: fallback.KindContainer}))
	if status != "exited" || policy != "no" {
		t.Errorf("%s, with the restart policy %s", status, policy)
	}
}

// TestStopWaitsForStart: a start that Docker is working at lands before the stop, and
// not after its proof.
func TestStopWaitsForStart(t *testing.T) {
	var mu sync.Mutex
	status := "created"
	set := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		status = s
	}
	began, land := make(chan struct{}), make(chan struct{})
	e := &engine{
		inspect: func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			state(fmt.Sprintf(`{"Status":"%s","Running":%v}`, status, status == "running"))(w, r)
		},
		act: func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/start"):
				close(began)
				<-land
				set("running")
			case strings.HasSuffix(r.URL.Path, "/stop"):
				set("exited")
			}
			w.WriteHeader(204)
		},
	}
	w := listen(t, e)
	it := fallback.Item{Name: "web", Kind: fallback.KindContainer, Ready: time.Hour}
	started, stopped := make(chan error, 1), make(chan error, 1)
	go func() { started <- w.Start(t.Context(), it) }()
	<-began
	go func() { stopped <- w.Stop(t.Context(), it) }()
	select {
	case err := <-stopped:
		t.Errorf("the stop did not wait: %v", err)
	case <-time.After(300 * time.Millisecond): // it has had the time to go wrong
	}
	close(land)
	must(t, <-stopped)
	if err := <-started; err == nil {
		t.Error("the start says that it is well")
	}
	if status != "exited" {
		t.Errorf("in the end it is %s", status)
	}
}
