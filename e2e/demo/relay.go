package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
http://%s {
	edge_heartbeat
}
`

// relay is the edge-relay process.
type relay struct {
	*process
	listen string
	agents string // where the agents of gateways come
}

func startRelay(bin, nuc, nas string, failback time.Duration) (*relay, error) {
	p, err := newProcess(bin)
	if err != nil {
		return nil, err
	}
	r := &relay{process: p}
	if r.listen, err = freeAddr(); err != nil {
		p.stop()
		return nil, err
	}
	if r.agents, err = freeAddr(); err != nil {
		p.stop()
		return nil, err
	}
	return r, p.start(fmt.Sprintf(caddyfile, p.admin, nuc, nas, failback, r.listen, r.agents))
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
			return r.ended()
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

func (r *relay) snapshot(ctx context.Context) (*snapshot, error) {
	resp, err := r.get(ctx, "/edge/snapshot")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	s := new(snapshot)
	return s, json.NewDecoder(resp.Body).Decode(s)
}

// watch tells what changes in the relay's snapshot, until ctx or the relay ends.
func (r *relay) watch(ctx context.Context, tell func(string, mood)) {
	over := r.over
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := map[string]string{}
	for ctx.Err() == nil {
		if resp, err := r.get(ctx, "/edge/snapshot?watch"); err == nil {
			follow(resp, last, tell)
		}
		select {
		case <-tick.C:
		case <-over:
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

// serving names the gateways that serve the visitors: those of the pool that was
// made last.
func (s *snapshot) serving() string {
	var by []string
	pool := "home"
	for _, p := range s.Pools {
		if p.Name == "cabin" {
			pool = p.Name
		}
	}
	for _, p := range s.Pools {
		if p.Name != pool {
			continue
		}
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
