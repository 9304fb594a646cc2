package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
)

// Commit replaces before by after and keeps the events, in one transaction, and
// returns the events with their IDs. What the API does not own is left out of it.
// A gateway that is gone takes its token, its pairing codes and its LAN address
// along, and a new one inherits none from a gateway of the file that had its name.
//
// The error wraps ErrStale, and nothing was changed, if the database does not hold
// before. Neither catalog may be changed afterwards.
func (s *Store) Commit(ctx context.Context, before, after *catalog.Catalog, events []event.Event) ([]event.Event, error) {
	var kept []event.Event
	err := s.writeThen(ctx, "committing to", func(c *sqlite.Conn) (err error) {
		if err := s.refresh(c); err != nil {
			return err
		}
		if !compare(s.held, before).none() {
			return ErrStale
		}
		if err := apply(c, before, after); err != nil {
			return err
		}
		kept, err = s.insertEvents(c, events)
		return err
	}, func() { s.held = after })
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// refresh looks whether somebody else has written to the file, who had the lock of
// SQLite but not ours: a person with a tool, or a process that sees another lock
// file. If so, what we know is no longer what the database holds.
func (s *Store) refresh(c *sqlite.Conn) error {
	version, err := number(c, "PRAGMA data_version")
	if err != nil || s.held != nil && version == s.version {
		return err
	}
	held, err := load(c)
	if err != nil {
		return err
	}
	s.held, s.version = held, version
	return nil
}

// apply writes what changed. All that is replaced is removed first, so that two
// routes can swap their ports.
func apply(c *sqlite.Conn, before, after *catalog.Catalog) error {
	d := compare(before, after)
	for _, step := range []struct {
		table string
		difference
	}{{"gateway", d.gateways}, {"pool", d.pools}, {"route", d.routes}} {
		if err := remove(c, step.table, step.difference); err != nil {
			return err
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(d.gateways.put), func(name string) bool {
		old, was := before.Gateways[name]
		return was && ownGateway(old)
	})
	for _, name := range slices.Concat(d.gateways.gone, fresh) {
		if err := forget(c, name); err != nil {
			return err
		}
	}
	if err := put(c, "gateway", d.gateways.put, after.Gateways, putGateway); err != nil {
		return err
	}
	if err := put(c, "pool", d.pools.put, after.Pools, putPool); err != nil {
		return err
	}
	return put(c, "route", d.routes.put, after.Routes, putRoute)
}

func remove(c *sqlite.Conn, table string, d difference) error {
	for _, names := range [][]string{d.gone, d.put} {
		for _, name := range names {
			if err := run(c, "DELETE FROM "+table+" WHERE name = ?", name); err != nil {
				return fmt.Errorf("removing %s %s: %w", table, name, err)
			}
		}
	}
	return nil
}

// forget removes what lets a gateway in: one made later by the same name is another.
func forget(c *sqlite.Conn, gateway string) error {
	for _, table := range []string{"gateway_token", "pairing_code", "lan"} {
		if err := run(c, "DELETE FROM "+table+" WHERE gateway = ?", gateway); err != nil {
			return fmt.Errorf("removing gateway %s from %s: %w", gateway, table, err)
		}
	}
	return nil
}

func put[T any](c *sqlite.Conn, what string, names []string, all map[string]T, one func(*sqlite.Conn, string, T) error) error {
	for _, name := range names {
		if err := one(c, name, all[name]); err != nil {
			return fmt.Errorf("writing %s %s: %w", what, name, err)
		}
	}
	return nil
}

// putGateway, as putPool and putRoute, is told the name that the thing has in its
// catalog: it must be its own.
func putGateway(c *sqlite.Conn, name string, g catalog.Gateway) error {
	if g.Name != name {
		return fmt.Errorf("it calls itself %q", g.Name)
	}
	check, err := object(g.Check, formOfCheck)
	if err != nil {
		return err
	}
	return run(c, "INSERT INTO gateway (name, revision, dial, proxy_protocol, http_port, active_check) VALUES (?, ?, ?, ?, ?, ?)",
		g.Name, g.Revision, g.Dial, g.ProxyProtocol, g.HTTPPort, check)
}

func putPool(c *sqlite.Conn, name string, p catalog.Pool) error {
	if p.Name != name {
		return fmt.Errorf("it calls itself %q", p.Name)
	}
	outage, err := object(p.Outage, formOfOutage)
	if err != nil {
		return err
	}
	err = run(c, "INSERT INTO pool ("+poolColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		p.Name, p.Revision, p.Policy.String(), p.Failback, p.Disabled, int64(p.SlowStart), p.OnDown.String(),
		int64(p.DialTimeout), int64(p.Hedge), int64(p.FirstByte), int64(p.TotalTimeout), int64(p.Idle), int64(p.Linger), outage,
		int64(p.ReturnAfter))
	if err != nil {
		return err
	}
	for i, m := range p.Members {
		err := run(c, "INSERT INTO member (pool, priority, gateway, weight) VALUES (?, ?, ?, ?)", p.Name, i+1, m.Gateway, m.Weight)
		if err != nil {
			return fmt.Errorf("member %d: %w", i+1, err)
		}
	}
	return nil
}

func putRoute(c *sqlite.Conn, name string, r catalog.Route) error {
	if r.Name != name {
		return fmt.Errorf("it calls itself %q", r.Name)
	}
	if r.NoName {
		return fmt.Errorf("no_name: only a route of the file takes visitors without a server name")
	}
	t := cmp.Or(r.Target, &catalog.Target{})
	var host, port any
	if r.Target != nil {
		host, port = t.Host, t.Port
	}
	err := run(c, "INSERT INTO route ("+routeColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.Name, r.Revision, r.Kind.String(), r.Port, r.Listener, orNull(r.Gateway), orNull(r.Pool), r.Disabled,
		host, port, t.TLS, t.Insecure, t.ProxyProtocol)
	if err != nil {
		return err
	}
	for i, h := range r.Hosts {
		err := run(c, "INSERT INTO host (route, position, kind, host) VALUES (?, ?, ?, ?)", r.Name, i+1, r.Kind.String(), h)
		if err != nil {
			return fmt.Errorf("host %d: %w", i+1, err)
		}
	}
	return nil
}

// orNull tells "none" from a name.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// object is the JSON of an optional value's form, NULL if there is none.
func object[T, F any](v *T, form func(*T) F) (any, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(form(v))
	return string(b), err
}
