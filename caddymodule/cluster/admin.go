package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/cluster"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the cluster's part of Caddy's admin API, under /cluster/:
//
//	GET  /cluster/status    the member here, the leader, and how the others do
//	POST /cluster/init      make a cluster of this machine alone
//	POST /cluster/code      {"replaces": <member>}: a code for one machine to join; replaces is optional
//	POST /cluster/join      {"address": <host:port>, "code": <code>}: join with a code
//	POST /cluster/remove    {"member": <name or id>}: take a member out
//	POST /cluster/snapshot  copy the data into the member's directory
//
// 400 is a request that makes no sense, 404 a member that is none, 409 what the state of
// the cluster forbids, 502 trouble with other machines or the disk, and 503 says that
// there is no member here that could be asked.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge_cluster", New: func() caddy.Module { return new(Admin) }}
}

type handler func(*live, *http.Request) (any, error)

// Routes implements caddy.AdminRouter.
func (Admin) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		method  string
		serve   handler
	}{
		{"/cluster/status", http.MethodGet, serveStatus},
		{"/cluster/init", http.MethodPost, ofMember(initialize)},
		{"/cluster/code", http.MethodPost, ofMember(makeCode)},
		{"/cluster/join", http.MethodPost, ofMember(join)},
		{"/cluster/remove", http.MethodPost, ofMember(remove)},
		{"/cluster/snapshot", http.MethodPost, ofMember(snapshot)},
	}
	list := make([]caddy.AdminRoute, len(routes))
	for i, route := range routes {
		list[i] = caddy.AdminRoute{Pattern: route.pattern, Handler: adminHandler(route.method, route.serve)}
	}
	return list
}

func adminHandler(method string, serve handler) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return apiError(http.StatusMethodNotAllowed, fmt.Errorf("want %s", method))
		}
		now := current()
		if now == nil {
			return apiError(http.StatusServiceUnavailable, errors.New("no edge_cluster app is running"))
		}
		answer, err := serve(now, r)
		if err != nil {
			return explain(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		return json.NewEncoder(w).Encode(answer)
	}
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

// explain gives an error its status. What has none of its own is trouble with other
// machines or the disk.
func explain(err error) error {
	if _, ok := errors.AsType[caddy.APIError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, cluster.ErrNoMember):
		return apiError(http.StatusNotFound, err)
	case errors.Is(err, cluster.ErrMember), errors.Is(err, cluster.ErrAlive), errors.Is(err, cluster.ErrName), errors.Is(err, cluster.ErrLast):
		return apiError(http.StatusConflict, err)
	case errors.Is(err, cluster.ErrNotReady):
		return apiError(http.StatusServiceUnavailable, err)
	}
	return apiError(http.StatusBadGateway, err)
}

// ofMember refuses what only a member can do.
func ofMember(serve func(*cluster.Node, *http.Request) (any, error)) handler {
	return func(now *live, r *http.Request) (any, error) {
		if now.node == nil {
			return nil, apiError(http.StatusConflict, errors.New("the config has endpoints: this machine is no member, ask that etcd"))
		}
		return serve(now.node, r)
	}
}

const maxRequest = 4 << 10

// read decodes a request. An empty one is none.
func read(r *http.Request, to any, want string) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return apiError(http.StatusBadRequest, errors.New("want "+want))
	}
	return nil
}

func serveStatus(now *live, r *http.Request) (any, error) { return now.status(r.Context()), nil }

// done is the answer to what has nothing to tell.
type done struct {
	OK bool `json:"ok"`
}

func initialize(n *cluster.Node, _ *http.Request) (any, error) { return done{true}, n.Init() }

type codeRequest struct {
	Replaces string `json:"replaces,omitempty"`
}

func makeCode(n *cluster.Node, r *http.Request) (any, error) {
	var req codeRequest
	if err := read(r, &req, `{"replaces": <member>}, or nothing`); err != nil {
		return nil, err
	}
	return n.Code(r.Context(), req.Replaces)
}

type joinRequest struct {
	Address string `json:"address"`
	Code    string `json:"code"`
}

func join(n *cluster.Node, r *http.Request) (any, error) {
	const want = `{"address": <host:port>, "code": <code>}`
	var req joinRequest
	if err := read(r, &req, want); err != nil {
		return nil, err
	}
	if req.Address == "" || req.Code == "" {
		return nil, apiError(http.StatusBadRequest, errors.New("want "+want))
	}
	return done{true}, n.Join(r.Context(), req.Address, req.Code)
}

type removeRequest struct {
	Member string `json:"member"`
}

func remove(n *cluster.Node, r *http.Request) (any, error) {
	const want = `{"member": <name or id>}`
	var req removeRequest
	if err := read(r, &req, want); err != nil {
		return nil, err
	}
	if req.Member == "" {
		return nil, apiError(http.StatusBadRequest, errors.New("want "+want))
	}
	return done{true}, n.Remove(r.Context(), req.Member)
}

// snapshotAnswer is where the copy is.
type snapshotAnswer struct {
	File string `json:"file"`
}

func snapshot(n *cluster.Node, r *http.Request) (any, error) {
	file, err := n.Snapshot(r.Context())
	return snapshotAnswer{file}, err
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
