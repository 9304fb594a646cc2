// Package freeport finds ports for tests that close a port and open it again, or
// leave it closed for a while.
//
// A port that the kernel gave is not good for that: it gives it again, as the local
// port of somebody's connection, and then it cannot be listened on. Those from here
// lie below what the kernel gives to clients.
package freeport

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Test processes that run beside each other begin at different places.
const (
	lowest  = 10_000
	highest = 32_000
	each    = 22
)

var next atomic.Int32

// Get returns a port on which nobody listens, over TCP or UDP, on any address. It
// returns no port twice.
func Get(t testing.TB) int {
	t.Helper()
	const ports = highest - lowest
	first := os.Getpid() % (ports / each) * each
	for range 1000 {
		port := lowest + (first+int(next.Add(1)))%ports
		if isFree(port) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Addr returns host and a port as Get does.
func Addr(t testing.TB, host string) string {
	t.Helper()
	return net.JoinHostPort(host, strconv.Itoa(Get(t)))
}

func isFree(port int) bool {
	address := ":" + strconv.Itoa(port)
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer ln.Close()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
