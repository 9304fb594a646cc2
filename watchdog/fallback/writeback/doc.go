// Package writeback carries data home after a cover: from the home that ran an item
// to the one that gets it back, by the real rsync, over a stream that somebody else
// has opened and proven. Both sides must be stopped; who may ask is said by [Server].
//
//	w, err := writeback.New(writeback.Config{ID: "attic", Dial: dial, RSH: []string{self, "fallback", "rsh"}})
//	if err != nil {
//		return err
//	}
//	carried, err := w.Carry(ctx, carry, func(p control.Progress) { ... })
//
//	s, err := writeback.NewServer(writeback.ServerConfig{ID: "cellar", Homes: homes, Allow: allow})
//	...
//	err = s.Serve(ctx, from, conn) // for each stream that another home opens
//
// Before anything is changed a dry run says what would be, and [control.Carried] what
// was. What is newer at the other home is never overwritten, what is replaced is kept
// outside of the data, and what is only there stays there. Files take their places
// together at the end, so that what breaks off leaves the old ones, and goes on from
// where it was when it is asked again. docs/fallback-data.md has the rules.
//
// No path, no pattern and no name ever travels as an argument: the other side runs
// rsync in the directory that its own config names, with arguments that it has made.
// It works on Linux only.
package writeback
