// Package records says what the DNS records of a site are, and what to change
// so that they lead to another path. It is a pure core: it reads values and
// returns values. Who asks Cloudflare, and when, is decided elsewhere.
//
//	view := records.View(names, paths, actual)   // which path is the site on?
//	batch, refusals := records.Plan(names, paths, to, actual, records.Options{})
//	for _, part := range batch.Split(records.MaxOperations) { ... } // one request each
//
// A record is ours if its comment holds the marker, see Mark. What is not ours
// is never changed, and a name that holds something we do not understand is
// refused as a whole, while the other names of the site still move.
//
// The rules of a refusal:
//
//   - CNAME, HTTPS and SVCB records at a name are a conflict whatever they hold:
//     the first replaces the A record, and the others may carry addresses, another
//     target or ECH keys, all of which lead visitors past it.
//   - An address that is on none of the paths is not overwritten. The one exception
//     is a proxied record of a site with exactly one proxied path: nothing but a
//     former home address can be meant.
//   - A record that is proxied at the address of a DNS-only path is refused:
//     somebody put the relay behind Cloudflare, and no path describes that. The
//     contrary, a proxied path whose record lost its proxy, is drift and mended.
//   - A missing A record is not made anew, unless the name holds nothing at all and
//     Options.Create says so. A missing AAAA record is.
package records
