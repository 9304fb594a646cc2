package writeback_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

// rshCommand makes this program what rsync connects by.
const rshCommand = "rsh-for-rsync"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rshCommand {
		os.Exit(writeback.RSH(os.Args[2:], os.Stdin, os.Stdout))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // rsync sleeps more than it works
	goleak.VerifyTestMain(m)
}

// since is when the cover began in all tests.
var since = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// rig is two homes: attic covered an item of cellar, and gives it back.
type rig struct {
	t           testing.TB
	here, there string // the data
	data        fallback.Data
	server      writeback.ServerConfig
	client      writeback.Config
	carry       control.Carry

	mu       sync.Mutex
	streams  int
	reserved map[int]context.CancelFunc // streams that are served
	helloed  []writeback.Hello
	deny     error
	open     []net.Conn
	wg       sync.WaitGroup
	served   []error
	once     sync.Once
	only     *writeback.Server
}

func newRig(t testing.TB) *rig {
	t.Helper()
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Skip("there is no rsync: install it")
	}
	top := t.TempDir()
	r := &rig{t: t, here: filepath.Join(top, "attic", "da ta"), there: filepath.Join(top, "cellar", "data")}
	for _, dir := range []string{r.here, r.there} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.data = fallback.Data{Path: r.there, At: map[string]string{"attic": r.here}}
	r.server = writeback.ServerConfig{ID: "cellar", Allow: r.allow}
	r.client = writeback.Config{ID: "attic", Dial: r.dial, RSH: []string{"env", "GORACE=atexit_sleep_ms=0", self, rshCommand}} // the race detector waits a second at exit
	r.carry = control.Carry{Home: "cellar", Item: "app", To: "cellar", Since: since, Epoch: 7}
	return r
}

func (r *rig) allow(_ context.Context, from string, h writeback.Hello) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.helloed = append(r.helloed, h)
	if from != "attic" && from != "cellar" {
		return errors.New("who are you?")
	}
	return r.deny
}

// reserve is what keeps the item from being started.
func (r *rig) reserve(ctx context.Context, _ string, _ writeback.Hello) (context.Context, func(), error) {
	ctx, stop := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	n := r.streams
	if r.reserved == nil {
		r.reserved = map[int]context.CancelFunc{}
	}
	r.reserved[n] = stop
	return ctx, func() {
		stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.reserved, n)
	}, nil
}

func (r *rig) homes() []fallback.Home {
	return []fallback.Home{{ID: "cellar", Tiers: []fallback.Tier{{Number: 1, Items: []fallback.Item{{Name: "app", Data: []fallback.Data{r.data}}}}}}}
}

// newServer is cellar's end, by what the rig says now.
func (r *rig) newServer() *writeback.Server {
	r.t.Helper()
	r.server.Homes = r.homes()
	s, err := writeback.NewServer(r.server)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) writeback() *writeback.Writeback {
	r.t.Helper()
	r.carry.Data = r.data
	w, err := writeback.New(r.client)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// theServer takes all streams of the rig.
func (r *rig) theServer() *writeback.Server {
	r.once.Do(func() { r.only = r.newServer() })
	return r.only
}

// dial is a stream over TCP, so that it has a size, deadlines and two halves.
func (r *rig) dial(ctx context.Context, home string) (net.Conn, error) {
	if home != "cellar" {
		return nil, fmt.Errorf("there is no home %s", home)
	}
	near, far := pair(r.t)
	s := r.theServer()
	r.wg.Go(func() {
		err := s.Serve(context.WithoutCancel(ctx), "attic", far)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.served = append(r.served, err)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, near)
	return near, nil
}

func pair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// do carries, and waits until the other end has nothing left to do.
func (r *rig) do() (control.Carried, error) {
	r.t.Helper()
	done, err := r.writeback().Carry(r.t.Context(), r.carry, nil)
	r.wg.Wait()
	return done, err
}

func (r *rig) must() control.Carried {
	r.t.Helper()
	done, err := r.do()
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// file is what is at a name: text, at minutes from the beginning of the cover.
type file struct {
	text string
	at   int
}

// tree is what is below a directory: names that end with a slash are directories, and
// texts that begin with "-> " are links.
type tree map[string]file

func plant(t testing.TB, dir string, files tree) {
	t.Helper()
	for name, f := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
		} else if to, link := strings.CutPrefix(f.text, "-> "); link {
			must(t, os.Symlink(to, path))
		} else {
			must(t, os.WriteFile(path, []byte(f.text), 0o640))
			when := since.Add(time.Duration(f.at) * time.Minute)
			must(t, os.Chtimes(path, when, when))
		}
	}
}

// texts is what there is, without times; of directories only empty ones.
func texts(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if list, _ := os.ReadDir(path); len(list) == 0 && path != dir {
				found[name+"/"] = ""
			}
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			found[name] = "-> " + to
		default:
			b, err := os.ReadFile(path)
			must(t, err)
			found[name] = string(b)
		}
		return nil
	}))
	return found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cut breaks all streams that are open.
func (r *rig) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		_ = c.Close()
	}
}
