// Package follow keeps the servers of a running HAProxy as the health of gateways says
// they should be.
//
//	f := follow.New(follow.Config{Client: runtime.New(socket, runtime.Options{}), Log: log})
//	f.SetMembers(out.Members)
//	f.Offer(picture)
//	err := f.Run(ctx)
//
// One goroutine owns what is known of HAProxy. It writes what package plan says, reads
// back, and compares. HAProxy may be reloaded, or be gone for a while: a new worker is
// noticed by its pid and age, and gets all of it anew. What others change at the socket
// is taken back.
//
// There is one owner of health: where HAProxy checks our servers itself, Run refuses.
package follow
