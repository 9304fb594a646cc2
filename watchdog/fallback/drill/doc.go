// Package drill rehearses an outage and its handback, in seven phases, and reports how
// long each took. It decides nothing: package control does, in the drill as in an
// outage.
//
// A rehearsal, the default, touches nothing real. Both homes agree to it, and run a
// second control each, with leases of its own, real witnesses, the real cluster and the
// real connection between the homes; but its services are stand-ins that only sleep,
// and so is its DNS updater. The home that is to be gone is cut off from all that in its
// own process, for a time: what it serves goes on.
//
// A real drill cuts the home off from the others with nftables, so that its services
// move and come back. It wants a maintenance window at both homes, and a typed
// confirmation. What cuts it off ends by itself, whatever becomes of the process.
//
//	d, err := drill.New(drill.Config{ID: "cellar", Homes: homes, Store: store, Real: control, Dial: dial, ...})
//	server.Stream(drill.Stream, d.Serve)
//	report, err := d.Run(ctx, drill.Options{Home: "attic"})
//	fmt.Print(report.Text())
package drill
