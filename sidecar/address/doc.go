// Package address follows homes whose address changes: it asks DNS for the names that
// gateways are dialled by, and decides what to believe.
//
//	b, err := address.Open(address.Options{File: "/etc/haproxy/edgeward/addresses.json", Changed: follower.SetAddresses})
//	b.SetHosts([]string{"home.example.com"})
//	go b.Run(ctx)
//
// An answer changes nothing if it is empty or an error, if the servers that were asked
// do not agree, or if it is not public and not allowed by name of its network. While
// the old address works, the new one must pass a check first. What is believed is on
// disk, for the next start.
package address
