// Package visible finds out when a change of DNS records can be seen: at the name
// servers of the zone, which must serve it soon, and at public resolvers, which may
// serve what was true before until its TTL is over.
//
// It is for DNS-only records. Cloudflare answers for proxied ones with addresses of
// its own, whatever they hold: do not ask for those, ask the canary.
//
//	report, err := visible.Check(ctx, visible.Config{Servers: zone.NameServers}, []visible.Want{
//		{Name: "example.com", A: relay4}, // and no AAAA record any more
//		{Name: "*.example.com", A: relay4},
//	})
//	if err != nil {
//		return err // a setting cannot work
//	}
//	log.Info("written", "visible", report.Value(), "detail", report.String())
//
// The API of a provider can say one thing and its name servers another, for hours.
// That is why only the name servers decide what [Report.Value] says. A resolver that
// has kept "no such record" may do so for longer than the TTL of the record: half an
// hour at Cloudflare, for an AAAA record that was added.
//
// One answer with the new address is enough to call a source up to date. Behind each
// address of a public name server or resolver are many machines, and the next answer
// may come from one that is not.
package visible
