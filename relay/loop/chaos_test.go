//go:build linux

package loop_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/loop"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

var (
	chaosSeed     = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0 draws one")
	chaosVisitors = flag.Int("chaos.visitors", 700, "how many visitors TestChaos sends")
)

// TestChaos sends visitors of all kinds to gateways of all kinds while an
// operator interferes. Every byte either side sees is checked, and at the end
// everything must have been given back.
func TestChaos(t *testing.T) {
	seed := cmp.Or(*chaosSeed, rand.Uint64())
	t.Logf("again with: -run TestChaos -chaos.seed %d", seed)
	refusing(t) // the first socket of a process brings descriptors that stay
	before := descriptors(t)
	t.Run("all", func(t *testing.T) {
		x := newChaos(t, seed)
		x.run()
		x.settled()
		x.close()
		x.checkRecords()
	})
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// chaos is the world and the ledger of who saw what.
type chaos struct {
	*world
	seed  uint64
	homes []*home
	bulk  []byte // what all streams are cut from

	doorMu sync.RWMutex // held for writing while the door moves
	door   *loop.Door

	logging sync.WaitGroup
	mu      sync.Mutex
	visits  map[netip.Addr]*visit
	records map[netip.Addr][]session.Record
}

// home is one gateway.
type home struct {
	index int
	proxy byte
	ln    net.Listener
	wg    sync.WaitGroup
	count atomic.Int64 // connections so far

	mu    sync.Mutex
	conns map[uint64]*side // by visitor
}

// side is what one end of a connection did and saw.
type side struct {
	got            int64 // bytes of the stream; all as they were sent
	eof, reset     bool
	err            error
	orderly, whole bool // by its script: ends in order, and reads all there is
	resets         bool // by its script, after it has answered
	patient        bool // by its script: first hears the other out
	sends          int64
}

// visit is one visitor.
type visit struct {
	side
	id    uint64
	home  int // whose stream it got, -1: none
	stuck bool
}

// stream is an end of a connection, TCP or not.
type stream interface {
	net.Conn
	CloseWrite() error
}

func newChaos(t *testing.T, seed uint64) *chaos {
	x := &chaos{seed: seed, visits: map[netip.Addr]*visit{}, records: map[netip.Addr][]session.Record{}}
	r := rand.New(rand.NewPCG(seed, 1))
	x.bulk = make([]byte, 2*65521)
	for i := range 65521 {
		x.bulk[i] = byte(r.Uint32())
	}
	copy(x.bulk[65521:], x.bulk)
	addresses := []string{x.open(t, "tcp", 0), x.open(t, "tcp", 2), refusing(t), x.open(t, "tcp", 0), blackhole(t), x.open(t, "unix", 0)}
	dialled := append([]string(nil), addresses...)
	dialled[5] = "127.0.0.1:1" // until its path is set below
	x.world = newWorld(t, dialled, func(rules *session.Rules, p *session.PoolSettings) {
		rules.HelloTime = 500 * time.Millisecond
		p.Idle, p.Linger = 4*time.Second, 3*time.Second
		p.Policy = []pool.Policy{pool.Failover, pool.RoundRobin, pool.LeastConn, pool.IPHash}[r.IntN(4)]
		p.Attempt = attempt.Policy{Dial: 200 * time.Millisecond, Hedge: 40 * time.Millisecond, FirstByte: 150 * time.Millisecond, Total: time.Second}
	})
	x.gateways[1].SetAddress(&session.Address{Addr: netip.MustParseAddrPort(addresses[1]), Proxy: 2})
	x.gateways[5].SetAddress(&session.Address{Path: addresses[5]})
	x.logging.Go(func() {
		for rec := range x.world.records {
			x.mu.Lock()
			x.records[rec.Source.Addr()] = append(x.records[rec.Source.Addr()], rec)
			x.mu.Unlock()
		}
	})
	return x
}

// open makes a gateway that follows the script of each visitor.
func (x *chaos) open(t *testing.T, network string, proxy byte) string {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "home")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	h := &home{index: len(x.homes), proxy: proxy, ln: ln, conns: map[uint64]*side{}}
	x.homes = append(x.homes, h)
	h.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { x.serve(h, c.(stream)) })
		}
	})
	return ln.Addr().String()
}

// part is n bytes of the stream that id has with a home, one way.
func (x *chaos) part(id uint64, home int, up bool, from int64, n int) []byte {
	at := id*7919 + uint64(home)*104729 + uint64(from)
	if up {
		at = id*6151 + 13 + uint64(from) // the visitor does not know who will serve it
	}
	at %= 65521
	return x.bulk[at : at+uint64(n)]
}

// send writes size bytes of a stream, in pieces.
func (x *chaos) send(c stream, r *rand.Rand, id uint64, home int, up bool, size int64, slow bool) error {
	for at := int64(0); at < size; {
		n := int(min(size-at, 1+r.Int64N(60<<10)))
		if slow {
			n = min(n, 4<<10)
			wait(r, 2)
		}
		m, err := c.Write(x.part(id, home, up, at, n))
		at += int64(m)
		if err != nil {
			return err
		}
	}
	return nil
}

// receive reads a stream to its end, or to most bytes, and checks it.
func (x *chaos) receive(s *side, c stream, r *rand.Rand, id uint64, home int, up bool, most int64, slow bool) {
	buf := make([]byte, 32<<10)
	for s.got < most {
		n, err := c.Read(buf[:min(int64(len(buf)), most-s.got)])
		if !bytes.Equal(buf[:n], x.part(id, home, up, s.got, n)) {
			x.t.Errorf("visitor %d, home %d, up %v: the %d bytes from %d on are not what was sent", id, home, up, n, s.got)
			s.err = errors.New("garbled")
			return
		}
		s.got += int64(n)
		if err != nil {
			s.note(err)
			return
		}
		if slow {
			wait(r, 2)
		}
	}
}

func (s *side) note(err error) {
	switch {
	case err == nil:
	case err == io.EOF:
		s.eof = true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		s.reset = true
	default:
		s.err = err
	}
}

// wait passes up to ms milliseconds.
func wait(r *rand.Rand, ms int) { <-time.After(time.Duration(r.IntN(ms*1000)) * time.Microsecond) }

func size(r *rand.Rand) int64 {
	return []int64{0, 1, 100, 5000, 16 << 10, 32 << 10, 200 << 10, 1 << 20, 6 << 20}[r.IntN(9)]
}

const forever = 1 << 62

// serve plays the home's part of one connection.
func (x *chaos) serve(h *home, c stream) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	early := rand.New(rand.NewPCG(x.seed, uint64(h.index)<<32|uint64(h.count.Add(1))))
	spoken := false
	switch early.IntN(20) { // before it knows whose connection it is
	case 0:
		return
	case 1:
		abort(c)
		return
	case 2, 3: // does not even wait for the hello
		spoken = true
		if x.answer(h, c) != nil {
			return
		}
	}
	id, ok := readOpening(c, h.proxy)
	if !ok {
		return
	}
	s := &side{}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.conns[id] != nil {
			x.t.Errorf("visitor %d came to home %d twice", id, h.index)
		}
		h.conns[id] = s
	}()
	r := rand.New(rand.NewPCG(x.seed^id, uint64(h.index)+2))
	slow := r.IntN(4) == 0
	s.sends = size(r)
	if slow {
		s.sends = min(s.sends, 100<<10)
	}
	script := r.IntN(12)
	if spoken {
		script = 3 + script%9
	}
	switch script {
	case 0: // silent
		x.receive(s, c, r, id, h.index, true, forever, false)
		return
	case 1: // silent, then late
		<-time.After(200 * time.Millisecond)
	case 2:
		abort(c)
		return
	case 3: // resets in the middle
		s.resets = true
		if spoken || x.answer(h, c) == nil {
			_ = x.send(c, r, id, h.index, false, s.sends/2, slow)
		}
		abort(c)
		return
	}
	s.orderly, s.whole = true, true
	if !spoken {
		if err := x.answer(h, c); err != nil {
			s.note(err)
			return
		}
	}
	if r.IntN(3) == 0 {
		s.patient = true
		x.receive(s, c, r, id, h.index, true, forever, slow)
	}
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		failed = x.send(c, rand.New(rand.NewPCG(id, 3)), id, h.index, false, s.sends, slow)
		_ = c.CloseWrite()
	})
	if !s.eof && !s.reset {
		x.receive(s, c, r, id, h.index, true, forever, slow)
	}
	wg.Wait()
	s.note(failed)
}

// answer is the first byte: it tells the visitor who it is.
func (x *chaos) answer(h *home, c stream) error {
	_, err := c.Write([]byte{byte(h.index)})
	return err
}

// abort closes with a reset, where there is such a thing.
func abort(c stream) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// readOpening reads the PROXY header and the ClientHello, whose random carries
// the visitor's number and the length of it all.
func readOpening(c stream, proxy byte) (id uint64, ok bool) {
	if proxy == 2 {
		head := make([]byte, 16)
		if _, err := io.ReadFull(c, head); err != nil {
			return 0, false
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(head[14:]))); err != nil {
			return 0, false
		}
	}
	head := make([]byte, 43)
	if _, err := io.ReadFull(c, head); err != nil {
		return 0, false
	}
	id, rest := binary.BigEndian.Uint64(head[11:]), binary.BigEndian.Uint32(head[19:])-43
	_, err := io.CopyN(io.Discard, c, int64(rest))
	return id, err == nil
}

// run lets all visitors come and go.
func (x *chaos) run() {
	small := helloBytes(x.t, "www.example.com")
	hellos := [][]byte{small, small, shatter(small, 7), helloOf(x.t, 16<<10), helloOf(x.t, 9000), shatter(helloOf(x.t, 16<<10), 2)}
	ids := make(chan uint64)
	ctx, cancel := context.WithCancel(x.t.Context())
	var operator, visitors sync.WaitGroup
	operator.Go(func() { x.operate(ctx) })
	for range 48 {
		visitors.Go(func() {
			for id := range ids {
				r := rand.New(rand.NewPCG(x.seed, id+100))
				x.visit(id, r, hellos[r.IntN(len(hellos))])
			}
		})
	}
	for id := range uint64(*chaosVisitors) {
		ids <- id
	}
	close(ids)
	visitors.Wait()
	cancel()
	operator.Wait()
}

// visit plays the visitor's part.
func (x *chaos) visit(id uint64, r *rand.Rand, hello []byte) {
	from := netip.AddrFrom4([4]byte{127, 1, byte(id >> 8), byte(id)})
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	x.doorMu.RLock()
	conn, err := d.Dial("tcp", x.address)
	x.doorMu.RUnlock()
	if err != nil {
		x.t.Errorf("visitor %d: %v", id, err)
		return
	}
	c := conn.(*net.TCPConn)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	v := &visit{id: id, home: -1}
	defer func() {
		v.stuck = errors.Is(v.err, context.DeadlineExceeded) || isTimeout(v.err)
		x.mu.Lock()
		x.visits[from] = v
		x.mu.Unlock()
	}()
	hello = bytes.Clone(hello)
	binary.BigEndian.PutUint64(hello[11:], id)
	binary.BigEndian.PutUint32(hello[19:], uint32(len(hello)))
	kind := r.IntN(14)
	if kind == 0 {
		hello = hello[:r.IntN(len(hello))]
	}
	for at := 0; at < len(hello); {
		n := min(len(hello)-at, 1+r.IntN(len(hello)))
		if _, err := c.Write(hello[at : at+n]); err != nil {
			v.note(err)
			return
		}
		at += n
		if at < len(hello) {
			wait(r, 2)
		}
	}
	x.converse(c, v, r, kind)
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// converse is what follows the hello.
func (x *chaos) converse(c *net.TCPConn, v *visit, r *rand.Rand, kind int) {
	id, slow := v.id, r.IntN(4) == 0
	v.sends = size(r)
	if slow {
		v.sends = min(v.sends, 100<<10)
	}
	switch kind {
	case 0: // a hello that never ends: three ways
		switch r.IntN(3) {
		case 0:
			abort(c)
			return
		case 1:
			_ = c.CloseWrite()
		}
		_, err := io.Copy(io.Discard, c)
		v.note(err)
		return
	case 1:
		wait(r, 200)
		abort(c)
		return
	case 2:
		wait(r, 200)
		return
	}
	var wg sync.WaitGroup
	var failed error
	speak := func() {
		failed = x.send(c, rand.New(rand.NewPCG(id, 4)), id, -1, true, v.sends, slow)
		if kind > 4 {
			_ = c.CloseWrite()
		}
	}
	if kind%4 == 0 { // does not wait for the answer
		wg.Go(speak)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		v.note(err)
		wg.Wait()
		return
	}
	v.home = int(first[0])
	if kind%4 != 0 {
		wg.Go(speak)
	}
	most := int64(forever)
	switch kind {
	case 3, 4: // resets in the middle
		v.resets = true
		most = r.Int64N(100 << 10)
	default:
		v.orderly, v.whole = true, true
	}
	x.receive(&v.side, c, r, id, v.home, false, most, slow)
	if v.resets {
		wg.Wait()
		abort(c)
		return
	}
	wg.Wait()
	v.note(failed)
}

// operate interferes until it is told to stop.
func (x *chaos) operate(ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 5))
	for ctx.Err() == nil {
		wait(r, 60)
		switch r.IntN(8) {
		case 0:
			x.engine.CloseGateway(x.gateways[r.IntN(len(x.gateways))], []string{"", "home", "other"}[r.IntN(3)], session.GatewayDown)
		case 1, 2, 3:
			x.republish(r)
		case 4:
			x.moveDoor()
		case 5:
			runtime.GC()
		case 6:
			x.engine.Connections(r.IntN(100))
		case 7:
			x.engine.Holdings()
		}
	}
}

func (x *chaos) republish(r *rand.Rand) {
	phases := []health.Phase{health.Alive, health.Alive, health.Down, health.Unknown}
	view, _ := pool.Derive(x.pool.Settings, func(string) pool.GatewayState {
		return pool.GatewayState{Phase: phases[r.IntN(len(phases))]}
	}, pool.Marks{}, time.Now())
	x.pool.Publish(&session.Choice{View: view, Gateways: x.gateways})
}

// moveDoor opens another door and closes the one before. Visitors who come by
// the old one have been accepted, or its close resets them.
func (x *chaos) moveDoor() {
	x.doorMu.Lock()
	old := x.door
	ln, fd := x.bind()
	door, err := x.engine.Listen(fd, x.listener)
	if err != nil {
		x.t.Error(err)
	}
	x.door, x.address = door, ln
	x.doorMu.Unlock()
	if old != nil {
		old.Close()
	}
}

// settled waits until the engine holds nobody, and looks at what is left in its
// hands.
func (x *chaos) settled() {
	until := time.Now().Add(10 * time.Second)
	for {
		h := x.engine.Holdings()
		if h.Pairs == 0 {
			if h.Timers != 0 || h.PipeBytes != 0 || h.Forgotten != 0 {
				x.t.Errorf("left in the engine: %+v", h)
			}
			return
		}
		if time.Now().After(until) {
			x.t.Errorf("left in the engine: %+v, connections %+v", h, x.engine.Connections(5))
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (x *chaos) close() {
	if x.door != nil {
		x.door.Close()
	}
	for _, h := range x.homes {
		h.ln.Close()
		h.wg.Wait()
	}
	x.shut()
	close(x.world.records)
	x.logging.Wait()
	x.checkCounts()
}

func (x *chaos) checkCounts() {
	x.checkEmpty()
	for _, g := range x.gateways {
		if n := g.Orphans.Load(); n != 0 {
			x.t.Errorf("gateway %s has %d orphans at the end", g.Name, n)
		}
	}
}

// checkRecords compares what both ends saw with each other and with the log.
func (x *chaos) checkRecords() {
	x.mu.Lock()
	defer x.mu.Unlock()
	var served, whole, resets, missing atomic.Int64
	for from, v := range x.visits {
		if v.stuck {
			x.t.Errorf("visitor %d was stuck: %+v", v.id, v)
		}
		recs := x.records[from]
		if len(recs) != 1 {
			if len(recs) > 1 || v.home >= 0 {
				x.t.Errorf("visitor %d has %d records: %+v", v.id, len(recs), recs)
			}
			missing.Add(1)
			continue
		}
		x.checkOthers(v)
		if v.home < 0 {
			continue
		}
		served.Add(1)
		h := x.homes[v.home]
		s := h.conns[v.id]
		if s == nil {
			x.t.Errorf("visitor %d was answered by home %d, which has not seen it", v.id, v.home)
			continue
		}
		x.checkPair(v, s, &recs[0], &whole, &resets)
	}
	x.t.Logf("%d visitors, %d served, %d carried whole, %d resets seen, %d without a record",
		len(x.visits), served.Load(), whole.Load(), resets.Load(), missing.Load())
}

// checkOthers sees that no other home got more than the hello.
func (x *chaos) checkOthers(v *visit) {
	var heard []int
	for _, h := range x.homes {
		if s := h.conns[v.id]; s != nil && s.got > 0 {
			heard = append(heard, h.index)
		}
	}
	if len(heard) > 1 || len(heard) == 1 && v.home >= 0 && heard[0] != v.home {
		x.t.Errorf("visitor %d was answered by %d, and homes %v heard it", v.id, v.home, heard)
	}
}

func (x *chaos) checkPair(v *visit, s *side, rec *session.Record, whole, resets *atomic.Int64) {
	why := rec.Reason
	if v.got > s.sends || s.got > v.sends {
		x.t.Errorf("visitor %d: more was received than sent", v.id)
	}
	if (why == session.Idle || why == session.HalfClosed) && (v.orderly || v.resets && !s.patient) && (s.orderly || s.resets) {
		x.t.Errorf("visitor %d and home %d never pause, and ended for %s: %+v, %+v", v.id, v.home, why, v.side, *s)
	}
	switch {
	case v.orderly && s.orderly && (why == session.ClientClosed || why == session.GatewayClosed):
		whole.Add(1)
		if !v.eof || !s.eof || v.got != s.sends || s.got != v.sends {
			x.t.Errorf("visitor %d and home %d ended in order for %s, but got %d of %d and %d of %d: %+v, %+v",
				v.id, v.home, why, v.got, s.sends, s.got, v.sends, v.side, *s)
		}
	case v.orderly && s.orderly && (why == session.ClientReset || why == session.GatewayReset || why == session.Internal):
		x.t.Errorf("visitor %d and home %d meant to end in order, and ended for %s: %+v, %+v", v.id, v.home, why, v.side, *s)
	case v.orderly && s.resets && why != session.GatewayDown:
		resets.Add(1)
		if _, unix := x.homes[v.home].ln.(*net.UnixListener); !unix && !v.reset {
			x.t.Errorf("home %d reset visitor %d, which ended for %s and saw none: %+v", v.home, v.id, why, v.side)
		}
	case v.resets && s.orderly && why != session.GatewayDown:
		resets.Add(1)
		if _, unix := x.homes[v.home].ln.(*net.UnixListener); !unix && !s.reset && !(s.eof && why != session.ClientReset) {
			x.t.Errorf("visitor %d reset, which ended for %s, and home %d saw none: %+v", v.id, why, v.home, *s)
		}
	}
}
