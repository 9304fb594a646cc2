//go:build linux

package relay

import (
	"net"
	"testing"

	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// A listener that was bound and could not be served is not kept: its address is
// free again, and the next config that has it binds it anew.
func TestFailedStartKeepsNoListener(t *testing.T) {
	r, err := New(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(0)
	r.engines.loops.close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	c := &Config{
		Monitor: monitor.Config{
			Gateways: []monitor.Gateway{{Name: "nuc", Dial: "127.0.0.1:1", NoCheck: true}},
			Pools:    []session.PoolSettings{{Settings: pool.Settings{Name: "home", Members: []pool.Member{{Gateway: "nuc"}}}}},
		},
		Listeners: []Listener{{
			Key: "a", Name: "a", Bind: func() (Socket, error) { return BindTCP("tcp", address) },
			Routes: []Route{{Name: "r", Pool: "home", Names: []string{"example.com"}}},
		}},
	}
	if r.Start(c) == nil {
		t.Fatal("started although nobody can accept")
	}
	if len(r.listeners) != 0 {
		t.Errorf("%d listeners are kept", len(r.listeners))
	}
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is still held: %v", err)
	}
	again.Close()
}

// A connection that ends when the log has been closed loses its record and
// nothing else.
func TestRecordAfterTheEnd(t *testing.T) {
	var written int
	a := newAccessLog(func(session.Record) { written++ })
	a.Put(session.Record{Reason: session.ClientClosed})
	a.close()
	a.Put(session.Record{Reason: session.Stopped})
	if written != 1 {
		t.Errorf("%d records were written, want the one before the end", written)
	}
}
