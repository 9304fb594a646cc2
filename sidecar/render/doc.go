// Package render writes an HAProxy config that does what the relay does: the same
// gateways, pools, routes and limits, as far as HAProxy 2.6 and later can.
//
//	out, err := render.Render(render.Config{
//		Catalog:   c,
//		Listeners: []render.Listener{{Address: ":443"}},
//	})
//
// The text depends on the config alone: equal configs render to equal bytes. What
// HAProxy cannot do is an error that names the setting, or a notice where visitors
// are served all the same.
//
// Names are looked up in trees, never by walking a list: an exact name in one map,
// then, for each number of labels that a wildcard has, as many last labels of the
// name in another. A map's file has a hash of its content in its name, so replacing
// the config replaces config and maps in one step, and so does taking it back.
//
// It writes no file and asks nobody: see [github.com/edgeward/edgeward/sidecar/apply].
package render
