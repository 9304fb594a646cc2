package ui

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
)

// Root is where everything is served.
const Root = "/edge/ui/"

// Options of the handler.
type Options struct {
	// API is the handler of relay/api. Required.
	API http.Handler
	// Login asks for a token of the API first. Set it where the API has an Auth:
	// without, who can reach the page may do all that it can.
	Login bool
	// AgentURL is where agents reach edge_heartbeat: it is a part of the command
	// that enrols them. Default: /agent at the address that the page is seen at.
	AgentURL string
	// Log takes what is this program's own fault. Default: nothing is logged.
	Log *slog.Logger
}

// ui is the handler that New returns.
type ui struct {
	o        Options
	mux      *http.ServeMux
	cross    *http.CrossOriginProtection
	sessions sessions
	key      [32]byte // of the tokens in forms
}

// New returns the handler of everything under Root.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	u := &ui{o: o, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection()}
	_, _ = rand.Read(u.key[:]) // it never fails
	u.mux.HandleFunc("GET "+Root+"assets/{file}", serveAsset)
	u.mux.Handle("GET "+Root+"live/{stream}", u.page(live))
	u.mux.Handle("GET "+Root+"login", u.open(showLogin))
	u.mux.Handle("POST "+Root+"login", u.open(login))
	u.mux.Handle("POST "+Root+"logout", u.page(logout))
	for path, serve := range map[string]func(*visit) error{
		"{$}":                        overview,
		"events":                     showEvents,
		"gateways":                   listGateways,
		"gateways/{name}":            showGateway,
		"gateways/{name}/pairing":    showPairing,
		"pools/{name}":               showPool,
		"routes":                     listRoutes,
		"routes/{name}":              showRoute,
		"{thing}/{name}/do/{action}": confirm,
	} {
		u.mux.Handle("GET "+Root+path, u.page(serve))
	}
	for path, serve := range map[string]func(*visit) error{
		"new/gateway":          editGateway,
		"new/pool":             editPool,
		"new/route":            editRoute,
		"gateways/{name}/edit": editGateway,
		"pools/{name}/edit":    editPool,
		"routes/{name}/edit":   editRoute,
		"migrate":              migrate,
		"relocate":             relocate,
	} {
		u.mux.Handle("GET "+Root+path, u.page(writers(serve)))
		u.mux.Handle("POST "+Root+path, u.page(writers(serve)))
	}
	u.mux.Handle("POST "+Root+"{thing}/{name}/do/{action}", u.page(writers(act)))
	u.mux.Handle(Root, u.page(func(v *visit) error { return nothing("nothing is served at %s", v.r.URL.Path) }))
	return u
}

// policy allows what the pages use: no inline script or style, no other origin.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
	"form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
}, "; ")

// ServeHTTP sets what holds for every answer, and finds the page.
func (u *ui) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Not no-referrer: browsers would send forms with "Origin: null", which over
	// plain HTTP cannot be told from another site's.
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if u.cross.Check(r) != nil {
		http.Error(w, "a page of another site may not change anything here", http.StatusForbidden)
		return
	}
	u.mux.ServeHTTP(w, r)
}
