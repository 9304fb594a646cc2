// Package session has what both engines of the relay know about one visitor's
// connection: the listener's rules, the route and pool it goes to, the gateway
// that serves it, what it carried and how it ended. It owns no socket.
//
// A Listener and a Gateway live as long as the process uses their name, through
// config reloads; Rules, Route and Pool belong to one config and are swapped
// whole through an atomic pointer. A connection keeps what it started with.
package session

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/names"
)

// Answer is what a visitor gets whose name no route has.
type Answer uint8

// The answers: an orderly close, or the TLS alert unrecognized_name (RFC 8446
// section 6, alert 112) and a close.
const (
	CloseQuietly Answer = iota
	SendAlert
)

// Route leads to a pool.
type Route struct {
	Name string
	// Pool is nil where nobody serves the route.
	Pool *Pool
	// Port is dialled in place of the gateways' own, unless it is zero.
	Port uint16
	// Behind says that another server, behind the gateway, answers: what goes
	// wrong once a gateway has accepted is then not its fault.
	Behind bool
	*RouteStats
}

// RouteStats is the live side of a route of some name: what it has carried, and
// which gateways cannot serve it. It outlives config reloads.
type RouteStats struct {
	Open atomic.Int64
	Traffic
	avoid atomic.Pointer[Avoid]
}

// Avoid is why gateways are passed over for one route while another one can
// serve it, by their names: such a gateway is well, but does not have the route
// yet, or cannot reach what is behind it.
type Avoid map[string]string

// SetAvoid changes it for new connections. The map belongs to the route then.
func (r *RouteStats) SetAvoid(a Avoid) {
	if len(a) == 0 {
		r.avoid.Store(nil)
		return
	}
	r.avoid.Store(&a)
}

// Avoiding returns what SetAvoid was given last, nil for nobody. It is another
// pointer after each change.
func (r *RouteStats) Avoiding() *Avoid { return r.avoid.Load() }

// Rules is how a listener treats a new connection.
type Rules struct {
	// Plain routes every connection without reading a ClientHello: a TCP route
	// by port. The fields about names are unused then.
	Plain *Route
	Names *names.Table[*Route]
	// NoName takes visitors without a server name; nil refuses them.
	NoName  *Route
	Unknown Answer
	// HelloBytes and HelloTime are the budget of a ClientHello. Defaults: 64
	// KiB, 5s.
	HelloBytes int
	HelloTime  time.Duration
	// TrustedProxies must open with a PROXY header, whose source then counts
	// as the visitor.
	TrustedProxies []netip.Prefix
	// Log says which ended connections Sink gets: none below 0, every one at
	// 0 and 1, else one in LogEvery.
	LogEvery int
	Routes   []*Route
}

// DefaultHelloTime is the time budget of a ClientHello.
const DefaultHelloTime = 5 * time.Second

// Trusts tells whether addr must open with a PROXY header.
func (r *Rules) Trusts(addr netip.Addr) bool {
	for _, p := range r.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// Route returns where a complete ClientHello goes, or why nowhere.
func (r *Rules) Route(info *hello.Info) (*Route, Reason) {
	if info.ServerName == "" {
		if r.NoName == nil {
			return nil, NoName
		}
		return r.NoName.open()
	}
	if route, _, ok := r.Names.Lookup(info.ServerName); ok {
		return route.open()
	}
	return nil, UnknownName
}

// open is the route, unless nobody serves it.
func (r *Route) open() (*Route, Reason) {
	if r.Pool == nil {
		return nil, Outage
	}
	return r, None
}

// Listener is the live side of one address: its rules, limits and counters.
type Listener struct {
	Name   string
	Limits *limit.Table
	rules  atomic.Pointer[Rules]
	sink   Sink
	logged atomic.Uint64

	Accepted      atomic.Uint64
	AcceptErrors  atomic.Uint64
	Open          atomic.Int64
	Ended         [reasons]atomic.Uint64
	ECH           atomic.Uint64
	HelloBytes    *Histogram
	HelloSegments *Histogram
	DialSeconds   *Histogram // from the ClientHello to the gateway's connection
}

// Sink takes the records of ended connections. Put must not block.
type Sink interface {
	Put(Record)
}

// NewListener returns a listener without rules; SetRules before use.
func NewListener(name string, limits *limit.Table, sink Sink) *Listener {
	return &Listener{
		Name: name, Limits: limits, sink: sink,
		HelloBytes:    NewHistogram(256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
		HelloSegments: NewHistogram(1, 2, 3, 5, 10, 100),
		DialSeconds:   NewHistogram(.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5),
	}
}

// Rules returns the rules for a new connection.
func (l *Listener) Rules() *Rules { return l.rules.Load() }

// SetRules changes the rules for new connections.
func (l *Listener) SetRules(r *Rules) { l.rules.Store(r) }

// Admit counts a new connection and takes it off the limits, or tells which one
// refuses it. It is called right after accept, before anything is read.
func (l *Listener) Admit(src netip.Addr, proxied bool, now int64) (limit.Lease, Reason) {
	l.Accepted.Add(1)
	var lease limit.Lease
	var why limit.Reason
	if proxied {
		lease, why = l.Limits.AcquireTotal(now)
	} else {
		lease, why = l.Limits.Acquire(src, now)
	}
	return lease, limitReasons[why]
}

// AdmitSource counts the real source of an admitted connection, once its PROXY
// header has told it.
func (l *Listener) AdmitSource(lease *limit.Lease, src netip.Addr, now int64) Reason {
	return limitReasons[l.Limits.AddSource(lease, src, now)]
}

// Refused counts a connection that limits outside this listener refused.
func (l *Listener) Refused(why limit.Reason) {
	l.Accepted.Add(1)
	l.Ended[limitReasons[why]].Add(1)
}

// NoteHello counts a complete ClientHello.
func (l *Listener) NoteHello(info *hello.Info) {
	l.HelloBytes.Observe(float64(info.Bytes))
	l.HelloSegments.Observe(float64(info.Segments))
	if info.ECH {
		l.ECH.Add(1)
	}
}

// HelloReason turns the parser's reason into ours.
func HelloReason(r hello.Reason) Reason {
	if why, ok := helloReasons[r]; ok {
		return why
	}
	return BadHello
}

var helloReasons = map[hello.Reason]Reason{
	hello.NotTLS:    NotTLS,
	hello.NotHello:  NotHello,
	hello.Malformed: BadHello,
	hello.TooLarge:  HelloTooLarge,
}

// UnrecognizedName is a TLS record with the fatal alert unrecognized_name (RFC
// 8446 sections 5.1 and 6: type 21, version 3.3, length 2, level 2, code 112).
var UnrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

var limitReasons = map[limit.Reason]Reason{
	limit.OK:          None,
	limit.Denied:      Denied,
	limit.SourceConns: SourceConns,
	limit.SourceRate:  SourceRate,
	limit.TotalConns:  TotalConns,
	limit.TotalRate:   TotalRate,
}

// Sample tells whether a record for an ended connection is wanted.
func (l *Listener) Sample(r *Rules, why Reason) bool {
	if l.sink == nil || r.LogEvery < 0 {
		return false
	}
	return r.LogEvery <= 1 || l.logged.Add(1)%uint64(r.LogEvery) == 0
}

// Record is one line of the access log.
type Record struct {
	Time     time.Time
	Listener string
	Source   netip.AddrPort
	// Name is the visitor's server name. It is under the visitor's control.
	Name    string
	Route   string
	Pool    string
	Gateway string
	Reason  Reason
	Detail  string
	// Dials is how many members were tried.
	Dials     int
	Hello     hello.Info
	Connected time.Duration // from accept to the gateway's connection
	FirstByte time.Duration // from accept to the gateway's first byte
	Duration  time.Duration
	BytesUp   uint64
	BytesDown uint64
}

// Put hands r to the sink.
func (l *Listener) Put(r Record) { l.sink.Put(r) }

var epoch = time.Now()

// Now is the engines' clock: monotonic nanoseconds since the process began.
func Now() int64 { return int64(time.Since(epoch)) }

// Time turns a reading of Now into wall-clock time.
func Time(now int64) time.Time { return epoch.Add(time.Duration(now)) }

// Visitor is a connection whose route is known, as an engine takes it over.
type Visitor struct {
	Source   netip.AddrPort
	Local    netip.AddrPort // where it connected to; told in a PROXY header
	Listener *Listener
	Rules    *Rules
	Route    *Route
	// Head is what has been read from it; the gateway gets it first.
	Head []byte
	// Lease is what limits hold for it. The engine releases it at the end of a
	// connection that was served; until then it is the caller's.
	Lease limit.Lease
	// Hello says what Head holds. With Bytes 0 it is no ClientHello: a member
	// serves as soon as it has connected, and the head is sent once only.
	Hello hello.Info
}

// Outcome tells what became of a visitor: a member serves it, or Reason says why
// none does.
type Outcome struct {
	Served bool
	Reason Reason
}
