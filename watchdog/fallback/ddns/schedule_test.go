package ddns_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// schedules is how many lives of a domain are tried, each with several holders.
const schedules = 200

var epochInBody = regexp.MustCompile(`epoch=(\d+)`)

// ledger holds what must be true of each write against what is: who holds the lease.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	random  *rand.Rand
	holder  uint64    // the epoch that is in force
	settled time.Time // since when a former holder's write is late
	sent    int
	late    []time.Time // writes of a former holder that landed after settle
	within  int         // and before
}

// request looks at a write when it is sent, holds it for a while, and looks again when it
// lands.
func (l *ledger) request(r fakecloudflare.Request, s fakecloudflare.Stage) {
	if r.Call != fakecloudflare.Batch {
		return
	}
	m := epochInBody.FindSubmatch(r.Body)
	var epoch uint64 // a batch that only deletes says nothing
	if m != nil {
		epoch, _ = strconv.ParseUint(string(m[1]), 10, 64)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == fakecloudflare.After {
		switch {
		case epoch == 0 || epoch == l.holder:
		case time.Now().After(l.settled):
			l.late = append(l.late, time.Now())
		default:
			l.within++
		}
		return
	}
	l.sent++
	if epoch > 0 && epoch != l.holder {
		l.t.Errorf("epoch %d writes while %d is in force", epoch, l.holder)
	}
	hold := time.Duration(0)
	switch l.random.IntN(6) {
	case 0:
		hold = time.Duration(l.random.IntN(9000)) * time.Millisecond
	case 1:
		hold = time.Duration(l.random.IntN(60000)) * time.Millisecond // past every deadline
	}
	l.mu.Unlock()
	time.Sleep(hold)
	l.mu.Lock()
}

// TestSchedules: whoever holds the lease, writes are sent by him alone; what a former
// holder had under way is written over by the next one, however late it lands; and in
// the end the records are those of the last holder.
func TestSchedules(t *testing.T) {
	sent, within, late := 0, 0, 0
	for seed := range uint64(schedules) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			w.home.DNS.Names = w.home.DNS.Names[:1]
			homes := []*machine{w.machine("cellar", cellar4, cellar6), w.machine("attic", attic4, attic6)}
			l := &ledger{t: t, random: rand.New(rand.NewPCG(seed, 2))}
			w.fake.OnRequest(l.request)
			var last *machine
			var wg sync.WaitGroup
			for epoch := uint64(1); epoch <= 4; epoch++ {
				m := homes[random.IntN(len(homes))]
				if last != nil {
					last.epoch.Store(0) // its lease is lost: it stops by itself
					if random.IntN(2) == 0 {
						last.off()
					}
				}
				l.mu.Lock()
				l.holder, l.settled = epoch, time.Now().Add(10*time.Second)
				l.mu.Unlock()
				time.Sleep(10 * time.Second) // settle
				wg.Go(func() { _ = m.on(epoch) })
				if last != nil && last != m {
					wg.Go(last.off)
				}
				time.Sleep(time.Duration(random.IntN(90)) * time.Second)
				if random.IntN(3) == 0 {
					v4 := fmt.Sprint("9.9.9.", 100+random.IntN(100))
					m.moves(mustAddr(v4), attic6)
				}
				time.Sleep(time.Duration(random.IntN(60)) * time.Second)
				wg.Wait()
				last = m
			}
			w.fake.OnRequest(nil)
			time.Sleep(4 * time.Minute)
			if s := last.Status("cellar"); !s.On || s.Error != "" {
				t.Errorf("seed %d: %+v", seed, s)
			}
			for _, r := range w.records() {
				if !strings.Contains(r, "epoch=4") {
					t.Errorf("seed %d: left over: %s", seed, r)
				}
			}
			if n := len(w.records()); n != 2 {
				t.Errorf("seed %d: %d records", seed, n)
			}
			for _, m := range homes {
				m.off()
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			sent, within, late = sent+l.sent, within+l.within, late+len(l.late)
		})
	}
	t.Logf("%d schedules, %d writes sent, none by who does not hold the lease; %d of a former holder landed within settle, %d later: all were written over", schedules, sent, within, late)
	if sent == 0 || within+late == 0 {
		t.Error("nothing was tried")
	}
}
