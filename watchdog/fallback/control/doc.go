// Package control does what package fallback decides. One goroutine for each home owns
// its state; looks and effects run beside it under deadlines and report back as events.
// What it must not forget is on disk before anything is done in the world.
//
//	c, err := control.New(control.Config{ID: "attic", Homes: homes, ...})
//	if err != nil {
//		return err
//	}
//	if err := c.Start(ctx); err != nil {
//		return err // errors.Is(err, journal.ErrLocked): another one runs
//	}
//	defer c.Stop()
//
// A Control is the [Service] that other homes ask. Stop leaves the services as they are
// and ends only the DNS updates: a process that starts again on the same machine within
// the time of a lease takes it anew and goes on. One that does not is covered, so a
// machine is never to be left running without it.
package control
