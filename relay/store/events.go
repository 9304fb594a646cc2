package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/edgeward/edgeward/relay/event"
)

// EventQuery says which events to return. Zero means any.
type EventQuery struct {
	// After and Before bound the IDs; neither is itself part of it.
	After, Before        uint64
	Kinds                []event.Kind
	Gateway, Pool, Route string
	// Limit is how many at most. Default: 100; more than 10000 are never returned.
	Limit int
}

// The default and the bound of EventQuery.Limit.
const (
	defaultEvents = 100
	mostEvents    = 10_000
)

// AddEvents keeps events, all or none, and returns them with their IDs.
func (s *Store) AddEvents(ctx context.Context, events []event.Event) ([]event.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	var kept []event.Event
	err := s.write(ctx, "adding events to", func(c *sqlite.Conn) (err error) {
		kept, err = s.insertEvents(c, events)
		return err
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

func (s *Store) insertEvents(c *sqlite.Conn, events []event.Event) ([]event.Event, error) {
	events = slices.Clone(events)
	for i := range events {
		if err := insertEvent(c, &events[i]); err != nil {
			return nil, fmt.Errorf("writing event %q: %w", events[i].Kind, err)
		}
	}
	if len(events) == 0 {
		return nil, nil
	}
	return events, s.prune(c)
}

func insertEvent(c *sqlite.Conn, e *event.Event) error {
	at, err := nanoseconds(e.At)
	if err != nil {
		return err
	}
	err = run(c, "INSERT INTO event (at, kind, actor, gateway, pool, was, became, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		at, string(e.Kind), e.Actor, e.Gateway, e.Pool, e.From, e.To, e.Reason)
	if err != nil {
		return err
	}
	id := c.LastInsertRowID()
	for i, route := range e.Routes {
		if err := run(c, "INSERT INTO event_route (event, position, route) VALUES (?, ?, ?)", id, i+1, route); err != nil {
			return err
		}
	}
	e.ID = uint64(id)
	return nil
}

// prune removes the oldest events, by number and by age.
func (s *Store) prune(c *sqlite.Conn) error {
	if s.o.MaxEvents > 0 {
		const old = "DELETE FROM event WHERE id <= (SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?)"
		if err := run(c, old, s.o.MaxEvents); err != nil {
			return fmt.Errorf("removing old events: %w", err)
		}
	}
	if s.o.MaxEventAge > 0 {
		if err := run(c, "DELETE FROM event WHERE at < ?", time.Now().Add(-s.o.MaxEventAge).UnixNano()); err != nil {
			return fmt.Errorf("removing old events: %w", err)
		}
	}
	return nil
}

// Events returns the events that fit, oldest first. With After they are the first
// ones behind it, so that a reader who goes on from the last ID misses none;
// without, the newest.
func (s *Store) Events(ctx context.Context, q EventQuery) ([]event.Event, error) {
	sql, args := q.statement()
	var list []event.Event
	err := s.read(ctx, "reading events of", func(c *sqlite.Conn) error {
		err := each(c, sql, func(row *sqlite.Stmt) error { list = append(list, scanEvent(row)); return nil }, args...)
		if err != nil {
			return err
		}
		return addRoutes(c, list)
	})
	if err != nil {
		return nil, err
	}
	if q.After == 0 {
		slices.Reverse(list)
	}
	return list, nil
}

// statement writes the query. Whatever comes from outside is an argument.
func (q EventQuery) statement() (sql string, args []any) {
	where := []string{"TRUE"}
	and := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	order := "DESC"
	if q.After > 0 {
		order = "ASC"
		and("id > ?", min(q.After, math.MaxInt64))
	}
	if q.Before > 0 {
		and("id < ?", min(q.Before, math.MaxInt64))
	}
	if len(q.Kinds) > 0 {
		var values []any
		for _, k := range q.Kinds {
			values = append(values, string(k))
		}
		and("kind IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	if q.Gateway != "" {
		and("gateway = ?", q.Gateway)
	}
	if q.Pool != "" {
		and("pool = ?", q.Pool)
	}
	if q.Route != "" {
		and("id IN (SELECT event FROM event_route WHERE route = ?)", q.Route)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultEvents
	}
	args = append(args, min(limit, mostEvents))
	return "SELECT id, at, kind, actor, gateway, pool, was, became, reason FROM event WHERE " +
		strings.Join(where, " AND ") + " ORDER BY id " + order + " LIMIT ?", args
}

func scanEvent(row *sqlite.Stmt) event.Event {
	return event.Event{
		ID:      uint64(row.ColumnInt64(0)),
		At:      moment(row.ColumnInt64(1)),
		Kind:    event.Kind(row.ColumnText(2)),
		Actor:   row.ColumnText(3),
		Gateway: row.ColumnText(4),
		Pool:    row.ColumnText(5),
		From:    row.ColumnText(6),
		To:      row.ColumnText(7),
		Reason:  row.ColumnText(8),
	}
}

// addRoutes looks up the routes of each event.
func addRoutes(c *sqlite.Conn, list []event.Event) error {
	for i := range list {
		e := &list[i]
		err := each(c, "SELECT route FROM event_route WHERE event = ? ORDER BY position", func(row *sqlite.Stmt) error {
			e.Routes = append(e.Routes, row.ColumnText(0))
			return nil
		}, e.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// The first and last moment that nanoseconds since 1970 can say.
var earliest, latest = moment(math.MinInt64), moment(math.MaxInt64)

// nanoseconds is how times are kept. The zero time has none.
func nanoseconds(t time.Time) (int64, error) {
	switch {
	case t.IsZero():
		return 0, errors.New("it has no time")
	case t.Before(earliest) || t.After(latest):
		return 0, fmt.Errorf("its time, %s, is not within %d and %d", t, earliest.Year(), latest.Year())
	}
	return t.UnixNano(), nil
}

func moment(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
