package stream_test

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

func TestProxyHeaders(t *testing.T) {
	for version := byte(1); version <= 2; version++ {
		synctest.Test(t, func(t *testing.T) {
			src, dst := netip.MustParseAddrPort("198.51.100.7:4711"), netip.MustParseAddrPort("203.0.113.1:443")
			far := make(chan net.Conn, 1)
			r := newRig(t, setup{proxy: version, rules: session.Rules{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}, held(far))
			c, conn := net.Pipe()
			defer c.Close()
			go r.Welcome(addressed{conn, "10.1.2.3:1"}, r.ln)
			head := clientHello("example.com")
			opening := string(proxyproto.Append(nil, 2, src, dst)) + string(head)
			for i := range len(opening) { // in the smallest pieces
				mustWrite(t, c, opening[i:i+1])
			}
			home := <-far
			mustRead(t, home, string(proxyproto.Append(nil, version, src, dst))+string(head))
			if top := r.ln.Limits.Top(1); len(top) != 1 || !top[0].Prefix.Contains(src.Addr()) {
				t.Errorf("limits count %v", top)
			}
			home.Close()
			if rec := r.ended(session.Outage); rec.Source != src {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// addressed is a connection from somewhere.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{limits: limit.Settings{Total: 10}}, piped(echo))
		other := session.NewGateway("other", r)
		open := func() net.Conn {
			c, head := r.welcome(), clientHello("example.com")
			mustWrite(t, c, head)
			mustRead(t, c, string(head))
			return c
		}
		a := open()
		if list := r.Connections(9); len(list) != 1 || list[0].Gateway != "g0" || list[0].Reason != session.None {
			t.Errorf("connections %+v", list)
		}
		r.CloseGateway(other, "", session.Disabled)
		r.CloseGateway(r.gateways[0], "elsewhere", session.Disabled)
		synctest.Wait()
		mustWrite(t, a, "still")
		mustRead(t, a, "still")
		r.CloseGateway(r.gateways[0], "home", session.GatewayDown)
		r.ended(session.GatewayDown)
		mustEnd(t, a)
		open()
		waiting := r.welcome() // has sent nothing
		r.Close()
		r.ended(session.Stopped)
		r.ended(session.Stopped)
		mustEnd(t, waiting)
		mustEnd(t, r.welcome())
		r.ended(session.Stopped)
	})
}
