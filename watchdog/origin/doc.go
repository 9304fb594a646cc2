// Package origin finds the public address of the home, which may change at any time,
// and says when it has.
//
// There are two ways. A [Finder] asks sources on the Internet which address we come
// from, and a [Follower] reads a DNS record that somebody else keeps, like the router;
// [FromRecord] does the same with records that the provider's API has shown. Each
// round gives an [Observation]. [Next] makes an address out of several rounds.
//
//	finder := &origin.Finder{Rules: origin.Rules{NotHome: relays}}
//	for range ticker.C {
//		state, changes = origin.Next(policy, state, time.Now(), finder.Look(ctx))
//		for _, c := range changes {
//			... // keep state, then write the records
//		}
//	}
//
// An address that is not known is just that: no error, timeout or empty answer makes
// an address go away, and no lack of one is a reason to write. Sources must agree:
// one that says something else, and be it the only one of many, leaves the address
// unknown, since behind a second uplink or a VPN each may see another one.
//
// IPv6 has no NAT as a rule. What is found is the address of this machine, then, and
// records should hold it only if it is this machine that visitors reach.
package origin
