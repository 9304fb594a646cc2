package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

const cabinCaddyfile = `{
	admin %s
	edge_gateway {
		listen %s
	}
}
`

// cabin is a gateway that nobody has configured at the relay: its agent enrols with
// a pairing code, and is told what to forward, to a server on its own loopback.
type cabin struct {
	*process
	listen string
	server *gateway
}

// join makes the gateway, a pool in which it comes before nas, and a route for the
// visitors' name: all through the relay's admin API, while they come.
func (s *stage) join() {
	if err := s.startCabin(); err != nil {
		s.view.event(fmt.Sprintf("cabin cannot join: %v", err), bad)
	}
}

func (s *stage) startCabin() (err error) {
	c := &cabin{}
	if c.server, err = newGateway("cabin", s.ca); err != nil {
		return err
	}
	s.cabin = c
	if c.listen, err = freeAddr(); err != nil {
		return err
	}
	if c.process, err = newProcess(s.watchdog.bin); err != nil {
		return err
	}
	if err := c.start(fmt.Sprintf(cabinCaddyfile, c.admin, c.listen)); err != nil {
		return err
	}
	if err := s.relay.post(s.ctx, "/edge/gateways", fmt.Sprintf(`{"name":"cabin","dial":%q}`, c.listen), nil); err != nil {
		return err
	}
	var code struct{ Code string }
	if err := s.relay.post(s.ctx, "/edge/gateways/cabin/pairing-code", "", &code); err != nil {
		return err
	}
	if err := s.pair(code.Code); err != nil {
		return err
	}
	members := fmt.Sprintf(`{"name":"cabin","failback":%q,"members":[{"gateway":"cabin"},{"gateway":"nas"}]}`, s.failback)
	if err := s.relay.post(s.ctx, "/edge/pools", members, nil); err != nil {
		return err
	}
	host, port, _ := strings.Cut(c.server.addr, ":")
	route := fmt.Sprintf(`{"name":"visitors","kind":"tls","hosts":[%q],"pool":"cabin","target":{"host":%q,"port":%s}}`, site, host, port)
	if err := s.relay.post(s.ctx, "/edge/routes", route, nil); err != nil {
		return err
	}
	return s.awaitCabin()
}

// pair runs the command that a person would run at home.
func (s *stage) pair(code string) error {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, s.cabin.bin, "gateway", "pair", "--address", s.cabin.admin, "http://"+s.relay.agents+"/", code)
		cmd.Env = s.cabin.env()
		out, err := cmd.CombinedOutput()
		if err == nil {
			s.view.event("at home: gateway pair http://"+s.relay.agents+"/ "+code, plain)
			return nil
		}
		if !bytes.Contains(out, []byte("connection refused")) || ctx.Err() != nil { // the process is still starting
			return fmt.Errorf("pairing: %w: %s", err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitCabin waits until the relay finds it alive, with what it has to forward.
func (s *stage) awaitCabin() error {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var agents []struct {
		Gateway, State string
		Current        bool
	}
	for {
		if err := s.relay.ask(ctx, "/edge/agents", &agents); err == nil {
			for _, a := range agents {
				if a.Gateway == "cabin" && a.Current && a.State == "connected" && s.relay.phase(ctx, "cabin") == "alive" {
					return nil
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the relay does not find cabin's agent as it should be: %+v; it says %s", agents, s.cabin.lastWords())
		}
	}
}

func (s *stage) killCabin() {
	if s.cabin != nil {
		s.death(s.cabin.kill)
	}
}

func (s *stage) reviveCabin() {
	if s.cabin == nil {
		return
	}
	err := s.cabin.run()
	if err == nil {
		err = s.awaitCabin()
	}
	if err != nil {
		s.view.event(fmt.Sprintf("cabin cannot be brought back: %v", err), bad)
	}
}

func (c *cabin) clear() {
	if c.process != nil {
		c.stop()
	}
	c.server.close()
}

// post sends JSON to the admin API and reads the answer into v.
func (r *relay) post(ctx context.Context, path, body string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return r.do(req, v)
}

// ask reads an answer of the admin API into v.
func (r *relay) ask(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		return err
	}
	return r.do(req, v)
}

func (r *relay) do(req *http.Request, v any) error {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		var problem struct{ Detail string }
		_ = json.NewDecoder(resp.Body).Decode(&problem)
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, problem.Detail)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// phase is a gateway's, as the relay has it.
func (r *relay) phase(ctx context.Context, gateway string) string {
	s, err := r.snapshot(ctx)
	if err != nil {
		return ""
	}
	for _, g := range s.Gateways {
		if g.Name == gateway {
			return g.Phase
		}
	}
	return ""
}
