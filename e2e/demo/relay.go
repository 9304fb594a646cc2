package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const caddyfile = `{
	admin %s
	edge {
		gateway nuc {
			dial %s
		}
		gateway nas {
			dial %s
		}
		pool home {
			members nuc nas
			failback %s
		}
		listen %s {
			route *.example.test pool home
		}
	}
}
`

// relay is the edge-relay process.
type relay struct {
	caddyfile string
	admin     string
	listen    string
	dir       string
	cmd       *exec.Cmd
	over      chan struct{}
}

func startRelay(ctx context.Context, bin, nuc, nas string, failback time.Duration) (r *relay, err error) {
	r = &relay{over: make(chan struct{})}
	if r.admin, err = freeAddr(); err != nil {
		return nil, err
	}
	if r.listen, err = freeAddr(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "edge-demo"); err != nil {
		return nil, err
	}
	r.caddyfile = fmt.Sprintf(caddyfile, r.admin, nuc, nas, failback, r.listen)
	if err := r.run(bin); err != nil {
		_ = os.RemoveAll(r.dir)
		return nil, fmt.Errorf("starting %s: %w", bin, err)
	}
	return r, nil
}

// run starts the process with a home of its own; its log stays there.
func (r *relay) run(bin string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(r.caddyfile), 0o600); err != nil {
		return err
	}
	log, err := os.Create(r.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	r.cmd = exec.Command(bin, "run", "--config", config)
	r.cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_DATA_HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.over)
	}()
	return nil
}

func (r *relay) logFile() string { return filepath.Join(r.dir, "log") }

// stop ends the process, gently first, and removes what it left.
func (r *relay) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.over:
	case <-time.After(3 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.over
	}
	_ = os.RemoveAll(r.dir)
}

// snapshot is what the demo reads of the relay's picture of the world.
type snapshot struct {
	Gateways []struct{ Name, Phase, Reason string }
	Pools    []struct {
		Name    string
		Members []struct{ Gateway, Role string }
	}
}

// awaitAlive waits until the relay knows both gateways to be well.
func (r *relay) awaitAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := r.snapshot(ctx); err == nil && s.allAlive() {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.over:
			log, _ := os.ReadFile(r.logFile())
			return fmt.Errorf("edge-relay has ended: %s", log)
		case <-ctx.Done():
			return errors.New("the relay does not find both gateways alive")
		}
	}
}

func (s *snapshot) allAlive() bool {
	alive := 0
	for _, g := range s.Gateways {
		if g.Phase == "alive" {
			alive++
		}
	}
	return alive == 2
}

func (r *relay) get(ctx context.Context, query string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+"/edge/snapshot"+query, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

func (r *relay) snapshot(ctx context.Context) (*snapshot, error) {
	resp, err := r.get(ctx, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	s := new(snapshot)
	return s, json.NewDecoder(resp.Body).Decode(s)
}

// watch tells what changes in the relay's snapshot, until ctx or the relay ends.
func (r *relay) watch(ctx context.Context, tell func(string, mood)) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := map[string]string{}
	for ctx.Err() == nil {
		if resp, err := r.get(ctx, "?watch"); err == nil {
			follow(resp, last, tell)
		}
		select {
		case <-tick.C:
		case <-r.over:
			return
		case <-ctx.Done():
		}
	}
}

// follow reads server-sent events.
func follow(resp *http.Response, last map[string]string, tell func(string, mood)) {
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var s snapshot
		if ok && json.Unmarshal([]byte(data), &s) == nil {
			s.tell(last, tell)
		}
	}
}

// tell reports what differs from the last time.
func (s *snapshot) tell(last map[string]string, tell func(string, mood)) {
	for _, g := range s.Gateways {
		if was := last[g.Name]; was != g.Phase {
			last[g.Name] = g.Phase
			if was != "" {
				tell(fmt.Sprintf("gateway %s is %s: %s", g.Name, g.Phase, g.Reason), phaseMood(g.Phase))
			}
		}
	}
	now := s.serving()
	was, known := last["pool"]
	if last["pool"] = now; !known || was == now {
		return
	}
	if now == "" {
		tell("nobody serves the pool", bad)
	} else {
		tell("the pool is served by "+now, good)
	}
}

// serving names the gateways that serve the pool.
func (s *snapshot) serving() string {
	var by []string
	for _, p := range s.Pools {
		for _, m := range p.Members {
			if m.Role == "serving" {
				by = append(by, m.Gateway)
			}
		}
	}
	slices.Sort(by)
	return strings.Join(by, " ")
}

func phaseMood(phase string) mood {
	switch phase {
	case "alive":
		return good
	case "down":
		return bad
	}
	return plain
}
