package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// itemWord begins the arguments of a program that is to be a service.
const itemWord = "stage-service"

// envHome is where a home has its files. Of its environment services get that only.
const envHome = "HOME"

// Main is a service if the arguments say so, and then does not return.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != itemWord {
		return
	}
	dir := os.Getenv(envHome)
	i := item{name: os.Args[2], home: filepath.Base(dir), dir: filepath.Dir(dir)}
	if err := i.serve(os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// script is what edge_fallback calls, in the directory of a home. A service runs for as
// long as its lock is held. It is a script because it is called so often that this
// program would be too slow.
const script = `#!/bin/sh
case $1 in
start) test ! -e "broken/$2" && exec setsid -f flock -w 5 "run/$2" "$0" serve "$2" "$3" </dev/null >/dev/null 2>&1 ;;
serve) echo $$ >"run/$2" && exec "$SELF" "$WORD" "$2" "$3" ;;
stop) kill "$(cat "run/$2")"; exec flock -w 10 "run/$2" true ;;
look) exec flock -s -n -E 0 "run/$2" sh -c "exit 3" ;;
esac
`

// writeScript makes the script.
func writeScript(file, self string) error {
	text := strings.NewReplacer("$SELF", self, "$WORD", itemWord).Replace(script)
	return os.WriteFile(file, []byte(text), 0o700)
}

// item is a service at a home. It writes a line into its data now and then, and tells
// visitors how far it is.
type item struct{ name, home, dir string }

func (i item) lock() string { return filepath.Join(i.dir, i.home, "run", i.name) }
func (i item) data() string { return dataFile(i.dir, i.home, i.name) }

// knob reports whether a test wants a service to misbehave at its home.
func (i item) knob(what string) bool {
	_, err := os.Stat(filepath.Join(i.dir, i.home, what, i.name))
	return err == nil
}

// runs reports whether it runs at its home: then somebody has its lock.
func (i item) runs() bool {
	f, err := os.Open(i.lock())
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// serve is the service itself, at a port.
func (i item) serve(port string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if i.knob("hung") {
		ctx = context.Background()
	}
	// No two homes may have this one.
	alone, err := hold(filepath.Join(i.dir, "running", i.name))
	if err != nil {
		return i.accuse()
	}
	defer alone.Close()
	seq := new(atomic.Int64)
	ln, err := i.listen(ctx, port)
	if err != nil {
		return err
	}
	defer ln.Close()
	go func() { _ = http.Serve(ln, i.page(seq)) }()
	return i.write(ctx, seq)
}

// listen waits for the port: of the one before a connection may still be closing.
func (i item) listen(ctx context.Context, port string) (net.Listener, error) {
	host, err := os.ReadFile(filepath.Join(i.dir, i.home, addrFile))
	if err != nil {
		return nil, err
	}
	for {
		ln, err := net.Listen("tcp", net.JoinHostPort(string(host), port))
		if err == nil {
			return ln, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// page tells visitors who serves, and how far the data is.
func (i item) page(seq *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, "%s %d\n", i.home, seq.Load())
	})
}

// hold takes a lock for as long as this process lives.
func hold(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// accuse writes down that the service runs at another home, too.
func (i item) accuse() error {
	f, err := os.OpenFile(faultFile(i.dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s was started at %s while it ran at another home\n", i.name, i.home)
	return errors.Join(err, f.Close())
}

// write adds a line to the data every now and then: the number after the last one.
func (i item) write(ctx context.Context, seq *atomic.Int64) error {
	if err := os.MkdirAll(filepath.Dir(i.data()), 0o700); err != nil {
		return err
	}
	last, err := lastLine(i.data())
	if err != nil {
		return err
	}
	seq.Store(last)
	f, err := os.OpenFile(i.data(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		// A full disk is no reason for a service to end.
		if _, err := fmt.Fprintln(f, seq.Load()+1, i.home); err == nil {
			seq.Add(1)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// addrFile says where a home is in the world's network.
const addrFile = "addr"

func dataFile(dir, home, name string) string { return filepath.Join(dir, home, "data", name, "log") }
func faultFile(dir string) string            { return filepath.Join(dir, "faults") }

// lastLine is the number in the last line of a service's data.
func lastLine(file string) (int64, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer f.Close()
	last := int64(0)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return last, nil // half a line was not written
		} else if err != nil {
			return last, err
		}
		number, _, _ := strings.Cut(line, " ")
		if last, err = strconv.ParseInt(number, 10, 64); err != nil {
			return last, fmt.Errorf("%s: %w", file, err)
		}
	}
}
