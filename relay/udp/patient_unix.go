//go:build unix

package udp

import (
	"net"
	"syscall"
)

// receive waits for a datagram of a gateway and calls take with it. Of a socket
// it waits without a buffer: a flow spends most of its life waiting, and the
// largest datagram needs 64 KiB.
func receive(conn net.Conn, take func([]byte)) error {
	socket, ok := conn.(*net.UDPConn)
	if !ok {
		return receiveInto(conn, take)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		d := newDatagram(largest)
		defer d.free()
		n, err := syscall.Read(int(fd), d.data)
		for err == syscall.EINTR {
			n, err = syscall.Read(int(fd), d.data)
		}
		switch err {
		case syscall.EAGAIN:
			return false
		case nil:
			take(d.data[:n])
		default:
			failed = &net.OpError{Op: "read", Net: "udp", Err: err}
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}
