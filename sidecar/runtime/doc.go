// Package runtime reads and changes the servers and maps of a running HAProxy,
// through its stats socket.
//
//	c := runtime.New("/run/haproxy/edgeward.sock", runtime.Options{})
//	now, err := c.Read(ctx)
//	now, err = c.Do(ctx, runtime.SetState("pool:home", "nuc", runtime.Drain))
//
// Underneath is client-native's runtime client, whose worst habits are kept away
// from callers: of it, only the call that passes text is used. An empty answer, one
// that is cut short, that comes too late or has another form is an error here. What
// is written is read back in the same connection, and from the same worker. A panic
// is an error, and a call ends by its context, whatever the client's own 30 s say.
//
// A master's socket is refused: it answers in another form, in which failures look
// like success.
package runtime
