// Package probe tests one path by one HTTPS request, as a visitor would make it.
//
// HTTPS connects to a given address with the name of the site, and wants a valid
// certificate, a status, a body and more. Canary finds the address by DNS over
// HTTPS first, and is for paths that begin at the edge of a network such as
// Cloudflare's. Witness tells whether we reach the Internet at all: without it,
// our own lost uplink looks like the loss of everybody else.
//
// A probe has one deadline for all of it, makes a full TLS handshake each time,
// keeps no connection, follows no redirect, asks no proxy of the environment and
// looks no name up but by package resolve. When Run returns nothing of the probe is
// left. When to probe, and what to make of the results, is for others.
//
//	p := probe.HTTPS{
//		Addr: netip.MustParseAddrPort("198.51.100.7:443"), Name: "edge-health.example.com",
//		Path: "/__edge_health", Body: []byte("edge-ok-v1\n"), NoStore: true,
//	}
//	if err := p.Validate(); err != nil {
//		return err
//	}
//	if r := p.Run(ctx); r.Value == evidence.Bad {
//		log.Warn("probe failed", "reason", r.Reason, "detail", r.Detail)
//	}
package probe
