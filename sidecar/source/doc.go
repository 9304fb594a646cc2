// Package source finds out which gateway is well: by the relay's own health engine,
// running here, or by following the snapshot of a relay that runs elsewhere.
//
//	own := source.NewOwn(source.OwnOptions{Log: log, Offer: follower.Offer})
//	own.Apply(config)
//	defer own.Close()
//
// What is found is a [Picture]. A source that cannot say any more offers nil: unknown,
// which is not the same as down and changes nothing.
package source
