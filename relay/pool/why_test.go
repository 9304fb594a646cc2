package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestWhy keeps the sentences people read, all of them in one file.
func TestWhy(t *testing.T) {
	refused := down("connect failed for 500ms, 6 points: connection refused")
	nothing := pool.GatewayState{}
	quiet := pool.GatewayState{Reason: "no evidence for 15s"}
	was := pool.GatewayState{WasDown: true, Reason: "restored: was down, no evidence yet"}
	held := pool.GatewayState{Phase: health.Down, Op: pool.Hold, HeldAs: health.Alive, Reason: "connect failed"}
	heldDown := pool.GatewayState{Phase: health.Alive, Op: pool.Hold, HeldAs: health.Down, Reason: "first alive: check good answer"}
	drained := pool.GatewayState{Phase: health.Alive, Op: pool.Drain}
	disabled := pool.GatewayState{Phase: health.Alive, Op: pool.Disabled}
	recovered := back(10 * time.Second)
	night := settings(pool.Failover, "nuc", "nas")
	night.Failback = 14 * time.Hour

	var out strings.Builder
	tell := func(title string, s pool.Settings, st states, m pool.Marks) {
		v, _ := pool.Derive(s, st.of, m, noon)
		fmt.Fprintf(&out, "# %s\n", title)
		for _, member := range v.Members {
			fmt.Fprintf(&out, "%-4s tier %d  %-9s %s\n", member.Gateway, member.Tier, member.Role, member.Reason)
		}
		fmt.Fprintln(&out)
	}
	two, three := settings(pool.Failover, "nuc", "nas"), settings(pool.Failover, "nuc", "nas", "pi")
	rr := settings(pool.RoundRobin, "nuc", "nas", "pi")
	none := pool.Marks{}
	tell("all is well", two, states{"nuc": alive(), "nas": alive()}, none)
	tell("the first is down", two, states{"nuc": refused, "nas": alive()}, none)
	tell("the first came back", two, states{"nuc": recovered, "nas": alive()}, none)
	tell("the first came back, for a long failback", night, states{"nuc": recovered, "nas": alive()}, none)
	tell("an all-down pool serves the first that returns", two, states{"nuc": refused, "nas": recovered}, none)
	tell("all down", two, states{"nuc": refused, "nas": was}, none)
	tell("nothing is known", three, states{"nuc": was, "nas": quiet, "pi": nothing}, none)
	tell("operators", three, states{"nuc": drained, "nas": disabled, "pi": alive()}, none)
	tell("held", three, states{"nuc": heldDown, "nas": held, "pi": alive()}, none)
	tell("failed over for an hour", two, states{"nuc": alive(), "nas": alive()},
		pool.Marks{FailedOver: map[string]time.Time{"nuc": noon.Add(time.Hour)}})
	tell("failed over until failback", two, states{"nuc": alive(), "nas": alive()},
		pool.Marks{FailedOver: map[string]time.Time{"nuc": {}}})
	tell("balanced", rr, states{"nuc": alive(), "nas": refused, "pi": back(63 * time.Second)}, none)
	tell("balanced, none past its cooldown", rr, states{"nuc": recovered, "nas": refused, "pi": nothing}, none)

	golden.Files(t, "testdata/why.golden", func(*testing.T, string) string { return out.String() })
}
