//go:build linux

package loop

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/session"
)

// The calls below never block, so they go through RawSyscall: the scheduler
// need not be told, which is a tenth of the cost of a connection. The longest is
// a splice of a full pipe, a fraction of a millisecond. Only epoll_wait uses
// Syscall, or the garbage collector would wait for it.

type errno = syscall.Errno

const (
	again      = syscall.EAGAIN
	interrupts = syscall.EINTR
)

// accept takes one connection off the queue of a listening socket.
func accept(fd int32) (int32, netip.AddrPort, errno) {
	var sa unix.RawSockaddrAny
	size := uint32(unsafe.Sizeof(sa))
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&sa)),
			uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if e == interrupts {
			continue
		}
		if e != 0 {
			return -1, netip.AddrPort{}, e
		}
		return int32(r), addrPort(&sa), 0
	}
}

// addrPort reads the family, port and address of a kernel socket address
// (ip(7), ipv6(7)). It is invalid for a unix socket.
func addrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), bigEndian(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), bigEndian(in.Port))
	}
	return netip.AddrPort{}
}

func bigEndian(port uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(b[0])<<8 | uint16(b[1])
}

// recv reads what is there; n is 0 at the end of the stream.
func recv(fd int32, b []byte) (n int, e errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
		if e == 0 {
			return int(r), 0
		}
		if e != interrupts {
			return 0, e
		}
	}
}

// unread returns how many bytes wait to be read (tcp(7), SIOCINQ).
func unread(fd int32) int {
	var n int32
	syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// send writes what the socket takes. MSG_NOSIGNAL: a peer that is gone is an
// error, not a signal.
func send(fd int32, b []byte) (n int, e errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		if e == 0 {
			return int(r), 0
		}
		if e != interrupts {
			return 0, e
		}
	}
}

// splice moves up to n bytes between a socket and a pipe (splice(2)).
func splice(from, to int32, n int) (int, errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if e == 0 {
			return int(r), 0
		}
		if e != interrupts {
			return 0, e
		}
	}
}

func closeFD(fd int32) { syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func shutdownWrite(fd int32) {
	syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
}

// reset makes the close that follows a reset (socket(7), SO_LINGER with 0).
func reset(fd int32) {
	linger := unix.Linger{Onoff: 1}
	syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0)
}

func setInt(fd int32, level, name, value int) {
	v := int32(value)
	syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
}

// socketError reads and clears the pending error of a socket.
func socketError(fd int32) errno {
	var v int32
	size := uint32(unsafe.Sizeof(v))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ERROR, uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return e
	}
	return errno(v)
}

func localAddr(fd int32) netip.AddrPort {
	var sa unix.RawSockaddrAny
	size := uint32(unsafe.Sizeof(sa))
	if _, _, e := syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size))); e != 0 {
		return netip.AddrPort{}
	}
	return addrPort(&sa)
}

func epollAdd(ep, fd int32, events uint32, slot int32, tag int32) errno {
	return epollCtl(ep, unix.EPOLL_CTL_ADD, fd, events, slot, tag)
}

func epollCtl(ep int32, op int, fd int32, events uint32, slot int32, tag int32) errno {
	ev := unix.EpollEvent{Events: events, Fd: slot, Pad: tag}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// epollWait blocks for at most ms milliseconds, or without limit below 0. It
// tells the scheduler: a loop that waits in RawSyscall would hold up every
// garbage collection.
func epollWait(ep int32, events []unix.EpollEvent, ms int) int {
	r, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(ms), 0, 0)
	if e != 0 {
		return 0
	}
	return int(r)
}

func socket(family int) (int32, errno) {
	r, _, e := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return int32(r), e
}

func connectTo(fd int32, a *session.Address) errno {
	var sa unix.RawSockaddrAny
	size := sockaddr(&sa, a)
	for {
		_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), size)
		if e != interrupts {
			return e
		}
	}
}

// sockaddr writes a as the kernel has it (ip(7), ipv6(7), unix(7)) and returns
// its size.
func sockaddr(sa *unix.RawSockaddrAny, a *session.Address) uintptr {
	addr, port := a.Addr.Addr(), a.Addr.Port()
	switch {
	case a.Path != "":
		un := (*unix.RawSockaddrUnix)(unsafe.Pointer(sa))
		un.Family = unix.AF_UNIX
		for i := range min(len(a.Path), len(un.Path)-1) {
			un.Path[i] = int8(a.Path[i])
		}
		return unsafe.Sizeof(*un)
	case addr.Is4():
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		in.Family, in.Addr, in.Port = unix.AF_INET, addr.As4(), bigEndian(port)
		return unsafe.Sizeof(*in)
	default:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		in.Family, in.Addr, in.Port = unix.AF_INET6, addr.As16(), bigEndian(port)
		return unsafe.Sizeof(*in)
	}
}
