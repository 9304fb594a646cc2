// Package api is the admin API of the relay, under /edge/: what is configured and
// how it does, edits, operator actions, events, and an OpenAPI document of it all.
// It knows HTTP and JSON; what an edit means is in relay/catalog, and who serves
// is decided below relay/monitor.
//
// One table, operations, makes both the routes and the document.
//
//	handler := api.New(api.Options{
//		Fleet: func() api.Fleet { return running }, // nil: 503
//		Auth:  &api.Auth{},                         // nil: whoever gets here may do all
//	})
//
// Reads of one thing answer what is configured, under "config", and what is live
// around it. Lists are sorted by name and cut by ?limit= and ?after=. A write with
// If-Match is refused if somebody else was faster. Every error is a [Problem].
package api
