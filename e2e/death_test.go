package e2e_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"
)

// pair is a relay in front of two gateways in a pool.
type pair struct {
	*relay
	visitor
	nuc, nas *gateway
	front    string // what the relay dials to reach nuc, if not nuc itself
}

// home is the Caddyfile of a pair; the arguments are the two addresses, more of
// the pool, the address to listen on and more of the listener.
const home = `
	edge {
		gateway nuc {
			dial %s
		}
		gateway nas {
			dial %s
		}
		pool home {
			members nuc nas
			failback 1s
			%s
		}
		listen %s {
			route example.test *.example.test pool home
			%s
		}
	}`

// newPair starts one, with more lines for the pool and the listener.
func newPair(t *testing.T, pool, listen string) *pair {
	t.Helper()
	p := &pair{nuc: newGateway(t, "nuc")}
	p.begin(t, pool, listen)
	return p
}

// begin starts all that is there besides nuc.
func (p *pair) begin(t *testing.T, pool, listen string) {
	t.Helper()
	p.relay, p.visitor, p.nas = newRelay(t), visitor{addr: freeAddr(t, "127.0.0.1")}, newGateway(t, "nas")
	p.write(p.global(pool, listen), "")
	p.run()
	p.awaitPhase("nuc", "alive", 10*time.Second)
	p.awaitPhase("nas", "alive", 10*time.Second)
}

func (p *pair) global(pool, listen string) string {
	return fmt.Sprintf(home, cmp.Or(p.front, p.nuc.addr), p.nas.addr, pool, p.addr, listen)
}

// TestDeadMember is the promise that nobody sees a gateway die: not one visitor
// who comes after it fails, and the way to the other gateway is short.
func TestDeadMember(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*gateway)
		slack time.Duration // the most that may be added to what a visitor takes, with a wide margin
	}{
		{"killed", (*gateway).kill, time.Second},
		{"refuses", (*gateway).refuse, time.Second},
		{"blackholed", (*gateway).blackhole, time.Second},
		{"silent", func(g *gateway) { g.be(silent) }, 2500 * time.Millisecond},
		{"resets", func(g *gateway) { g.be(resets) }, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, "", "")
			crowd := p.send(t, 2000, 500)
			crowd.await(t, 500)
			died := time.Now()
			c.fault(p.nuc)
			p.awaitPhase("nuc", "down", 4*time.Second)
			down := time.Since(died)
			all := crowd.end(false)
			before, after := all.before(died), all.since(died)
			after.noneFailed(t)
			if cut := len(before.failed()); cut > everyoneAtOnce {
				t.Errorf("%d visitors who came before were cut: there were at most %d", cut, everyoneAtOnce)
			}
			added := after.at(.99) - before.at(.5)
			t.Logf("before: %d visitors, %s (%d cut while served)", len(before), before.latency(), len(before.failed()))
			t.Logf("after:  %d visitors, %s, by %v; p99 added %s; down after %s",
				len(after), after.latency(), after.by(), added.Round(time.Millisecond), down.Round(time.Millisecond))
			// What a busy machine takes is taken before, too.
			if worst, most := after.at(1), c.slack+before.at(1); worst > most {
				t.Errorf("a visitor took %s: want at most %s", worst, most)
			}
			if n := p.pool("home").Outages; n > 0 {
				t.Errorf("%d outages counted while a gateway was well", n)
			}
		})
	}
}
