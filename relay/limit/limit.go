// Package limit decides right after accept, before any memory is spent on a
// connection, whether it may stay: by how many connections its source has open,
// how fast the source opens them, and the same for all sources together.
//
//	table, err := limit.New(limit.Settings{PerSource: 100, Rate: 30, Total: 2048})
//	...
//	lease, reason := table.Acquire(source, now)
//	if reason != limit.OK {
//		return // refused; nothing to give back
//	}
//	defer lease.Release()
//
// A source is an address, or the prefix it lies in. IPv4-mapped IPv6 addresses
// count as IPv4; zones do not matter.
//
// Memory is bounded: the table remembers Settings.Table sources, those with
// open connections first. A new source takes the place of the one that has been
// without a connection for longest. If all have open connections the new one is
// admitted under the total limits only and counted as untracked; with
// Total <= Table that cannot happen to a valid address.
//
// It reads no clock, logs nothing and closes nothing: the caller passes the time
// and acts on the answer.
package limit

// Reason says why a connection was refused. It is stable: logs and metrics use it.
type Reason string

// The reasons. The settings to change are in brackets.
const (
	OK          Reason = ""             // not refused
	SourceConns Reason = "source_conns" // the source has its share open [per_source]
	SourceRate  Reason = "source_rate"  // the source opens connections too fast [rate, burst]
	TotalConns  Reason = "total_conns"  // all sources together have the limit open [total]
	TotalRate   Reason = "total_rate"   // all sources together open connections too fast [total_rate, total_burst]
	Denied      Reason = "denied"       // the source is on the deny list [deny]
)

// reasons gives every refusal its place in a counter array.
var reasons = [...]Reason{SourceConns, SourceRate, TotalConns, TotalRate, Denied}

// The same places, by name.
const (
	iSourceConns = iota
	iSourceRate
	iTotalConns
	iTotalRate
	iDenied
)

// Lease is the right to one connection. The zero value holds nothing. Copies
// stand for the same connection: release one of them. A lease itself is not for
// concurrent use.
type Lease struct {
	table *Table
	entry int32 // of the source, 0 when it is not remembered
	asked bool  // a source was added, even if it is not remembered
}

// Release gives back what was taken. Later calls on the same value do nothing.
func (l *Lease) Release() {
	if l.table == nil {
		return
	}
	l.table.release(l.entry)
	*l = Lease{}
}
