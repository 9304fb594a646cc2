//go:build linux

package loop

import "golang.org/x/sys/unix"

// Hold stops every loop where it is until release is called. held is closed once
// all of them stand still.
func (e *Engine) Hold() (held <-chan struct{}, release func()) {
	all, gate, one := make(chan struct{}), make(chan struct{}), make(chan struct{}, len(e.loops))
	for _, l := range e.loops {
		l.do(func() { one <- struct{}{}; <-gate })
	}
	go func() {
		for range e.loops {
			<-one
		}
		close(all)
	}()
	return all, func() { close(gate) }
}

// Holdings is what the loops have in their hands.
type Holdings struct {
	Pairs, Timers, Pipes, PipeBytes, Forgotten int
}

// Holdings looks at every loop on its own goroutine. Pipes and PipeBytes are
// those of the pools; Forgotten counts pairs that only spare memory still points
// to.
func (e *Engine) Holdings() (h Holdings) {
	done := make(chan struct{})
	for _, l := range e.loops {
		l.do(func() {
			l.hold(&h)
			done <- struct{}{}
		})
		<-done
	}
	return h
}

func (l *Loop) hold(h *Holdings) {
	for _, s := range l.slots {
		if s.pair != nil {
			h.Pairs++
		}
	}
	h.Timers += l.wheel.count
	h.Pipes += len(l.pipes.idle)
	for _, p := range l.pipes.idle {
		n, _ := unix.IoctlGetInt(int(p.r), unix.TIOCINQ)
		h.PipeBytes += n
	}
	for _, list := range [][]*pair{l.ready[len(l.ready):cap(l.ready)], l.spare[:cap(l.spare)], l.dead[len(l.dead):cap(l.dead)]} {
		for _, p := range list {
			if p != nil {
				h.Forgotten++
			}
		}
	}
}
