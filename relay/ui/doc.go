// Package ui is the relay's web page, under /edge/ui/: pools with who serves and
// why, gateways, routes, events as they happen, and forms to change all of it.
//
// It is a client of the admin API and of nothing else: each request asks relay/api
// in this process, with the token of who is logged in. So the page can do what the
// API can, by the same rules, and decides nothing itself.
//
//	auth := &api.Auth{}
//	handler := api.New(api.Options{Fleet: fleet, Auth: auth})
//	http.Handle("/edge/ui/", ui.New(ui.Options{API: handler, Login: true}))
//	http.Handle("/edge/", handler)
//
// Pages are HTML that works without script, for reading and for every change. The
// script keeps what is shown up to date, counts down, sorts by dragging and asks in
// a dialog instead of on a page of its own.
//
// Keep the handler for as long as the process runs: sessions are in its memory.
package ui
