//go:build !unix

package udp

import "net"

// receive waits for a datagram of a gateway and calls take with it.
func receive(conn net.Conn, take func([]byte)) error { return receiveInto(conn, take) }
