// Package fleet keeps the gateways of a relay, with their pools and routes:
// those that the file declares and those that people make through the API. It
// gives the relay one config made of both, takes what agents report, and derives
// from it which gateway may serve which route.
//
// What is kept, and where:
//
//   - What is configured: in the file, and in the database (relay/store).
//   - Who is well: in the relay's monitor.
//   - What agents have applied and can reach: here, in memory; they say it again
//     with every heartbeat.
//
// Who serves a route is stored nowhere. It is the pool's choice, less the gateways
// to be avoided for that route: those whose agent has not confirmed the route as
// it is now, or cannot reach what is behind it, or is stopping. While every one
// would have to be avoided, none is.
//
// A heartbeat shows that an agent lives, not that visitors reach it: with an active
// check, health goes by the check, and silence is only a reason to look at once.
// Without one (check off) silence takes the gateway down, after the interval that
// the agent announced and some more.
package fleet
