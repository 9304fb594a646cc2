// Package peer is how homes ask things of each other: an endpoint that allows a short
// list of actions and nothing else, over HTTPS with certificates on both sides, and its
// client. It decides nothing: whether an action is right is said by the
// [control.Service] behind it.
//
//	server, err := peer.NewServer(peer.ServerConfig{Self: "a", Homes: homes, Service: s, TLS: source})
//	server.Stream("writeback", handle)
//	err = server.Run(ctx, listener) // until ctx ends
//
//	b, err := peer.NewClient(peer.ClientConfig{Self: "a", Home: "b", Address: "b.example.net:7443", TLS: source})
//	status, err := b.Status(ctx)
//	conn, err := b.Dial(ctx, "writeback", peer.Header{"item": "web"})
//
// Who asks is who the certificate says: the URI edgeward://home/<id> among its names,
// signed by the authority that both have. Nothing in a request can claim another home.
//
// An action is a POST of a JSON object to /v1/<action>; the answer is an object with a
// result or an error. An error has a code that stays and a reason for people. A stream is
// an HTTP upgrade, after which bytes go both ways, each of which can be ended alone.
//
// [SSH] asks the same with ssh for those who want that, and [Answer] answers it.
package peer
