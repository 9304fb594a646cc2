// Package lease says who may act: at most one home holds a key at any time, with an
// epoch that only grows, under any partition, skew of clocks and pause. The holder
// stops acting by itself before its time is over.
//
// A Store is where homes agree: etcdstore for several machines, Single for one. A
// Keeper takes a key, renews it, and says in time that it is being lost. What it goes
// by is a Holder, which is pure: times go in, and what may be done comes out.
//
//	k, err := lease.NewKeeper(lease.KeeperConfig{Store: store, Key: "fallback/nas", Holder: "nuc", Log: log})
//	if err != nil {
//		return err
//	}
//	defer k.Close()
//	grant, err := k.Acquire(ctx) // errors.Is(err, lease.ErrHeld): somebody else has it
//	for range k.Changed() {
//		switch k.Now().State {
//		case lease.Losing: // stop what only the holder may run: it is over at Now().End
//		case lease.Free: // it is
//		}
//	}
//
// The epoch goes with everything that is written elsewhere, so that what arrives late
// can be refused there: a lease alone cannot call back what is under way.
package lease
