//go:build linux

package firewall_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// counters differ as soon as a packet has passed.
var counters = regexp.MustCompile(`packets \d+ bytes \d+|\[\d+:\d+\]`)

// network is two machines in namespaces of their own, with a cable between them
// and no way out. This one is 192.0.2.1 and 2001:db8::1, the peer has ::2 and ::3.
type network struct {
	t    *testing.T
	work chan func()
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	namespace(t)
	n := &network{t, make(chan func())}
	ready := make(chan int)
	go n.serve(ready)
	t.Cleanup(func() { close(n.work) })
	tid := <-ready
	if tid == 0 {
		t.Fatal("no second namespace")
	}
	do(t, "", "ip", "link", "set", "lo", "up")
	do(t, "", "ip", "link", "add", "fw0", "type", "veth", "peer", "name", "fw1", "netns", fmt.Sprint(tid))
	do(t, "", "ip", "address", "add", "192.0.2.1/24", "dev", "fw0")
	do(t, "", "ip", "address", "add", "2001:db8::1/64", "dev", "fw0", "nodad")
	do(t, "", "ip", "link", "set", "fw0", "up")
	n.peer(func() error {
		for _, last := range []string{"2", "3"} {
			do(t, "", "ip", "address", "add", "192.0.2."+last+"/24", "dev", "fw1")
			do(t, "", "ip", "address", "add", "2001:db8::"+last+"/64", "dev", "fw1", "nodad")
		}
		do(t, "", "ip", "link", "set", "fw1", "up")
		return nil
	})
	return n
}

// serve runs work in the peer's namespace. Its thread ends with it.
func (n *network) serve(ready chan<- int) {
	runtime.LockOSThread()
	if unix.Unshare(unix.CLONE_NEWNET) != nil {
		ready <- 0
		return
	}
	ready <- unix.Gettid()
	for f := range n.work {
		f()
	}
}

// peer runs f on the other machine.
func (n *network) peer(f func() error) error {
	result := make(chan error)
	n.work <- func() { result <- f() }
	return <-result
}

// listen accepts connections here, on both families.
func (n *network) listen(port string) {
	n.t.Helper()
	for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { l.Close() })
	}
}

// dial connects from an address of the peer. The kernel answers for a listener, so
// nobody needs to accept.
func (n *network) dial(from, to string, patience time.Duration) error {
	return n.peer(func() error {
		d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(n.t.Context(), "tcp", to)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// ping wants an answer of this machine to an echo request, in both families.
func (n *network) ping() {
	n.t.Helper()
	for _, family := range []struct {
		network, from, to string
		request           icmp.Type
		answer            icmp.Type
	}{
		{"ip4:icmp", "192.0.2.3", "192.0.2.1", ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply},
		{"ip6:ipv6-icmp", "2001:db8::3", "2001:db8::1", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply},
	} {
		err := n.peer(func() error {
			conn, err := icmp.ListenPacket(family.network, family.from)
			if err != nil {
				return err
			}
			defer conn.Close()
			request, err := (&icmp.Message{Type: family.request, Body: &icmp.Echo{ID: 7, Seq: 1, Data: []byte("edge")}}).Marshal(nil)
			if err != nil {
				return err
			}
			if _, err := conn.WriteTo(request, &net.IPAddr{IP: net.ParseIP(family.to)}); err != nil {
				return err
			}
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			for buf := make([]byte, 1500); ; {
				size, _, err := conn.ReadFrom(buf)
				if err != nil {
					return err
				}
				if m, err := icmp.ParseMessage(family.answer.Protocol(), buf[:size]); err == nil && m.Type == family.answer {
					return nil
				}
			}
		})
		if err != nil {
			n.t.Errorf("no answer of %s to a ping: %v", family.to, err)
		}
	}
}

// datagrams sends to each address, and wants to see it arrive here or not.
func (n *network) datagrams(want map[string]bool) {
	n.t.Helper()
	for address, open := range want {
		here, err := net.ListenPacket("udp", address)
		if err != nil {
			n.t.Fatal(err)
		}
		err = n.peer(func() error {
			conn, err := net.Dial("udp", address)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("edge"))
			return err
		})
		if err != nil {
			n.t.Error(err)
		}
		patience := 300 * time.Millisecond
		if open {
			patience = 5 * time.Second
		}
		_ = here.SetReadDeadline(time.Now().Add(patience))
		if _, _, err := here.ReadFrom(make([]byte, 10)); (err == nil) != open {
			n.t.Errorf("a datagram to %s: %v; want it to arrive: %v", address, err, open)
		}
		here.Close()
	}
}

// download connects to the peer, which sends without end and is sent nothing.
func (n *network) download() net.Conn {
	n.t.Helper()
	var l net.Listener
	if err := n.peer(func() (err error) { l, err = net.Listen("tcp", "192.0.2.2:9000"); return err }); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// Seldom enough that what came before the rules is acknowledged before them: an
		// acknowledgement behind them would show the connection to the kernel.
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := conn.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	}()
	conn, err := new(net.Dialer).DialContext(context.WithoutCancel(n.t.Context()), "tcp", "192.0.2.2:9000")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}
