package freeport_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/freeport"
)

// TestGet: ports are not the kernel's to give, nobody else's, and none comes twice.
func TestGet(t *testing.T) {
	lowest := 32_768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		lowest, _ = strconv.Atoi(strings.Fields(string(text))[0])
	}
	had := map[int]bool{}
	for range 50 {
		port := freeport.Get(t)
		if had[port] || port >= lowest {
			t.Errorf("port %d: had before: %t; clients get those from %d", port, had[port], lowest)
		}
		had[port] = true
		if port%3 != 0 {
			continue
		}
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
	}
}
