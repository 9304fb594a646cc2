package daemon

import (
	"context"
	"fmt"
	"net"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/agentcheck"
	"github.com/edgeward/edgeward/sidecar/follow"
)

func (d *daemon) startAgents(ctx context.Context) error {
	a := d.plan.AgentCheck
	if a.Listen == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.Listen)
	if err != nil {
		return fmt.Errorf("listening for agent checks: %w", err)
	}
	d.agents = agentcheck.New(agentcheck.Options{Log: d.Log, Answer: d.answer, Allow: a.Allow})
	d.task(func() error { return d.agents.Serve(ctx, l) })
	return nil
}

// answer says what a member is, for HAProxy to read.
func (d *daemon) answer(name, gateway string) string {
	p := d.picture.Load()
	if p == nil {
		return ""
	}
	view, ok := p.Pools[name]
	if !ok {
		return ""
	}
	i := view.Index(gateway)
	if i < 0 {
		return ""
	}
	w := follow.Roles(view)[gateway]
	return agentcheck.Words(w.Role, view.Members[i].Role != pool.RoleDisabled, w.Why)
}
