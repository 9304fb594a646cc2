// Package store keeps in one SQLite file what the admin API was told: gateways,
// pools and routes, the tokens and pairing codes of gateways and people, where
// agents are in their network, and what happened.
//
// What the Caddyfile declares is not kept here, and neither is who serves what:
// the one is read anew at each start, the other is derived.
//
// One process has the file, and within it one writer at a time; any number read
// beside it. A Commit is one transaction: after a kill or a power cut at any
// moment the file holds the catalog and its events from before or from after, and
// when Commit has returned, from after. The schema refuses what must not be, like
// a route with a pin and a pool, whoever writes it.
//
//	s, err := store.Open("/var/lib/edgeward/edge.db", store.Options{})
//	if err != nil {
//		return err // ErrLocked, ErrCorrupt, ErrNewer: the file is as it was
//	}
//	defer s.Close()
//	before, err := s.Load(ctx)
//	after, did, err := before.CreatePool(p)
//	did, err = s.Commit(ctx, before, after, did)
//	if errors.Is(err, store.ErrStale) {
//		// somebody else wrote: Load and edit again
//	}
//
// A file cannot be opened twice, not even by one process: whoever reloads its
// configuration must hand the Store on.
package store
