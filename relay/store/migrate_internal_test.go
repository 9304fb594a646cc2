package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
)

// fixtures are rows that each version of the schema could hold, in its own words.
// One that was released stays as it is.
var fixtures = []string{
	`INSERT INTO gateway VALUES ('nuc', 2, '10.8.0.8:443', 'v2', 0, '{"kind":"tls","server_name":"health.example.com","interval":2000000000}');
	INSERT INTO pool VALUES ('home', 1, 'round_robin', 'nas', 0, -1, 'close', 0, 0, 0, 0, 3000000000, 0, '{"status":503,"body":"soon"}', -1);
	INSERT INTO member VALUES ('home', 1, 'nuc', 0), ('home', 2, 'nas', 7);
	INSERT INTO route VALUES ('site', 4, 'tls', 0, ':443', NULL, 'home', 0, NULL, NULL, 0, 0, '');
	INSERT INTO route VALUES ('game', 1, 'udp', 19132, '', 'nuc', NULL, 1, '::1', 19132, 0, 0, 'v1');
	INSERT INTO host VALUES ('site', 1, 'tls', 'example.com'), ('site', 2, 'tls', '*.example.com');`,
	`INSERT INTO event VALUES (7, 1700000000000000000, 'pool_created', 'ann', '', 'home', '', '', '');
	INSERT INTO event_route VALUES (7, 1, 'site');`,
	`INSERT INTO gateway_token VALUES ('nuc', zeroblob(32));
	INSERT INTO lan VALUES ('nuc', '192.168.1.10');`,
}

var fixture = &catalog.Catalog{
	Gateways: map[string]catalog.Gateway{"nuc": {
		Name: "nuc", Revision: 2, Dial: "10.8.0.8:443", ProxyProtocol: "v2",
		Check: &catalog.Check{Kind: "tls", ServerName: "health.example.com", Interval: 2e9},
	}},
	Pools: map[string]catalog.Pool{"home": {
		Name: "home", Revision: 1, Policy: pool.RoundRobin, Failback: "nas", SlowStart: -1, OnDown: pool.Close, ReturnAfter: -1, Idle: 3e9,
		Members: []pool.Member{{Gateway: "nuc"}, {Gateway: "nas", Weight: 7}},
		Outage:  &catalog.Outage{Status: 503, Body: "soon"},
	}},
	Routes: map[string]catalog.Route{
		"site": {Name: "site", Revision: 4, Listener: ":443", Pool: "home", Hosts: []string{"example.com", "*.example.com"}},
		"game": {
			Name: "game", Revision: 1, Kind: catalog.UDP, Port: 19132, Gateway: "nuc", Disabled: true,
			Target: &catalog.Target{Host: "::1", Port: 19132, ProxyProtocol: "v1"},
		},
	},
}

// older makes a database as the given version left it.
func older(t *testing.T, version int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edge.db")
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := upgrade(c, 0, version); err != nil {
		t.Fatal(err)
	}
	for _, rows := range fixtures[:version] {
		if err := sqlitex.ExecuteScript(c, rows, nil); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestMigrate: what any older version holds is there in the present one, can be
// changed, and a copy of the older file is kept.
func TestMigrate(t *testing.T) {
	if len(fixtures) != len(migrations) {
		t.Fatalf("there are %d migrations and fixtures for %d: add rows for the new one", len(migrations), len(fixtures))
	}
	for version := 1; version <= len(migrations); version++ {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) {
			path := older(t, version)
			s, err := Open(path, Options{MaxEventAge: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, err := s.Load(t.Context())
			if d := cmp.Diff(fixture, c); d != "" || err != nil {
				t.Fatal(err, "-want +got:\n", d)
			}
			list, err := s.Events(t.Context(), EventQuery{Route: "site"})
			if want := min(1, version/2); len(list) != want || err != nil {
				t.Errorf("got events %v %v, want %d", list, err, want)
			}
			if _, err := s.Commit(t.Context(), c, &catalog.Catalog{}, nil); err != nil {
				t.Error(err)
			}
			wantCopy(t, path, version)
		})
	}
}

func wantCopy(t *testing.T, path string, version int) {
	t.Helper()
	c, err := sqlite.OpenConn(fmt.Sprintf("%s.v%d", path, version), sqlite.OpenReadOnly)
	if version == len(migrations) {
		if err == nil {
			c.Close()
			t.Error("a copy was made though nothing was migrated")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := identify(c); got != version || err != nil {
		t.Errorf("the copy is of version %d, %v; want %d", got, err, version)
	}
	held, err := load(c)
	if d := cmp.Diff(fixture, held); d != "" || err != nil {
		t.Error(err, "-want +got:\n", d)
	}
}

// TestMigrateFails: a migration that cannot be done changes nothing, those before it
// included.
func TestMigrateFails(t *testing.T) {
	path := older(t, 1)
	good := migrations
	defer func() { migrations = good }()
	migrations = append(good[:2:2], "CREATE TABLE extra (n INTEGER) STRICT; INSERT INTO extra VALUES ('no number')")
	if s, err := Open(path, Options{}); err == nil {
		s.Close()
		t.Fatal("was opened")
	}
	for _, list := range [][]string{good[:1], good} {
		migrations = list
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := s.Load(t.Context()); err != nil || !cmp.Equal(c, fixture) {
			t.Error(err, cmp.Diff(fixture, c))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
