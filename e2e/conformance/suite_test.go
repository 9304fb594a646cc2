package conformance_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// outcome is what became of a row, with each product.
type outcome [2]verdict

// TestConformance: with the same snapshot both products give the same verdicts, be it
// in HAProxy's config or told at run time, and go on to do so when it changes.
func TestConformance(t *testing.T) {
	t.Parallel()
	haproxytest.Binary(t)
	all, told := scenes(), stories()
	w := newWorld(t, 1, false, append(all, opening(told)...))
	grounds := [2]ground{w.settle(t, byRelay), w.settle(t, byHAProxy)}
	r := startRelay(t, w, grounds[byRelay])
	r.know(w)
	config := startHAProxy(t, w, grounds[byHAProxy], r)
	w.play(t, w.scenes, grounds)
	by := startSidecar(t, config)
	by.follows(t, r)
	t.Run("followed", func(t *testing.T) { w.play(t, w.ranked(), grounds) })
	w.tell(t, told, grounds, r, by)
}

// TestOwnChecks: and so they do when each finds out by itself who is well.
func TestOwnChecks(t *testing.T) {
	t.Parallel()
	haproxytest.Binary(t)
	all, told := watchedScenes(), watchedStories()
	w := newWorld(t, 2, true, append(all, opening(told)...))
	grounds := [2]ground{w.settle(t, byRelay), w.settle(t, byHAProxy)}
	r := startRelay(t, w, grounds[byRelay])
	startHAProxy(t, w, grounds[byHAProxy], r)
	w.play(t, w.scenes, grounds)
	w.tell(t, told, grounds, r, nil)
}

// opening are the scenes of stories.
func opening(told []story) (list []scene) {
	for _, s := range told {
		list = append(list, s.scene)
	}
	return list
}

// tell tells stories, several at a time. Without a sidecar HAProxy is on its own.
func (w *world) tell(t *testing.T, told []story, grounds [2]ground, r *relay, by *sidecar) {
	for _, s := range told {
		i := slices.IndexFunc(w.scenes, func(one scene) bool { return one.name == s.name })
		s.scene = w.scenes[i] // with its listeners
		t.Run("story of "+s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(t, w, grounds, r.of(t), by)
		})
	}
}

// ranked are the scenes in which not all is well with all gateways.
func (w *world) ranked() []scene {
	return slices.DeleteFunc(slices.Clone(w.scenes), func(s scene) bool {
		return !slices.ContainsFunc(s.gateways, func(g gateway) bool { return g.known != alive })
	})
}

// play lets all visitors of scenes come to both products.
func (w *world) play(t *testing.T, scenes []scene, grounds [2]ground) {
	var wg sync.WaitGroup
	outcomes := make([][]outcome, len(scenes))
	for i := range scenes {
		s := &scenes[i]
		outcomes[i] = make([]outcome, len(s.rows))
		for _, g := range grounds {
			wg.Go(func() { s.play(g, outcomes[i]) })
		}
	}
	wg.Wait()
	for i, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			for j, r := range s.rows {
				t.Run(r.name, func(t *testing.T) { r.judge(t, outcomes[i][j]) })
			}
		})
	}
}

// turnstile bounds how many rows are under way: what comes first would else be late
// on a slow machine, because of all that come behind it.
var turnstile = make(chan struct{}, 48)

// play lets all visitors of a scene come to one product.
func (s *scene) play(g ground, outcomes []outcome) {
	var stay stayers
	defer stay.leave()
	var wg sync.WaitGroup
	for i, r := range s.rows {
		one := func() {
			turnstile <- struct{}{}
			defer func() { <-turnstile }()
			outcomes[i][g.side] = r.play(g.address(s, r), s.helloTime(r), r.wants()[g.side], &stay)
		}
		if s.inTurn {
			one()
			continue
		}
		wg.Go(one)
	}
	wg.Wait()
}

// stayers are connections that are open until a scene is over.
type stayers struct {
	mu   sync.Mutex
	list []net.Conn
}

func (s *stayers) add(c net.Conn) {
	s.mu.Lock()
	s.list = append(s.list, c)
	s.mu.Unlock()
}

func (s *stayers) leave() {
	for _, c := range s.list {
		_ = c.Close()
	}
	s.list = nil
}

// play lets the visitors of a row come.
func (r row) play(address string, hello time.Duration, want verdict, stay *stayers) verdict {
	switch {
	case r.idlers > 0:
		return r.amidIdlers(address, hello, want, stay)
	case r.leave:
		stay.leave()
		return r.again(address, hello, want)
	case r.until:
		return r.again(address, hello, want)
	case r.knocks:
		return r.knock(address, hello)
	case r.each != nil:
		return r.meet(address, hello)
	case r.together:
		return r.rush(address, hello, want)
	case r.crowd > 0:
		return r.queue(address, hello, stay)
	}
	return r.visit(address, hello, waiting(want))
}

// waiting is how long a visitor waits for a verdict.
func waiting(want verdict) time.Duration {
	if want == open {
		return watch
	}
	return patience
}

// again lets a visitor come again and again until he meets what he wants, or has lost
// patience.
func (v visitor) again(address string, hello time.Duration, want verdict) (got verdict) {
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if got = v.visit(address, hello, waiting(want)); got == want {
			break
		}
	}
	return got
}

// amidIdlers lets the idlers come, and then the visitor, until he meets what he wants:
// he may be faster than the last of them, and take his place.
func (r row) amidIdlers(address string, hello time.Duration, want verdict, stay *stayers) (got verdict) {
	for end := time.Now().Add(patience); got != want && time.Now().Before(end); {
		for range r.idlers {
			if c, err := r.dial(address); err == nil {
				stay.add(c)
			}
		}
		got = r.visit(address, hello, patience)
	}
	return got
}

// queue lets a crowd come, one after the other.
func (r row) queue(address string, hello time.Duration, stay *stayers) verdict {
	counts := map[verdict]int{}
	for range r.crowd {
		if !r.stay {
			counts[r.visit(address, hello, patience)]++
			continue
		}
		got, c := r.come(address, hello, patience)
		counts[got]++
		if c != nil {
			stay.add(c)
		}
	}
	return count(counts)
}

// knock comes until he is refused, and then without a pause. A pause that the machine
// has made lets him begin anew.
func (r row) knock(address string, hello time.Duration) verdict {
	const (
		pause  = time.Second
		enough = 5 * time.Second
	)
	var refused, last time.Time
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		began := time.Now()
		got := r.visit(address, hello, patience)
		switch {
		case got == closed && (refused.IsZero() || time.Since(last) > pause):
			refused = began
		case got == closed && began.Sub(refused) > enough:
			return staysOut
		case got != closed && !refused.IsZero() && began.Sub(last) < pause:
			return inAgain
		}
		last = began
	}
	return "neither in nor out"
}

// count writes how many met which.
func count(counts map[verdict]int) verdict {
	var list []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", v, counts[v]))
	}
	return verdict(strings.Join(list, ", "))
}

// rush lets a crowd come at once, until they meet what they want.
func (r row) rush(address string, hello time.Duration, want verdict) (got verdict) {
	for end := time.Now().Add(patience); got != want && time.Now().Before(end); {
		var mu sync.Mutex
		met := map[string]bool{}
		var wg sync.WaitGroup
		for range r.crowd {
			wg.Go(func() {
				one := string(r.visit(address, hello, patience))
				mu.Lock()
				met[one] = true
				mu.Unlock()
			})
		}
		wg.Wait()
		got = verdict(strings.Join(slices.Sorted(maps.Keys(met)), " or "))
	}
	return got
}

// meet asks whether each source meets one gateway, whatever it is.
func (r row) meet(address string, hello time.Duration) verdict {
	met := map[verdict]int{}
	for i, v := range r.each {
		first := v.visit(address, hello, patience)
		for range 2 {
			if got := v.visit(address, hello, patience); got != first {
				return verdict(fmt.Sprintf("source %d meets %s, then %s", i, first, got))
			}
		}
		met[first]++
	}
	if n := strings.Count(string(count(met)), ",") + 1; n != r.crowd {
		return verdict(fmt.Sprintf("%d gateways are met: %s", n, count(met)))
	}
	return sticky
}

// wants is what should become of a row.
func (r row) wants() outcome {
	if r.but.difference != "" {
		return outcome{r.want, r.but.verdict}
	}
	return outcome{r.want, r.want}
}

// judge compares what became of a row with what should have.
func (r row) judge(t *testing.T, got outcome) {
	want := r.wants()
	if got[byRelay] != want[byRelay] {
		t.Errorf("edge-relay: %s, want %s", got[byRelay], want[byRelay])
	}
	switch {
	case got[byHAProxy] == want[byHAProxy]:
	case r.but.difference == "":
		t.Errorf("HAProxy: %s, want %s as with the relay: if this is to be so, name the difference", got[byHAProxy], r.want)
	case got[byHAProxy] == r.want:
		t.Errorf("HAProxy: %s, like the relay: the difference %q is gone, take it out of the table and of docs/conformance.md", got[byHAProxy], r.but.difference)
	default:
		t.Errorf("HAProxy: %s, want %s for the difference %q", got[byHAProxy], r.but.verdict, r.but.difference)
	}
}
