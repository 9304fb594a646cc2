//go:build linux

package loop

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/session"
)

// Loop owns a set of sockets and one goroutine that serves them. Nothing in it
// is shared but the command list.
type Loop struct {
	ep, wake int32
	log      *slog.Logger
	peers    []*Loop      // all loops of the engine, this one too
	load     atomic.Int32 // pairs it has
	now      int64
	turn     uint64 // counts rounds of run

	slots   []slot
	free    []int32
	wheel   wheel
	ready   []*pair // pairs that spent their budget
	spare   []*pair // the memory of the list before
	dead    []*pair // to be recycled after the batch of events
	scratch []byte
	bufs    buffers
	pipes   pipes
	trials  []*trial

	mu       sync.Mutex
	commands []func()
	stopped  bool
}

// slot is what an epoll event points at.
type slot struct {
	pair *pair
	door *door
	tag  int32
}

// wakeSlot is the slot of the eventfd that announces commands.
const wakeSlot = 0

func newLoop(log *slog.Logger) (*Loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("creating eventfd: %w", err)
	}
	l := &Loop{ep: int32(ep), wake: int32(wake), log: log, slots: make([]slot, 1), scratch: make([]byte, 64<<10)}
	// Edge-triggered: each write wakes the loop, and nobody need read.
	if e := epollAdd(l.ep, l.wake, unix.EPOLLIN|unix.EPOLLET, wakeSlot, 0); e != 0 {
		l.release()
		return nil, fmt.Errorf("watching eventfd: %w", e)
	}
	return l, nil
}

// do runs f on the loop's goroutine, soon. It returns false when the loop has
// stopped.
func (l *Loop) do(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.commands = append(l.commands, f)
	if len(l.commands) == 1 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1) // never read: 2^64 writes fit (eventfd(2))
		_, _ = unix.Write(int(l.wake), one[:])
	}
	return true
}

// run serves until a command stops the loop. It holds its thread: epoll_wait
// blocks it anyway, and its memory stays in that core's cache.
func (l *Loop) run() {
	runtime.LockOSThread()
	defer l.release()
	events := make([]unix.EpollEvent, 256)
	for l.now = session.Now(); !l.stopped; {
		wait := l.wheel.wait(l.now)
		if len(l.ready) > 0 {
			wait = 0
		}
		n := epollWait(l.ep, events, wait)
		l.now = session.Now()
		l.wheel.skip(l.now)
		l.turn++
		for i := range n {
			l.dispatch(&events[i])
		}
		l.wheel.expire(l.now, l.onTime)
		l.serveReady()
		l.recycle()
	}
	l.runCommands() // what was asked before the stop was known
	l.endAll()
}

func (l *Loop) dispatch(ev *unix.EpollEvent) {
	if ev.Fd == wakeSlot {
		l.runCommands()
		return
	}
	s := &l.slots[ev.Fd]
	switch {
	case s.door != nil:
		l.guard(nil, func() { l.acceptSome(s.door) })
	case s.pair != nil && s.tag == ev.Pad>>2:
		l.guardEvent(s.pair, int(ev.Pad&3), ev.Events)
	}
}

// guardEvent contains a fault to the pair it befell.
func (l *Loop) guardEvent(p *pair, which int, events uint32) {
	defer func() {
		if r := recover(); r != nil {
			l.fault(p, r)
		}
	}()
	l.onEvent(p, which, events)
}

func (l *Loop) guard(p *pair, f func()) {
	defer func() {
		if r := recover(); r != nil {
			l.fault(p, r)
		}
	}()
	f()
}

func (l *Loop) fault(p *pair, r any) {
	l.log.Error("connection handler panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	if p != nil && p.phase != ended {
		l.end(p, session.Internal)
	}
}

func (l *Loop) runCommands() {
	l.mu.Lock()
	list := l.commands
	l.commands = nil
	l.mu.Unlock()
	for _, f := range list {
		l.guard(nil, f)
	}
}

// later gives p another turn after the others have had theirs.
func (l *Loop) later(p *pair) {
	if !p.queued {
		p.queued = true
		l.ready = append(l.ready, p)
	}
}

func (l *Loop) serveReady() {
	list := l.ready
	l.ready, l.spare = l.spare[:0], list
	for i, p := range list {
		list[i], p.queued = nil, false
		if p.phase == inService {
			l.guard(p, func() { l.pump(p) })
		}
	}
}

// seat gives p a slot, so that events can find it.
func (l *Loop) seat(p *pair) {
	if n := len(l.free); n > 0 {
		p.slot = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.slots = append(l.slots, slot{})
		p.slot = int32(len(l.slots) - 1)
	}
	s := &l.slots[p.slot]
	s.pair = p
	p.tag = s.tag
	l.load.Add(1)
}

const tags = 1 << 28

// unseat makes events that are still in the batch miss p. The slot is free for
// others only after the batch.
func (l *Loop) unseat(p *pair) {
	s := &l.slots[p.slot]
	s.pair, s.tag = nil, (s.tag+1)%tags
	l.dead = append(l.dead, p)
	l.load.Add(-1)
}

func (l *Loop) recycle() {
	for i, p := range l.dead {
		l.free = append(l.free, p.slot)
		l.dead[i] = nil
	}
	l.dead = l.dead[:0]
}

// watch registers an end of p, edge-triggered, for all it can ever need.
func (l *Loop) watch(p *pair, which int) errno {
	const all = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	return epollAdd(l.ep, p.ends[which].fd, all, p.slot, p.tag<<2|int32(which))
}

// pairs calls f for every pair that has a visitor.
func (l *Loop) pairs(f func(*pair)) {
	for i := range l.slots {
		if p := l.slots[i].pair; p != nil && p.phase < inOrphan {
			f(p)
		}
	}
}

func (l *Loop) endAll() {
	for i := range l.slots {
		if p := l.slots[i].pair; p != nil {
			l.end(p, session.Stopped)
		}
	}
}

// stop ends everything the loop still holds. It runs on the loop.
func (l *Loop) stop() {
	l.endAll()
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
}

func (l *Loop) release() {
	closeFD(l.ep)
	closeFD(l.wake)
	l.pipes.close()
}
