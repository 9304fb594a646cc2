package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// programs are what this one can be besides a test, given the path of a database.
var programs = map[string]func(path string) error{"writer": writerMain}

// TestMain lets this program be the processes that the tests start and kill.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && programs[os.Args[1]] != nil {
		os.Exit(exit(programs[os.Args[1]](os.Args[2])))
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func open(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fresh opens a new database.
func fresh(t testing.TB) (s *store.Store, path string) {
	path = filepath.Join(t.TempDir(), "edge.db")
	return open(t, path, store.Options{}), path
}

func load(t testing.TB, s *store.Store) *catalog.Catalog {
	t.Helper()
	c, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func commit(t testing.TB, s *store.Store, before, after *catalog.Catalog, events ...event.Event) []event.Event {
	t.Helper()
	kept, err := s.Commit(context.Background(), before, after, events)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// diff compares what is in two catalogs; nil and empty are the same.
func diff(want, got *catalog.Catalog) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// empty is a catalog with nothing in it.
func empty() *catalog.Catalog { return build() }

// build makes a catalog of gateways, pools and routes, all of revision 1 if they
// say nothing else.
func build(things ...any) *catalog.Catalog {
	c := &catalog.Catalog{Gateways: map[string]catalog.Gateway{}, Pools: map[string]catalog.Pool{}, Routes: map[string]catalog.Route{}}
	for _, thing := range things {
		switch v := thing.(type) {
		case catalog.Gateway:
			v.Revision = max(v.Revision, 1)
			c.Gateways[v.Name] = v
		case catalog.Pool:
			v.Revision = max(v.Revision, 1)
			c.Pools[v.Name] = v
		case catalog.Route:
			v.Revision = max(v.Revision, 1)
			c.Routes[v.Name] = v
		}
	}
	return c
}

func nuc() catalog.Gateway { return catalog.Gateway{Name: "nuc", Dial: "10.8.0.8:443"} }
func nas() catalog.Gateway { return catalog.Gateway{Name: "nas", Dial: "10.8.0.2:443"} }

func home() catalog.Pool {
	return catalog.Pool{Name: "home", Members: []pool.Member{{Gateway: "nuc"}, {Gateway: "nas", Weight: 3}}}
}

func site() catalog.Route {
	return catalog.Route{Name: "site", Hosts: []string{"example.com", "*.example.com"}, Pool: "home"}
}

func game() catalog.Route {
	return catalog.Route{Name: "game", Kind: catalog.TCP, Port: 25565, Gateway: "nuc", Target: &catalog.Target{Host: "127.0.0.1", Port: 25565}}
}

// small has one of everything.
func small() *catalog.Catalog { return build(nuc(), nas(), home(), site(), game()) }

// noon is recent: old events are not kept.
var noon = time.Now().Add(-12 * time.Hour).Round(0).UTC()

// raw opens the file beside the store, as a person with a tool does.
func raw(t testing.TB, path string) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	must(t, c, "PRAGMA foreign_keys = on")
	return c
}

func must(t testing.TB, c *sqlite.Conn, sql string) {
	t.Helper()
	if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
		t.Fatal(sql, err)
	}
}

func query(t testing.TB, c *sqlite.Conn, sql string, n *int) {
	t.Helper()
	err := sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error { *n = row.ColumnInt(0); return nil }})
	if err != nil {
		t.Fatal(sql, err)
	}
}
