// Package daemon is the running sidecar: a source of health, the follower that writes
// to HAProxy, the addresses of names, the agent checks, and who can ask how it goes.
//
//	err := daemon.Run(ctx, daemon.Config{Load: load, Log: log, Reload: hangups})
//
// One of them runs at a time: a lock says so.
package daemon
