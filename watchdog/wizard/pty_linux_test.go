package wizard_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: the wizard has tty, the test is the person there.
type terminal struct {
	t    *testing.T
	tty  *os.File
	keys *os.File
	done chan struct{} // closed when the screen shows nothing more

	mu     sync.Mutex // guards what follows
	screen bytes.Buffer
	seen   int           // what expect has found already
	more   chan struct{} // one slot: there is more
}

// patience is for a machine with much else to do.
const patience = 20 * time.Second

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	n, err := unlock(keys)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ttys.Store(tty, true)
	p := &terminal{t: t, tty: tty, keys: keys, done: make(chan struct{}), more: make(chan struct{}, 1)}
	go p.watch()
	t.Cleanup(func() {
		_ = keys.Close()
		<-p.done
	})
	return p
}

// ttys stay open: the form's library looks at its terminal in goroutines that nobody
// waits for.
var ttys sync.Map

// unlock makes a new terminal usable, and returns its number. It leaves the file such
// that closing it ends a read.
func unlock(keys *os.File) (n int, err error) {
	conn, err := keys.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		n, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		failed = errors.Join(failed,
			unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0),
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	})
	return n, errors.Join(err, failed)
}

// watch reads the screen until the terminal is closed.
func (p *terminal) watch() {
	defer close(p.done)
	buf := make([]byte, 4096)
	for {
		n, err := p.keys.Read(buf)
		p.mu.Lock()
		p.screen.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// escapes move the cursor and choose colours.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\))|\r`)

// plain is all that was ever shown.
func (p *terminal) plain() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return escapes.ReplaceAllString(p.screen.String(), "")
}

// expect waits until the screen shows a text, behind what was expected before.
func (p *terminal) expect(text string) {
	p.t.Helper()
	timeout := time.After(patience)
	for {
		shown := p.plain()
		if at := strings.Index(shown[min(p.seen, len(shown)):], text); at >= 0 {
			p.seen += at + len(text)
			return
		}
		select {
		case <-p.more:
		case <-timeout:
			p.t.Fatalf("%q does not appear in\n%s", text, shown[min(p.seen, len(shown)):])
		}
	}
}

// enter types a line.
func (p *terminal) enter(text string) { p.press(text + "\r") }

func (p *terminal) press(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// echoes reports whether the terminal shows what is typed, line by line, as before.
func (p *terminal) echoes() bool {
	p.t.Helper()
	state, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0
}
