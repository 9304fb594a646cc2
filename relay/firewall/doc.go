// Package firewall closes a relay's machine to all but its visitors and its
// administrators, in a way that cannot lock the administrator out for long.
//
// The rules are one nftables table of our own, "inet edgeward": both families in
// one transaction, so they cannot disagree. Tables of others are never written;
// what would fight with ours is found by [Judge] before anything is changed.
//
// Before the first rule the way back is armed: a systemd timer, or a process
// of its own where systemd does not run. It acts unless the rules are confirmed
// over a new connection in time, whatever became of the session that applied them.
//
//	fw, err := firewall.New(firewall.Config{Self: []string{exe, "edge", "firewall", "rollback"}})
//	if err != nil {
//		return err
//	}
//	state, err := fw.Apply(ctx, rules, firewall.Options{Session: session})
//	// ... and from a second connection, before state.Deadline:
//	_, err = fw.Confirm(ctx, other)
//
// What is decided is pure: [Rules.Script] renders, [Judge] reads a [Snapshot]. What
// touches the machine goes through [System].
package firewall
