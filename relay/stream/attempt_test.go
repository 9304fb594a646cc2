package stream_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/session"
)

// TestNextMember: whatever is wrong with the first member, the second answers,
// and one alone has served.
func TestNextMember(t *testing.T) {
	for _, tc := range []struct {
		name   string
		member dialer
		fault  attempt.Fault
		after  time.Duration
	}{
		{"refused", refusing, attempt.Refused, 0},
		{"unreachable", func(context.Context) (net.Conn, error) { return nil, syscall.EHOSTUNREACH }, attempt.Unreachable, 0},
		{"blackholed", blackhole, attempt.Slow, 250 * time.Millisecond},
		{"silent", piped(silent), attempt.Silent, time.Second},
		{"closing", piped(closing), attempt.None, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, setup{}, tc.member, piped(echo))
				began := time.Now()
				c := r.welcome()
				head := clientHello("example.com")
				mustWrite(t, c, head)
				mustRead(t, c, string(head))
				if took := time.Since(began); took != tc.after {
					t.Errorf("answered after %v, want %v", took, tc.after)
				}
				time.Sleep(2 * time.Second) // the orphan is judged
				c.Close()
				rec := r.ended(session.ClientClosed)
				if rec.Gateway != "g1" || rec.Dials != 2 || r.gateways[0].Served.Load() != 0 || r.gateways[1].Served.Load() != 1 {
					t.Errorf("record %+v", rec)
				}
				if tc.fault != attempt.None && r.faults(0, tc.fault) != 1 {
					t.Errorf("faults %v, want one of %v", &r.gateways[0].Faults, tc.fault)
				}
			})
		})
	}
}

func TestResetBeforeFirstByte(t *testing.T) {
	r := newRig(t, setup{}, loopback(t, resetting), loopback(t, func(c *net.TCPConn) { echo(c) }))
	c := r.welcomeTCP()
	head := clientHello("example.com")
	mustWrite(t, c, head)
	mustRead(t, c, string(head))
	c.CloseWrite()
	mustEnd(t, c)
	if rec := r.ended(session.ClientClosed); rec.Gateway != "g1" || r.faults(0, attempt.Reset) != 1 {
		t.Errorf("record %+v, faults %v", rec, &r.gateways[0].Faults)
	}
}

// TestOwnFault: what fails here is nobody's fault, and no second member is
// asked.
func TestOwnFault(t *testing.T) {
	for name, member := range map[string]dialer{
		"no descriptors": func(context.Context) (net.Conn, error) { return nil, syscall.EMFILE },
		"panic":          func(context.Context) (net.Conn, error) { panic("test") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, setup{}, member, piped(echo))
				mustWrite(t, r.welcome(), clientHello("example.com"))
				if rec := r.ended(session.Starved); rec.Dials != 1 || len(r.evidence()) != 0 {
					t.Errorf("record %+v, evidence %v", rec, r.evidence())
				}
			})
		})
	}
}

// TestSpoke: a visitor who says more has chosen the member that has the hello,
// even if that one is slow.
func TestSpoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := make(chan net.Conn, 1)
		r := newRig(t, setup{}, held(far), piped(echo))
		c, head := r.welcome(), clientHello("example.com")
		mustWrite(t, c, head)
		home := <-far
		mustRead(t, home, string(head))
		mustWrite(t, c, "more")
		mustRead(t, home, "more")
		time.Sleep(3 * time.Second)
		mustWrite(t, home, "late")
		mustRead(t, c, "late")
		home.Close()
		if rec := r.ended(session.GatewayClosed); rec.Gateway != "g0" || rec.Dials != 1 {
			t.Errorf("record %+v", rec)
		}
	})
}

// TestPinned: a head with more than the hello is sent once only.
func TestPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{}, piped(closing), piped(echo))
		mustWrite(t, r.welcome(), append(clientHello("example.com"), "early data"...))
		if rec := r.ended(session.Outage); rec.Dials != 1 {
			t.Errorf("record %+v", rec)
		}
	})
}

// TestOutage leaves the connection as it was: nothing read, nothing written.
func TestOutage(t *testing.T) {
	for _, tc := range []struct {
		name    string
		members []dialer
	}{
		{"no members", nil},
		{"refused", []dialer{refusing, refusing}},
		{"closed after the hello", []dialer{piped(closing), piped(closing)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, setup{}, tc.members...)
			c, conn := tcpPair(t)
			head := clientHello("example.com")
			want := string(head)
			out := r.Serve(conn, visitorOf(r, head))
			if out.Served || out.Reason != session.Outage || string(head) != want {
				t.Errorf("outcome %+v", out)
			}
			r.ended(session.Outage)
			if n := r.route.Pool.Outages.Load(); n != 1 {
				t.Errorf("%d outages", n)
			}
			mustWrite(t, c, "ping")
			mustRead(t, conn, "ping")
			mustWrite(t, conn, "pong")
			mustRead(t, c, "pong")
		})
	}
}

// TestOutageAfterMore: what a visitor has said to a member that broke cannot be
// handed on.
func TestOutageAfterMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan net.Conn, 1), make(chan error)
		r := newRig(t, setup{}, held(first), func(context.Context) (net.Conn, error) { return nil, <-second })
		c, conn := net.Pipe()
		defer c.Close()
		head := clientHello("example.com")
		done := make(chan session.Outcome, 1)
		go func() { done <- r.Serve(conn, visitorOf(r, head)) }()
		home := <-first
		mustRead(t, home, string(head))
		home.Close()
		synctest.Wait() // the second is dialled
		mustWrite(t, c, "more")
		second <- syscall.ECONNREFUSED
		if out := <-done; out.Served || out.Reason != session.GatewayClosed {
			t.Errorf("outcome %+v", out)
		}
		mustEnd(t, c)
	})
}

func TestHedge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration // the first member connects
		want  health.Value
	}{
		{"connects late", 600 * time.Millisecond, health.Good},
		{"never connects", time.Hour, health.Bad},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context) (net.Conn, error) {
					select {
					case <-time.After(tc.after):
						return piped(silent)(ctx)
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}
				r := newRig(t, setup{}, slow, piped(echo))
				c, head := r.welcome(), clientHello("example.com")
				mustWrite(t, c, head)
				mustRead(t, c, string(head))
				if n := r.gateways[0].Orphans.Load(); n != 1 {
					t.Errorf("%d orphans", n)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				seen := r.evidence()
				if last := seen[len(seen)-1]; last.Value != tc.want || last.Level != health.Connect {
					t.Errorf("evidence %+v", seen)
				}
				c.Close()
				r.ended(session.ClientClosed)
			})
		})
	}
}

func TestOrphansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{}, blackhole, piped(echo))
		head := clientHello("example.com")
		for range 80 {
			c := r.welcome()
			mustWrite(t, c, head)
			defer c.Close()
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if n := r.gateways[0].Orphans.Load(); n != 64 {
			t.Errorf("%d orphans", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := r.faults(0, attempt.Slow); n != 64 {
			t.Errorf("%d faults", n)
		}
	})
}

// TestSilentOnly: a slow member is better than none, until the idle timeout.
func TestSilentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{pool: session.PoolSettings{Idle: time.Minute}}, piped(silent))
		began := time.Now()
		mustWrite(t, r.welcome(), clientHello("example.com"))
		r.ended(session.Idle)
		if took := time.Since(began); took < time.Minute || took > 62*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestVisitorLeaves while a member has the hello.
func TestVisitorLeaves(t *testing.T) {
	far := make(chan *net.TCPConn, 1)
	r := newRig(t, setup{}, heldTCP(t, far))
	c, head := r.welcomeTCP(), clientHello("example.com")
	mustWrite(t, c, head)
	mustRead(t, <-far, string(head))
	c.SetLinger(0)
	c.Close()
	r.ended(session.ClientReset)
}
