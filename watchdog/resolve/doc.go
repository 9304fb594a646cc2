// Package resolve looks names up by DNS over HTTPS (RFC 8484), at resolvers whose
// addresses are given: no other lookup is ever made, so that neither a broken
// resolver of the system nor a proxy of the environment has a say.
//
// It tells an answer, also one that says there is no such name, from no answer. A
// Set asks several resolvers at the same time, so that one that is down, or that
// lies, is seen to be.
//
// It asks recursive resolvers, which may say what was true until a minute ago. To
// see whether a change has arrived, ask the name servers of the zone.
//
//	found, err := new(resolve.Set).Lookup(ctx, "edge-health.example.com", resolve.IPv4)
//	if resolve.Answered(err) {
//		// there is no such name, or it has no such address
//	}
package resolve
