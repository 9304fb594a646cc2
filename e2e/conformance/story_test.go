package conformance_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// story is a scene in which something happens. There is one visitor who stays from
// the first step on, and one who comes after each.
type story struct {
	scene
	steps []step
}

// step is what happens, and who serves then.
type step struct {
	// do is "down a", "alive a", "drain a", "disable a", "hold a" or "ready a" of a
	// gateway; "failover" or "failback" of the pool; "stop a" or "start a" of the
	// server itself. Empty at the beginning.
	do   string
	want verdict
	but  differs
	// over says that the connection of who came first is over by now.
	over bool
}

// told is what happens to a pool of a, b and c.
func told(name string, p catalog.Pool, steps ...step) story {
	s := story{steps: steps}
	s.name, s.pools, s.routes = name, []catalog.Pool{p}, []catalog.Route{toPool(p.Name, "a.example.com")}
	for _, m := range p.Members {
		s.gateways = append(s.gateways, gateway{name: m.Gateway})
	}
	return s
}

func stories() []story {
	three := pooled(pool.Failover, "a", "b", "c")
	closing, soon := three, three
	closing.OnDown, soon.Failback = pool.Close, "0s"
	return []story{
		told(
			"failover", three,
			step{want: "a"},
			step{do: "down b", want: "a"},
			step{do: "down a", want: "c"},
			step{do: "alive b", want: "c"},
			step{do: "down c", want: "b"},
			step{do: "alive a", want: "a"},
			step{do: "failback", want: "a"},
			step{do: "failover", want: "b"},
			step{do: "failback", want: "a"},
		),
		told(
			"operator", three,
			step{want: "a"},
			step{do: "drain a", want: "b"},
			step{do: "hold b", want: "b"},
			step{do: "down b", want: "b"},
			step{do: "alive b", want: "b"},
			step{do: "ready b", want: "c"},
			step{do: "ready a", want: "a"},
			step{do: "disable a", want: "c", over: true},
			step{do: "ready a", want: "a", over: true},
		),
		told(
			"closing", closing,
			step{want: "a"},
			step{do: "drain a", want: "b"},
			step{do: "ready a", want: "a"},
			step{do: "down a", want: "b", over: true},
			step{do: "alive a", want: "b", over: true},
		),
		told(
			"back-at-once", soon,
			step{want: "a"},
			step{do: "down a", want: "b"},
			step{do: "alive a", want: "a"},
		),
		told(
			"all-go-down", three,
			step{want: "a"},
			step{do: "down a", want: "b"},
			step{do: "down b", want: "c"},
			step{do: "down c", want: "a"},
			step{do: "alive c", want: "c"},
			step{do: "alive a", want: "a"},
		),
	}
}

// watchedStories are those in which nobody is told what happens.
func watchedStories() []story {
	two := pooled(pool.Failover, "a", "b")
	return []story{
		told(
			"server-gone", two,
			step{want: "a"},
			step{do: "stop a", want: "b", over: true},
			step{do: "start a", want: "b", but: differs{"failback", "a"}, over: true},
			step{do: "stop b", want: "a", over: true},
			step{do: "stop a", want: closed, over: true},
			step{do: "start b", want: "b", over: true},
		),
	}
}

// act does what a step says.
func (s *story) act(w *world, r *relay, do string) {
	r.t.Helper()
	word, name, _ := strings.Cut(do, " ")
	gateway := s.in(name)
	switch word {
	case "":
	case "down", "alive":
		r.is(map[string]health.Phase{"down": health.Down, "alive": health.Alive}[word], gateway)
	case "failover", "failback":
		r.call(http.MethodPost, "/edge/pools/"+s.in("home")+"/"+word, nil)
	case "stop":
		w.origins[gateway].stop()
		r.sees(health.Down, gateway)
	case "start":
		w.origins[gateway].start(r.t)
		r.sees(health.Alive, gateway)
	default:
		r.act(word, gateway)
	}
}

// tell plays a story with both products.
func (s *story) tell(t *testing.T, w *world, grounds [2]ground, r *relay, by *sidecar) {
	v := asks("a.example.com")
	var stays [2]*served
	for i, step := range s.steps {
		s.act(w, r, step.do)
		by.follows(t, r)
		one := row{visitor: v, want: step.want, but: step.but}
		var got outcome
		for _, g := range grounds {
			address, hello := g.address(&s.scene, one), s.helloTime(one)
			if by != nil { // both know: the first who comes is right
				got[g.side] = v.visit(address, hello, patience)
			} else {
				got[g.side] = v.again(address, hello, one.wants()[g.side])
			}
			if i == 0 {
				if _, stays[g.side] = v.come(address, hello, patience); stays[g.side] == nil {
					t.Fatalf("%s: nobody serves who is to stay", g.side)
				}
				defer stays[g.side].Close()
			}
		}
		t.Run(strings.TrimSpace(fmt.Sprint(i, " ", step.do)), func(t *testing.T) {
			one.judge(t, got)
			for _, g := range grounds {
				if err := stays[g.side].lives(!step.over); err != nil {
					t.Errorf("%s: who came first: %v", g.side, err)
				}
			}
		})
	}
}

// lives checks that a connection still works, or that it is over soon.
func (s *served) lives(want bool) error {
	_ = s.SetDeadline(time.Now().Add(patience))
	var err error
	for err == nil {
		line := ""
		if _, err = io.WriteString(s, "still there?\n"); err == nil {
			line, err = s.r.ReadString('\n')
		}
		switch {
		case want && err == nil && line == "still there?\n":
			return nil
		case want:
			return fmt.Errorf("his connection is over: %w", err)
		case err == nil:
			<-time.After(10 * time.Millisecond)
		}
	}
	return nil
}
