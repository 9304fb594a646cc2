// Package agent is the core of a gateway at home: it reports itself to the relay,
// pulls the table of what it has to forward, and forwards it to servers in the
// home's network.
//
// A [Plane] carries visitors. It is a relay.Relay of its own, whose "gateways" are
// the servers at home and whose checks are their reachability, and an HTTP
// forwarder beside it. An [Agent] is the control channel: it feeds the plane. They
// are apart because the plane must never stop for something that the control
// channel needs: a reload, a relay that is away, a token that was revoked.
//
//	plane, err := agent.NewPlane(log)
//	err = plane.Configure(agent.Settings{Listen: "10.8.0.8:8443"})
//	a, err := agent.New(agent.Config{Client: client, Plane: plane, File: "table.json"})
//	err = a.Run(ctx) // until ctx ends; it begins with the table on disk
//	plane.Close(10 * time.Second)
//
// Whether a gateway is alive and who serves a route is the relay's business. The
// agent says what it has applied and which routes do not work here, and it refuses
// what it cannot serve rightly: another server's loopback, a name given twice.
package agent
