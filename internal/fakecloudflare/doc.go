// Package fakecloudflare is a Cloudflare that runs on loopback: the DNS part of its
// API, the authoritative servers of its zones, public resolvers over HTTPS, and the
// edge that answers for proxied names and passes requests on to the origin. What is
// written through the API is what the others then show, after a delay that can be
// set.
//
// It speaks the protocols, so that production code dials it unchanged, and it can be
// hostile: see Fault. It is no copy of Cloudflare: error codes, limits and rules are
// those that a client of A and AAAA records meets, as documented and reported, and
// none of it was compared with the real service.
//
//	f := fakecloudflare.New(t, fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: "example.com"}}})
//	id := f.Put("example.com", fakecloudflare.Record{Name: "www", Type: "A", Content: "198.51.100.7"})
//	f.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Lose, Times: 1})
//	client := &http.Client{Transport: f.Transport()} // no sockets; or dial f.URL()
//
// New and Start open sockets; Memory opens none and works inside testing/synctest,
// if it is made inside the bubble. Time comes from package time everywhere.
package fakecloudflare
