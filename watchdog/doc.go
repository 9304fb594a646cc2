// Package watchdog keeps the DNS records of sites on the path that works.
//
// For each site it probes every path that visitors can take, from here, and tells
// what it saw to the pure core in package decide. What that decides is kept on
// disk by package journal, written through package cloudflare as package records
// plans it, and read back. People are told through package notify.
//
//	w, err := watchdog.New(config)
//	if err != nil {
//		return err
//	}
//	if err := w.Start(); err != nil {
//		return err // errors.Is(err, journal.ErrLocked): another one is running
//	}
//	defer w.Stop()
//
// One goroutine owns each site's state; probes and writes run beside it, each with
// a deadline, and report back. One goroutine serves each zone, so that however many
// sites move in one moment, it is one read, one batch and one read-back.
//
// It does not import Caddy: caddymodule/watchdog gives it a config, an admin API
// and commands.
package watchdog
