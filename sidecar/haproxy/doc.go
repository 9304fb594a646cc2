// Package haproxy talks to HAProxy: it lets the program check a config, and asks a
// running one over its sockets.
//
//	problems, err := haproxy.Checker{}.Check(ctx, path)
//	processes, err := haproxy.Master("/run/haproxy-master.sock").Processes(ctx)
//
// An empty reply is an error here, and so is one in another form than the manual's:
// a worker that goes away in the middle of an answer must not look like one without
// servers. Every call ends by its context.
package haproxy
