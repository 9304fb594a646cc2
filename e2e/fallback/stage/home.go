package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Home is a home: the process that looks after it, and its services.
type Home struct {
	*Process
	ID    string
	world *World
	host  byte
}

// Status is how this home sees another one, or itself.
func (h *Home) Status(ctx context.Context, of string) (st control.HomeStatus, err error) {
	return st, h.Call(ctx, http.MethodGet, "/fallback/homes/"+of, nil, &st)
}

// Say says a word of a person here, as "go" or "handback".
func (h *Home) Say(ctx context.Context, of, word string) error {
	return h.Call(ctx, http.MethodPost, "/fallback/homes/"+of+"/"+word+"?why=a+test", nil, nil)
}

// History are the last records of a home, newest first.
func (h *Home) History(ctx context.Context, of string) ([]fallback.Record, error) {
	var a struct{ Records []fallback.Record }
	err := h.Call(ctx, http.MethodGet, "/fallback/history?limit=1000&home="+of, nil, &a)
	return a.Records, err
}

// Follow calls f with each record until ctx ends, also of processes that come later.
func (h *Home) Follow(ctx context.Context, f func(fallback.Record)) {
	for ctx.Err() == nil {
		_ = h.follow(ctx, "/fallback/watch", func(data []byte) {
			var r fallback.Record
			if json.Unmarshal(data, &r) == nil {
				f(r)
			}
		})
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// PowerOff ends everything at the home at once.
func (h *Home) PowerOff() error {
	h.Process.Kill()
	for range 1000 {
		list, err := h.pids()
		if err != nil || len(list) == 0 {
			return err
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond) // until they are gone
	}
	return fmt.Errorf("something at %s cannot be killed", h.ID)
}

// pids are all processes of the home, also those that got nothing of its environment.
func (h *Home) pids() (list []int, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && h.owns(dir) {
			list = append(list, pid)
		}
	}
	return list, nil
}

// owns reports whether a process is the home's: by its environment, by where it is, or
// by what it was told to work on.
func (h *Home) owns(proc string) bool {
	cwd, _ := os.Readlink(proc + "/cwd")
	environ, _ := os.ReadFile(proc + "/environ")
	cmdline, _ := os.ReadFile(proc + "/cmdline")
	return strings.HasPrefix(cwd+"/", h.dir+"/") || bytes.Contains(cmdline, []byte(h.dir+"/")) ||
		bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+envHome+"="+h.dir+"\x00"))
}

// Named are the programs of a name that run here.
func (h *Home) Named(name string) (list []int) {
	all, _ := h.pids()
	for _, pid := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(text)) == name {
			list = append(list, pid)
		}
	}
	return list
}

// KillNamed kills all of them, and returns how many those were.
func (h *Home) KillNamed(name string) (n int) {
	for _, pid := range h.Named(name) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// KillItem ends a service here, as a fault does.
func (h *Home) KillItem(name string) error {
	text, err := os.ReadFile(h.item(name).lock())
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// item is a service here.
func (h *Home) item(name string) item { return item{name: name, home: h.ID, dir: h.world.dir} }

// Has reports whether a service runs here.
func (h *Home) Has(name string) bool { return h.item(name).runs() }

// Last is the number of the last line in a service's data here.
func (h *Home) Last(name string) int64 {
	n, err := lastLine(h.item(name).data())
	if err != nil {
		return -1
	}
	return n
}

// Data is the directory of a service's data here.
func (h *Home) Data(name string) string { return filepath.Dir(h.item(name).data()) }

// Set has a service misbehave here, or stop doing so: "broken", it cannot be started;
// "hung", it cannot be stopped if it is started from now on.
func (h *Home) Set(knob, name string, on bool) error {
	file := filepath.Join(h.dir, knob, name)
	if !on {
		return os.Remove(file)
	}
	return os.WriteFile(file, nil, 0o600)
}

// Public is the address of the home that stands in records.
func (h *Home) Public() netip.Addr { return netip.AddrFrom4([4]byte{9, 9, 9, h.host}) }

// Addr is where the home is in this world.
func (h *Home) Addr() netip.Addr { return h.world.at(h.host) }

// Sync copies a service's data from here to another home, as a person's own sync does
// while all is well, and touches its stamp.
func (h *Home) Sync(to *Home, name string) error {
	text, err := h.written(name)
	if err != nil {
		return err
	}
	file := to.item(name).data()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	// The last line may be half a line.
	if err := os.WriteFile(file, text[:bytes.LastIndexByte(text, '\n')+1], 0o600); err != nil {
		return err
	}
	info, err := os.Stat(h.item(name).data())
	if err != nil {
		return err
	}
	return os.Chtimes(file, time.Time{}, info.ModTime())
}

// written is what an item has written. One that has just been started is waited for.
func (h *Home) written(name string) (text []byte, err error) {
	for range 1000 {
		if text, err = os.ReadFile(h.item(name).data()); !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
		<-time.After(10 * time.Millisecond)
	}
	return nil, err
}
