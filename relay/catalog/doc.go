// Package catalog is what is configured: gateways, pools and routes, who owns
// them, and the rules that hold between them.
//
// A Catalog is an immutable value. An edit returns another one, or an [Error]
// with a stable code and nothing changed. What is derived from it (who may serve
// a route, what an agent has to forward, what the relay is to do) is computed
// anew each time and stored nowhere, so there is nothing to repair after a crash.
//
// Which gateways may serve a route, in this order:
//
//   - A route to a pool: the pool's members by priority, by the pool's policy.
//     A disabled pool serves nobody.
//   - A route pinned to a gateway: that gateway, then the other members of the
//     enabled pools it is in: pools by name, members by priority, each gateway
//     once. Always by failover, with the longest failback of those pools.
//     Membership alone makes a gateway the stand-in of another.
package catalog
