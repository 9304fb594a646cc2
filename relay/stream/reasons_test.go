package stream_test

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

// TestRefusals: every reason for which a connection reaches no gateway.
func TestRefusals(t *testing.T) {
	head := clientHello("example.com")
	bad := append([]byte(nil), head...)
	bad[9+34] = 33 // the session ID is too long
	trusted := session.Rules{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for _, tc := range []struct {
		name   string
		want   session.Reason
		setup  setup
		sends  string
		leaves bool
		hears  string
		before int // connections opened first
	}{
		{name: "not TLS", want: session.NotTLS, sends: "GET / HTTP/1.1\r\n"},
		{name: "no hello", want: session.NotHello, sends: "\x16\x03\x01\x00\x04\x02\x00\x00\x00"},
		{name: "bad hello", want: session.BadHello, sends: string(bad)},
		{name: "too large", want: session.HelloTooLarge, sends: string(head), setup: setup{rules: session.Rules{HelloBytes: 100}}},
		{name: "timeout", want: session.HelloTimeout, sends: string(head[:20])},
		{name: "timeout without a byte", want: session.HelloTimeout},
		{name: "aborted", want: session.HelloAborted, sends: string(head[:20]), leaves: true},
		{name: "no name", want: session.NoName, sends: string(clientHello(""))},
		{name: "unknown name", want: session.UnknownName, sends: string(clientHello("example.org"))},
		{
			name: "unknown name with alert", want: session.UnknownName, sends: string(clientHello("example.org")),
			setup: setup{rules: session.Rules{Unknown: session.SendAlert}}, hears: string(session.UnrecognizedName),
		},
		{name: "outage", want: session.Outage, sends: string(head)},
		{name: "no PROXY header", want: session.BadProxyHeader, sends: string(head), setup: setup{rules: trusted}},
		{name: "slow PROXY header", want: session.HelloTimeout, sends: "PROXY", setup: setup{rules: trusted}},
		{
			name: "denied behind a proxy", want: session.Denied, sends: "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
			setup: setup{rules: trusted, limits: limit.Settings{Deny: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		},
		{name: "denied", want: session.Denied, setup: setup{limits: limit.Settings{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}},
		{name: "per source", want: session.SourceConns, before: 1, setup: setup{limits: limit.Settings{PerSource: 1}}},
		{name: "rate", want: session.SourceRate, before: 1, setup: setup{limits: limit.Settings{Rate: 1, Burst: 1}}},
		{name: "total", want: session.TotalConns, before: 1, setup: setup{limits: limit.Settings{Total: 1}}},
		{name: "total rate", want: session.TotalRate, before: 1, setup: setup{limits: limit.Settings{TotalRate: 1, TotalBurst: 1}}},
		{name: "fault", want: session.Internal, sends: string(head), setup: setup{rules: session.Rules{LogEvery: 99}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.setup, refusing)
				if tc.want == session.Internal {
					r.ln.SetRules(&session.Rules{NoName: &session.Route{}}) // has no name table
				}
				come := func() net.Conn {
					c, conn := net.Pipe()
					t.Cleanup(func() { c.Close() })
					go r.Welcome(addressed{conn, "192.0.2.1:1"}, r.ln)
					return c
				}
				for range tc.before {
					come()
					synctest.Wait()
				}
				c := come()
				if tc.sends != "" {
					_, _ = io.WriteString(c, tc.sends)
				}
				if tc.leaves {
					c.Close()
				} else if got, err := io.ReadAll(c); err != nil || string(got) != tc.hears {
					t.Errorf("heard %q, %v", got, err)
				}
				r.ended(tc.want)
				if n := r.ln.Ended[tc.want].Load(); n != 1 {
					t.Errorf("counted %d times", n)
				}
			})
		})
	}
}

// TestPlain: a route by port reads no hello, and a server may speak first.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{}, refusing, piped(func(c net.Conn) {
			_, _ = io.WriteString(c, "220 hello\r\n")
			echo(c)
		}))
		r.ln.SetRules(&session.Rules{Plain: r.route})
		c := r.welcome()
		mustRead(t, c, "220 hello\r\n")
		mustWrite(t, c, "QUIT\r\n")
		mustRead(t, c, "QUIT\r\n")
		c.Close()
		if rec := r.ended(session.ClientClosed); rec.Gateway != "g1" || rec.BytesUp != 6 || rec.BytesDown != 17 {
			t.Errorf("record %+v", rec)
		}
	})
}
