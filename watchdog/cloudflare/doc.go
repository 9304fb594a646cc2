// Package cloudflare reads and writes DNS records through Cloudflare's API. It
// decides nothing: which records to change is said by package records, and when by
// its callers.
//
//	c, err := cloudflare.New(cloudflare.Config{Token: token})
//	zone, err := c.ZoneByName(ctx, "example.com")
//	owned, err := c.Owned(ctx, zone.ID)                         // one request a cycle
//	batch, refused := records.Plan(names, paths, to, owned, records.Options{})
//	written, err := c.Apply(cloudflare.Urgent(ctx), zone.ID, batch) // one request
//	after, err := c.Owned(cloudflare.Urgent(ctx), zone.ID)      // the proof
//
// The requests are those of cloudflare-go. Its reading of replies is not used: it
// takes "success": false for an empty list, a string for the number zero, and it
// repeats writes. A guard between it and the network reads each reply strictly, once,
// and turns all else into an *Error. There are no retries: an Error says what to
// think of it, and until when the Client will not ask again.
//
// An Error of KindAmbiguous is a write that may have taken effect. Whoever gets it
// reads the records before writing again.
package cloudflare
