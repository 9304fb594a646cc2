package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgeward/edgeward/sidecar/agentcheck"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/render"
)

// Status is all that can be asked.
type Status struct {
	PID     int           `json:"pid"`
	Started time.Time     `json:"started"`
	Health  render.Health `json:"health"`
	Source  Source        `json:"source"`
	// HAProxy is nil if nothing is written.
	HAProxy *follow.Status `json:"haproxy,omitempty"`
	// Sessions are the open connections of servers, by "backend/server".
	Sessions map[string]int `json:"sessions,omitempty"`
	// Members are those of the source, where nothing is written.
	Members []Answered `json:"members,omitempty"`
	// Addresses are the names that are followed.
	Addresses []Address          `json:"addresses,omitempty"`
	Agents    *agentcheck.Counts `json:"agent_checks,omitempty"`
	// Config is what is wrong with the config in place, by the last reload.
	Config string `json:"config,omitzero"`
}

// Source is who finds out who is well.
type Source struct {
	Kind string `json:"kind"`
	URL  string `json:"url,omitzero"`
	// Known says that there is a picture that is believed, and Version which.
	Known   bool      `json:"known"`
	Version uint64    `json:"version,omitzero"`
	Heard   time.Time `json:"heard,omitzero"`
	Error   string    `json:"error,omitzero"`
}

// Answered is what an agent check of a member would be told.
type Answered struct {
	Pool    string `json:"pool"`
	Gateway string `json:"gateway"`
	Answer  string `json:"answer"`
	Why     string `json:"why"`
}

// Address is one name.
type Address struct {
	Host      string     `json:"host"`
	Addr      netip.Addr `json:"address,omitzero"`
	Since     time.Time  `json:"since,omitzero"`
	AskedAt   time.Time  `json:"asked_at,omitzero"`
	Candidate netip.Addr `json:"candidate,omitzero"`
	Error     string     `json:"error,omitzero"`
}

func (d *daemon) status(ctx context.Context) Status {
	s := Status{PID: os.Getpid(), Started: d.began, Health: d.health(), Source: d.sourceStatus()}
	if d.follower != nil {
		s.HAProxy, s.Sessions = d.follower.Status(), d.sessions(ctx)
	} else {
		s.Members = d.answered()
	}
	if d.book != nil {
		for host, e := range d.book.Entries() {
			s.Addresses = append(s.Addresses, Address{host, e.Addr, e.Since, e.AskedAt, e.Candidate, e.Error})
		}
		slices.SortFunc(s.Addresses, func(a, b Address) int { return compare(a.Host, b.Host) })
	}
	if d.agents != nil {
		s.Agents = new(d.agents.Counts())
	}
	if text := d.stale.Load(); text != nil {
		s.Config = *text
	}
	return s
}

// sessions asks HAProxy, which may be away.
func (d *daemon) sessions(ctx context.Context) map[string]int {
	list, err := d.client.Stats(ctx)
	if err != nil {
		return nil
	}
	open := make(map[string]int, len(list))
	for _, s := range list {
		open[s.Backend+"/"+s.Server] = s.Sessions
	}
	return open
}

func (d *daemon) health() render.Health {
	if d.follower != nil {
		return render.BySidecar
	}
	return render.ByAgent
}

func (d *daemon) sourceStatus() Source {
	s := Source{Kind: "own"}
	if p := d.picture.Load(); p != nil {
		s.Known, s.Version, s.Heard = true, p.Version, p.Heard
	}
	if d.remote != nil {
		heard, err := d.remote.State()
		s.Kind, s.URL, s.Heard = "snapshot", d.remote.URL(), heard
		if err != nil {
			s.Error = err.Error()
		}
	}
	return s
}

// answered lists what agent checks are told, by pool.
func (d *daemon) answered() (list []Answered) {
	p := d.picture.Load()
	if p == nil {
		return nil
	}
	for name, view := range p.Pools {
		for _, m := range view.Members {
			list = append(list, Answered{name, m.Gateway, d.answer(name, m.Gateway), m.Reason})
		}
	}
	slices.SortStableFunc(list, func(a, b Answered) int { return compare(a.Pool, b.Pool) })
	return list
}

// socketPath is where a run can be asked.
func socketPath(dir string) string { return filepath.Join(dir, "status.sock") }

// serveStatus answers at a unix socket that only its owner can open. The lock is ours,
// so a socket that is there is of a run that has died.
func (d *daemon) serveStatus(ctx context.Context) error {
	path := socketPath(d.plan.Run.Dir)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the former socket: %w", err)
	}
	l, err := listenPrivately(path)
	if err != nil {
		return fmt.Errorf("listening for status: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.status(r.Context()))
	})
	d.task(func() error { return serveHTTP(ctx, l, mux) })
	return nil
}

// serveHTTP serves until ctx ends, and gives what is being answered a moment.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if s.Shutdown(wait) != nil {
			_ = s.Close()
		}
	})
	err := s.Serve(l)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// maxStatus bounds what is read: 100,000 members.
const maxStatus = 64 << 20

// Ask asks the run whose folder is given.
func Ask(ctx context.Context, dir string) (s Status, err error) {
	path := socketPath(dir)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge-sidecar/status", nil)
	if err != nil {
		return s, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return s, fmt.Errorf("asking the sidecar at %s: %w: does it run, and may you ask it?", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("asking the sidecar at %s: it answers %s", path, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&s); err != nil {
		return s, fmt.Errorf("asking the sidecar at %s: %w", path, err)
	}
	return s, nil
}
