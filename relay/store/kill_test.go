package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/edgeward/edgeward/internal/norace"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// few events, so that some are pruned in each commit.
var crashOptions = store.Options{MaxEvents: 50}

// state is the n-th catalog of a writer. Each differs from the one before in much:
// what is there, in which order, on which port.
func state(n uint64) *catalog.Catalog {
	if n == 0 {
		return empty()
	}
	random := rand.New(rand.NewPCG(n, 0))
	things := []any{catalog.Gateway{Name: "counter", Revision: n, Dial: fmt.Sprint("10.0.0.1:", n)}}
	for i := range 4 {
		p := catalog.Pool{Name: fmt.Sprint("p", i), Revision: n}
		for _, j := range random.Perm(8)[:random.IntN(9)] {
			p.Members = append(p.Members, pool.Member{Gateway: fmt.Sprint("g", j), Weight: int(n % 256)})
		}
		things = append(things, p)
	}
	for _, i := range random.Perm(40)[:20] {
		r := catalog.Route{Name: fmt.Sprint("r", i), Revision: n, Pool: fmt.Sprint("p", i%4), Kind: catalog.Kind(i % 4)}
		if r.Kind == catalog.TCP || r.Kind == catalog.UDP {
			r.Port = 1000 + (i+int(n))%40
		} else {
			r.Hosts = slices.Repeat([]string{fmt.Sprint(n, ".example.com")}, 1)
		}
		things = append(things, r)
	}
	return build(things...)
}

// stateOf tells which state a catalog is.
func stateOf(c *catalog.Catalog) uint64 { return c.Gateways["counter"].Revision }

// writerMain commits one state after the other, and says so for each when it is
// done, until it is killed.
func writerMain(path string) error {
	s, err := store.Open(path, crashOptions)
	if err != nil {
		return err
	}
	before, err := s.Load(context.Background())
	if err != nil {
		return err
	}
	for n := stateOf(before) + 1; ; n++ {
		after := state(n)
		did := []event.Event{
			{At: time.Now(), Kind: event.Restored, Reason: strconv.FormatUint(n, 10), Routes: []string{"r1", "r2"}},
			{At: time.Now(), Kind: event.PoolUpdated, Reason: strconv.FormatUint(n, 10), Pool: "p1"},
		}
		if _, err := s.Commit(context.Background(), before, after, did); err != nil {
			return err
		}
		fmt.Println(n)
		before = after
		if n%20 == 0 {
			if err := s.Backup(context.Background(), path+".backup"); err != nil {
				return err
			}
		}
	}
}

// TestKill kills a writer a hundred times, at any moment: while it opens, writes,
// syncs, moves the log into the file, copies. The database then holds what the
// writer last said it had done, or the one after that, and nothing in between.
func TestKill(t *testing.T) {
	if norace.Rerun(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "edge.db")
	kills, unsaid := 100, 0
	if testing.Short() {
		kills = 10
	}
	last := uint64(0)
	for range kills {
		said := writeAndKill(t, path, last)
		last = survived(t, path, said)
		if last > said {
			unsaid++
		}
	}
	t.Logf("%d commits, %d of them done and not yet said when the kill came", last, unsaid)
}

// writeAndKill returns what the writer said last.
func writeAndKill(t *testing.T, path string, last uint64) uint64 {
	t.Helper()
	var complaint bytes.Buffer
	cmd := exec.Command(os.Args[0], "writer", path)
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range rand.IntN(12) {
		if !lines.Scan() {
			break
		}
		last = parse(t, lines.Text())
	}
	// Anywhere in the next few commits, or before the first.
	kill := time.AfterFunc(rand.N(10*time.Millisecond), func() { cmd.Process.Kill() })
	defer kill.Stop()
	for lines.Scan() {
		last = parse(t, lines.Text())
	}
	if err := cmd.Wait(); complaint.Len() > 0 {
		t.Fatalf("the writer said: %s (%v)", &complaint, err)
	}
	return last
}

// parse reads a line; a kill does not cut one, as it is written at once.
func parse(t *testing.T, line string) uint64 {
	n, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// survived checks the database after a kill and returns the state that it holds.
func survived(t *testing.T, path string, said uint64) uint64 {
	t.Helper()
	s, err := store.Open(path, crashOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := stateOf(got)
	if n != said && n != said+1 {
		t.Fatalf("the database holds state %d; the writer had said %d", n, said)
	}
	if d := diff(state(n), got); d != "" {
		t.Fatal("a mixture (-want +got):\n", d)
	}
	list, err := s.Events(t.Context(), store.EventQuery{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Reason != strconv.FormatUint(n, 10) || e.Kind == event.Restored && !slices.Equal(e.Routes, []string{"r1", "r2"}) {
			t.Fatalf("state %d has the event %+v", n, e)
		}
	}
	if n > 0 && len(list) != 2 {
		t.Fatalf("state %d has %d events", n, len(list))
	}
	intact(t, path)
	if _, err := os.Stat(path + ".backup"); err == nil {
		intact(t, path+".backup")
	}
	return n
}

// intact asks SQLite for all that it can check.
func intact(t *testing.T, path string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, pragma := range []string{"integrity_check", "foreign_key_check"} {
		err := sqlitex.ExecuteTransient(c, "PRAGMA "+pragma, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
			if s := row.ColumnText(0); s != "ok" {
				return errors.New(s)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(pragma, err)
		}
	}
}
