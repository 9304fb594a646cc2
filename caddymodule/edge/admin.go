package edge

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay/api"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the relay's part of Caddy's admin API: everything under /edge/.
// What that is, GET /edge/openapi.json says; at /edge/ui/ there is a web page.
//
// It asks for no token: who may reach the admin endpoint may do all. For use over
// a network there is the HTTP handler edge_api.
type Admin struct {
	handler http.Handler
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge", New: func() caddy.Module { return new(Admin) }}
}

// Provision makes the handler.
func (a *Admin) Provision(ctx caddy.Context) error {
	log := ctx.Slogger()
	handler := api.New(api.Options{Fleet: currentFleet, Actor: adminActor, Log: log})
	a.handler = withPage(handler, pageOf(pageKey{}, log))
	return nil
}

// Routes implements caddy.AdminRouter.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/edge/", Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a.handler.ServeHTTP(w, r)
		return nil
	})}}
}

// currentFleet returns what runs, or nil. It is asked for each request: after a
// failed reload, one that had been kept would be the wrong one.
func currentFleet() api.Fleet {
	if m := currentMachine(); m != nil && m.fleet != nil {
		return m.fleet
	}
	return nil // not a nil *fleet.Fleet
}

// adminActor is who asks, as far as the admin endpoint knows.
func adminActor(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.String()
	}
	return "admin API " + r.RemoteAddr
}

// Interface guards.
var (
	_ caddy.Provisioner = (*Admin)(nil)
	_ caddy.AdminRouter = (*Admin)(nil)
)
