package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// accessLog takes records from the engines, which must not wait, to a writer,
// which may. What does not fit is dropped and counted.
type accessLog struct {
	records chan session.Record
	write   func(session.Record)
	lost    atomic.Uint64
	over    chan struct{} // closed when nothing more is written
	wg      sync.WaitGroup

	mu      sync.Mutex
	second  int64
	refused map[session.Reason]int
}

const (
	logBacklog = 4096
	// A flood of refusals is counted in full and logged at this rate a reason:
	// the log must not become the victim.
	refusalsPerSecond = 10
)

func newAccessLog(write func(session.Record)) *accessLog {
	a := &accessLog{records: make(chan session.Record, logBacklog), over: make(chan struct{}), write: write, refused: map[session.Reason]int{}}
	if write != nil {
		a.wg.Go(a.run)
	}
	return a
}

func (a *accessLog) run() {
	for {
		select {
		case r := <-a.records:
			a.write(r)
		case <-a.over:
			for range len(a.records) {
				a.write(<-a.records)
			}
			return
		}
	}
}

// Put implements session.Sink.
func (a *accessLog) Put(r session.Record) {
	if a.write == nil || r.Reason.Refusal() && a.tooMany(r.Reason) {
		return
	}
	select {
	case a.records <- r:
	default:
		a.lost.Add(1)
	}
}

func (a *accessLog) tooMany(why session.Reason) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now().Unix(); now != a.second {
		a.second = now
		clear(a.refused)
	}
	a.refused[why]++
	return a.refused[why] > refusalsPerSecond
}

// close writes what is left. What is Put later, by a connection that came as
// everything stopped, is lost.
func (a *accessLog) close() {
	close(a.over)
	a.wg.Wait()
}
