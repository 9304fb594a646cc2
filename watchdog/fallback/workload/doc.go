// Package workload starts, stops and looks at what a home runs for visitors:
// containers, compose projects, systemd units and commands. It decides nothing and
// creates nothing: whatever it is told to start must be there already.
//
//	w, err := workload.New(workload.Config{Docker: &workload.Docker{}, Journal: j, Log: log})
//	err = w.Start(ctx, item)       // nil: it is well
//	err = w.Stop(ctx, item)        // nil: it is proven stopped, and stays so through a reboot
//	seen, err := w.Look(ctx, item) // unknown is not stopped
//	findings := w.Needs(ctx, item) // what a start would lack
//
// Stopped is what somebody who can know has said: a list of Docker's in which the
// container isn't, its state after the stop, systemd, the look command. No answer, half
// an answer and a strange answer are unknown.
//
// What a home may not run must not come back by itself. Stop takes the restart policy
// from a container and the enablement from a unit, and remembers them in the journal;
// Start puts them back.
package workload
