// Package stage is a small world in which homes cover each other: homes that run
// edge-watchdog, a relay that runs edge-relay, a fake Cloudflare, witnesses, visitors,
// and services that are processes. Tests play outages on it, and so does the demo.
//
//	func main() { stage.Main(); ... } // first: services are this program once more
//
//	w, err := stage.New(ctx, stage.Config{Dir: dir, Bin: bin, Homes: []string{"attic", "cellar"}})
//	defer w.Close()
//	err = w.Start(ctx)          // until each home serves itself
//	w.Home("attic").PowerOff()  // as a cut of the power does
//	faults := w.Faults()        // what no home may ever do, seen from outside
//
// Everything is on addresses of its own: in 127.0.0.0/8, or where Config.Net says.
package stage
