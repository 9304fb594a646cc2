//go:build linux

package loop

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// buffers keeps byte slices by size class, so that a connection makes no
// garbage. It belongs to one loop.
type buffers struct {
	class [8][][]byte // 1 KiB .. 128 KiB
}

const (
	smallest = 10 // log2
	kept     = 64 // per class
)

// get returns an empty slice with room for n bytes.
func (b *buffers) get(n int) []byte {
	c := max(bits.Len(uint(max(n, 1)-1)), smallest) - smallest
	if c >= len(b.class) {
		return make([]byte, 0, n)
	}
	if k := len(b.class[c]); k > 0 {
		buf := b.class[c][k-1]
		b.class[c] = b.class[c][:k-1]
		return buf
	}
	return make([]byte, 0, 1<<(c+smallest))
}

// put takes back a slice from get. A slice whose start was cut off is left to
// the garbage collector.
func (b *buffers) put(buf []byte) {
	n := cap(buf)
	c := bits.Len(uint(n)) - 1 - smallest
	if n == 0 || n&(n-1) != 0 || c < 0 || c >= len(b.class) || len(b.class[c]) >= kept>>c {
		return
	}
	b.class[c] = append(b.class[c], buf[:0])
}

// pipe is a kernel pipe for splicing.
type pipe struct {
	r, w int32
	size int
}

func (p *pipe) close() {
	closeFD(p.r)
	closeFD(p.w)
}

// pipes keeps a few empty pipes. It belongs to one loop.
type pipes struct {
	idle []*pipe
}

const (
	bigPipe   = 1 << 20
	pipeSize  = 256 << 10
	leastPipe = 64 << 10 // below it copying is cheaper
	idlePipes = 16
)

// get returns an empty pipe, or nil where the kernel gives none of a useful
// size: an unprivileged user's pipes shrink to 8 KiB after the first
// fs.pipe-user-pages-soft pages (pipe(7)).
func (p *pipes) get() *pipe {
	if n := len(p.idle); n > 0 {
		last := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return last
	}
	var fd [2]int
	if unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	made := &pipe{int32(fd[0]), int32(fd[1]), grow(fd[0])}
	if made.size < leastPipe {
		made.close()
		return nil
	}
	return made
}

func grow(fd int) int {
	for _, size := range []int{bigPipe, pipeSize} {
		if n, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
			return n
		}
	}
	n, _ := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	return n
}

// put takes an empty pipe back.
func (p *pipes) put(e *pipe) {
	if len(p.idle) < idlePipes {
		p.idle = append(p.idle, e)
		return
	}
	e.close()
}

func (p *pipes) close() {
	for _, e := range p.idle {
		e.close()
	}
	p.idle = nil
}
