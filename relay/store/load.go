package store

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
)

// Load returns what the database holds. All of it is owned by the API; merge what
// the file declares into it.
func (s *Store) Load(ctx context.Context) (*catalog.Catalog, error) {
	var c *catalog.Catalog
	err := s.read(ctx, "loading the catalog from", func(conn *sqlite.Conn) (err error) {
		c, err = load(conn)
		return err
	})
	return c, err
}

func load(conn *sqlite.Conn) (*catalog.Catalog, error) {
	c := &catalog.Catalog{
		Gateways: map[string]catalog.Gateway{},
		Pools:    map[string]catalog.Pool{},
		Routes:   map[string]catalog.Route{},
	}
	for _, part := range []func(*sqlite.Conn, *catalog.Catalog) error{loadGateways, loadPools, loadRoutes} {
		if err := part(conn, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func loadGateways(conn *sqlite.Conn, c *catalog.Catalog) error {
	const query = "SELECT name, revision, dial, proxy_protocol, http_port, active_check FROM gateway"
	return each(conn, query, func(row *sqlite.Stmt) error {
		g := catalog.Gateway{
			Name:          row.ColumnText(0),
			Revision:      uint64(row.ColumnInt64(1)),
			Dial:          row.ColumnText(2),
			ProxyProtocol: row.ColumnText(3),
			HTTPPort:      row.ColumnInt(4),
		}
		if !row.ColumnIsNull(5) {
			var stored checkForm
			if err := json.Unmarshal([]byte(row.ColumnText(5)), &stored); err != nil {
				return fmt.Errorf("%w: reading the check of gateway %s: %w", errUnreadable, g.Name, err)
			}
			g.Check = stored.check()
		}
		c.Gateways[g.Name] = g
		return nil
	})
}

func loadPools(conn *sqlite.Conn, c *catalog.Catalog) error {
	members := map[string][]pool.Member{}
	err := each(conn, "SELECT pool, gateway, weight FROM member ORDER BY pool, priority", func(row *sqlite.Stmt) error {
		name := row.ColumnText(0)
		members[name] = append(members[name], pool.Member{Gateway: row.ColumnText(1), Weight: row.ColumnInt(2)})
		return nil
	})
	if err != nil {
		return err
	}
	return each(conn, "SELECT "+poolColumns+" FROM pool", func(row *sqlite.Stmt) error {
		p, err := scanPool(row)
		if err != nil {
			return fmt.Errorf("%w: reading pool %s: %w", errUnreadable, p.Name, err)
		}
		p.Members = append([]pool.Member{}, members[p.Name]...) // [] rather than null in JSON
		c.Pools[p.Name] = p
		return nil
	})
}

const poolColumns = `name, revision, policy, failback, disabled, slow_start, on_down,
	dial_timeout, hedge, first_byte, total_timeout, idle, linger, outage, return_after`

func scanPool(row *sqlite.Stmt) (catalog.Pool, error) {
	duration := func(column int) catalog.Duration { return catalog.Duration(row.ColumnInt64(column)) }
	p := catalog.Pool{
		Name:         row.ColumnText(0),
		Revision:     uint64(row.ColumnInt64(1)),
		Failback:     row.ColumnText(3),
		Disabled:     row.ColumnBool(4),
		SlowStart:    duration(5),
		DialTimeout:  duration(7),
		Hedge:        duration(8),
		FirstByte:    duration(9),
		TotalTimeout: duration(10),
		Idle:         duration(11),
		Linger:       duration(12),
		ReturnAfter:  duration(14),
	}
	if err := p.Policy.UnmarshalText([]byte(row.ColumnText(2))); err != nil {
		return p, err
	}
	if err := p.OnDown.UnmarshalText([]byte(row.ColumnText(6))); err != nil {
		return p, err
	}
	if row.ColumnIsNull(13) {
		return p, nil
	}
	var stored outageForm
	if err := json.Unmarshal([]byte(row.ColumnText(13)), &stored); err != nil {
		return p, err
	}
	p.Outage = stored.outage()
	return p, nil
}

func loadRoutes(conn *sqlite.Conn, c *catalog.Catalog) error {
	hosts := map[string][]string{}
	err := each(conn, "SELECT route, host FROM host ORDER BY route, position", func(row *sqlite.Stmt) error {
		name := row.ColumnText(0)
		hosts[name] = append(hosts[name], row.ColumnText(1))
		return nil
	})
	if err != nil {
		return err
	}
	return each(conn, "SELECT "+routeColumns+" FROM route", func(row *sqlite.Stmt) error {
		r, err := scanRoute(row)
		if err != nil {
			return fmt.Errorf("%w: reading route %s: %w", errUnreadable, r.Name, err)
		}
		r.Hosts = hosts[r.Name]
		c.Routes[r.Name] = r
		return nil
	})
}

const routeColumns = `name, revision, kind, port, listener, gateway, pool, disabled,
	target_host, target_port, target_tls, target_insecure, target_proxy_protocol`

func scanRoute(row *sqlite.Stmt) (catalog.Route, error) {
	r := catalog.Route{
		Name:     row.ColumnText(0),
		Revision: uint64(row.ColumnInt64(1)),
		Port:     row.ColumnInt(3),
		Listener: row.ColumnText(4),
		Gateway:  row.ColumnText(5), // NULL reads as empty
		Pool:     row.ColumnText(6),
		Disabled: row.ColumnBool(7),
	}
	if !row.ColumnIsNull(8) {
		r.Target = &catalog.Target{
			Host:          row.ColumnText(8),
			Port:          row.ColumnInt(9),
			TLS:           row.ColumnBool(10),
			Insecure:      row.ColumnBool(11),
			ProxyProtocol: row.ColumnText(12),
		}
	}
	return r, r.Kind.UnmarshalText([]byte(row.ColumnText(2)))
}
