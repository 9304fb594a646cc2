package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// busyWait is how long to wait for a lock of SQLite. Within this process nobody
// waits for one; another can only be a person with a tool.
const busyWait = 5 * time.Second

// openWriter opens the connection that writes, once it has seen that the file keeps
// the rules of its schema: SQLite does not read them where it may only read.
// FULL: what Commit has returned from survives a power cut.
func openWriter(path string) (*sqlite.Conn, error) {
	c, err := openConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	err = sound(c, path)
	if err == nil {
		err = writeAhead(c)
	}
	if err == nil {
		err = pragmas(c, "synchronous = full", "journal_size_limit = 16777216", "temp_store = memory")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func writeAhead(c *sqlite.Conn) error {
	mode, err := text(c, "PRAGMA journal_mode = wal")
	if err == nil && mode != "wal" {
		err = fmt.Errorf("its file system does not allow a write-ahead log (journal mode is %q)", mode)
	}
	return err
}

func openReader(path string) (*sqlite.Conn, error) {
	return openConn(path, sqlite.OpenReadOnly)
}

// openConn distrusts the file: it may have been made to do harm.
func openConn(path string, flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(busyWait)
	err = c.SetDefensive(true)
	if err == nil {
		err = pragmas(c, "trusted_schema = off", "cell_size_check = on", "mmap_size = 0")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func pragmas(c *sqlite.Conn, list ...string) error {
	for _, p := range list {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			return fmt.Errorf("setting %s: %w", p, err)
		}
	}
	return nil
}

// checkpoint moves the log into the file, so that the file alone is whole.
func checkpoint(c *sqlite.Conn) error { return pragmas(c, "wal_checkpoint(truncate)") }

// engine is had by one goroutine of the process at a time. SQLite may be used by
// several, each with a connection of its own; this translation of it may not: with
// databases opened and closed beside it, a writer was told that what it wrote broke
// rules that it did not break. Nothing here takes long.
var engine = make(chan struct{}, 1)

func holdEngine() (release func()) {
	engine <- struct{}{}
	return func() { <-engine }
}

// conns hands out connections. Who takes one is alone with it.
type conns struct {
	free chan *sqlite.Conn
	n    int // how many there are; does not change once the store is open
}

func newConns(limit int) *conns { return &conns{free: make(chan *sqlite.Conn, limit)} }

func (p *conns) add(c *sqlite.Conn) {
	p.n++
	p.free <- c
}

// take waits for a connection that ends its work when ctx does.
func (p *conns) take(ctx context.Context, closed <-chan struct{}) (*sqlite.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-closed:
		return nil, errClosed
	default:
	}
	var c *sqlite.Conn
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-closed:
		return nil, errClosed
	}
	select {
	case engine <- struct{}{}:
		c.SetInterrupt(ctx.Done())
		return c, nil
	case <-ctx.Done():
		p.free <- c
		return nil, context.Cause(ctx)
	}
}

func (p *conns) give(c *sqlite.Conn) {
	c.SetInterrupt(nil)
	<-engine
	p.free <- c
}

// close waits for each connection to come back, and closes it after last.
func (p *conns) close(last func(*sqlite.Conn) error) error {
	var errs []error
	for range p.n {
		errs = append(errs, closeConn(<-p.free, last))
	}
	return errors.Join(errs...)
}

func closeConn(c *sqlite.Conn, last func(*sqlite.Conn) error) (err error) {
	defer holdEngine()()
	if last != nil {
		err = last(c)
	}
	return errors.Join(err, c.Close())
}

// write runs f in a transaction that is there whole, and on disk, when write
// returns nil, and not at all when it returns an error.
func (s *Store) write(ctx context.Context, doing string, f func(*sqlite.Conn) error) error {
	return s.writeThen(ctx, doing, f, func() {})
}

// writeThen is write that calls done after success, before anybody else writes.
func (s *Store) writeThen(ctx context.Context, doing string, f func(*sqlite.Conn) error, done func()) error {
	c, err := s.writer.take(ctx, s.closed)
	if err != nil {
		return wrap(ctx, doing, s.path, err)
	}
	defer s.writer.give(c)
	if err := immediate(ctx, c, func() error { return f(c) }); err != nil {
		return wrap(ctx, doing, s.path, err)
	}
	done()
	return nil
}

// read runs f on one state of the database, whatever is written meanwhile.
func (s *Store) read(ctx context.Context, doing string, f func(*sqlite.Conn) error) error {
	c, err := s.readers.take(ctx, s.closed)
	if err != nil {
		return wrap(ctx, doing, s.path, err)
	}
	defer s.readers.give(c)
	defer rollback(c)
	err = run(c, "BEGIN")
	if err == nil {
		err = f(c)
	}
	return wrap(ctx, doing, s.path, err)
}

// immediate takes SQLite's lock for writing first. From f's return on, ctx no
// longer counts: whether it was done must not depend on who looks away when.
func immediate(ctx context.Context, c *sqlite.Conn, f func() error) error {
	if err := begin(ctx, c); err != nil {
		return err
	}
	defer rollback(c)
	if err := f(); err != nil {
		return err
	}
	c.SetInterrupt(nil)
	return run(c, "COMMIT")
}

// begin waits for the lock, for a while, and only as long as ctx allows.
func begin(ctx context.Context, c *sqlite.Conn) error {
	wait, cancel := context.WithTimeoutCause(ctx, busyWait, ErrLocked)
	defer cancel()
	c.SetBlockOnBusy()
	c.SetInterrupt(wait.Done())
	err := run(c, "BEGIN IMMEDIATE")
	c.SetInterrupt(ctx.Done())
	if err != nil && wait.Err() != nil {
		return context.Cause(wait)
	}
	return err
}

// rollback undoes what a commit has not ended.
func rollback(c *sqlite.Conn) {
	if c.AutocommitEnabled() {
		return
	}
	c.SetInterrupt(nil)
	// It has no way to fail but to be over already.
	_ = run(c, "ROLLBACK")
}

// run executes one statement that returns nothing.
func run(c *sqlite.Conn, sql string, args ...any) error { return each(c, sql, nil, args...) }

// each executes one statement and calls f for each of its rows.
func each(c *sqlite.Conn, sql string, f func(*sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: f})
}

// text returns the last row's first column.
func text(c *sqlite.Conn, sql string) (s string, err error) {
	err = each(c, sql, func(row *sqlite.Stmt) error { s = row.ColumnText(0); return nil })
	return s, err
}

// number is text for an integer.
func number(c *sqlite.Conn, sql string) (n int64, err error) {
	err = each(c, sql, func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil })
	return n, err
}
