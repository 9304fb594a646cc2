package api

import (
	"cmp"
	"net/http"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/monitor"
)

// operation is one method of one path: how it is served, and what the document
// says of it.
type operation struct {
	method, path string
	id           string
	about        string
	query        []param
	body         any // a value of what is sent; nil: nothing
	needs        []string
	patches      bool // the body is a merge patch
	matches      bool // If-Match holds it to a revision
	answers      any  // a value of what is answered; nil: nothing, by 204
	status       int  // of success. Default: 200, or 204 without an answer
	streams      bool // with ?watch it sends events
	fails        []int
	large        bool // the body may be a backup
	idle         bool // works while nothing runs
	serve        func(*call) error
}

// param is a query parameter.
type param struct{ name, kind, about string }

func (op *operation) success() int {
	if op.answers == nil {
		return cmp.Or(op.status, http.StatusNoContent)
	}
	return cmp.Or(op.status, http.StatusOK)
}

func (op *operation) writes() bool { return op.method != http.MethodGet }

func (op *operation) maxBody() int64 {
	if op.large {
		return maxRestore
	}
	return maxBody
}

var (
	paging = []param{
		{"limit", "integer", "At most so many. The Link header has the rest. Default: all."},
		{"after", "string", "Those after this name."},
	}
	derivedPools = append([]param{{"derived", "boolean", "Also those of routes pinned to a gateway."}}, paging...)
	snapshots    = []param{
		{"after", "integer", "Wait up to a minute for one with a higher version."},
		{"watch", "boolean", "Send each new one as a server-sent event."},
	}
	eventFilters = []param{
		{"after", "integer", "Those after this ID, the oldest of them. Default: the newest."},
		{"before", "integer", "Those before this ID."},
		{"kind", "string", "Only these kinds, with commas in between."},
		{"gateway", "string", "Only those about this gateway."},
		{"pool", "string", "Only those about this pool."},
		{"route", "string", "Only those about this route."},
		{"limit", "integer", "At most so many, 1 to 1000. Default: 100."},
		{"watch", "boolean", "Send each new one as a server-sent event. Last-Event-ID, or after, says where to begin. Default: now."},
	}
	mostParam = []param{{"most", "integer", "At most so many open connections. Default: 100."}}
)

// What may be wrong, besides what may be wrong with every request.
var (
	onRead   = []int{http.StatusNotFound}
	onCreate = []int{http.StatusConflict}
	onChange = []int{http.StatusNotFound, http.StatusConflict}
	onDelete = []int{http.StatusNotFound, http.StatusConflict}
)

// operations is everything that is served. Set below, for it makes the document
// that one of its entries serves.
var operations []*operation

func init() { operations = table() }

func table() []*operation {
	return []*operation{
		{
			method: "GET", path: "/edge/openapi.json", id: "getDocument", about: "This document.",
			answers: map[string]any{}, idle: true, serve: serveDocument,
		},

		{
			method: "GET", path: "/edge/snapshot", id: "getSnapshot", about: "Health of all gateways and roles in all pools, with a version.",
			query: snapshots, answers: monitor.Snapshot{}, streams: true, serve: getSnapshot,
		},
		{
			method: "PUT", path: "/edge/snapshot", id: "putExternalHealth", about: "What a health source outside of Edgeward says, for some time.",
			body: ExternalReport{}, needs: []string{"source", "ttl_seconds", "gateways"}, serve: putSnapshot,
		},

		{
			method: "GET", path: "/edge/gateways", id: "listGateways", about: "All gateways: health, counts and configuration.",
			query: paging, answers: []Gateway{}, serve: listGateways,
		},
		{
			method: "POST", path: "/edge/gateways", id: "createGateway", about: "Add a gateway.",
			body: catalog.Gateway{}, needs: []string{"name", "dial"}, answers: Gateway{}, status: http.StatusCreated, fails: onCreate, serve: createGateway,
		},
		{
			method: "GET", path: "/edge/gateways/{name}", id: "getGateway", about: "One gateway.",
			answers: Gateway{}, fails: onRead, serve: getGateway,
		},
		{
			method: "PUT", path: "/edge/gateways/{name}", id: "replaceGateway", about: "Configure a gateway anew: what is left out goes back to its default.",
			body: catalog.Gateway{}, needs: []string{"dial"}, matches: true, answers: Gateway{}, fails: onChange, serve: putGateway,
		},
		{
			method: "PATCH", path: "/edge/gateways/{name}", id: "patchGateway", about: "Change settings of a gateway: what is left out stays, null is the default.",
			body: catalog.Gateway{}, patches: true, matches: true, answers: Gateway{}, fails: onChange, serve: patchGateway,
		},
		{
			method: "DELETE", path: "/edge/gateways/{name}", id: "deleteGateway", about: "Remove a gateway that nothing needs.",
			matches: true, fails: onDelete, serve: deleteGateway,
		},
		{
			method: "POST", path: "/edge/gateways/{name}/{action}", id: "actOnGateway",
			about:   "drain: no new connections, open ones go on. disable: and close the open ones. hold: keep its role whatever its health. ready, undrain: health decides.",
			answers: Gateway{}, fails: onChange, serve: actOnGateway,
		},
		{
			method: "POST", path: "/edge/gateways/{name}/pairing-code", id: "createPairingCode", about: "A code that enrols the gateway's agent, once, within minutes. It is shown here and never again.",
			answers: Code{}, fails: onRead, serve: makeCode,
		},
		{
			method: "POST", path: "/edge/gateways/{name}/token/rotate", id: "rotateGatewayToken", about: "A new token for the gateway's agent. The old one is void at once. It is shown here and never again.",
			answers: GatewayToken{}, fails: onRead, serve: rotateToken,
		},
		{
			method: "DELETE", path: "/edge/gateways/{name}/token", id: "revokeGatewayToken", about: "Void the token of the gateway's agent at once.",
			fails: onRead, serve: revokeToken,
		},
		{
			method: "GET", path: "/edge/agents", id: "listAgents", about: "What the agents at home report.",
			query: paging, answers: []fleet.AgentStatus{}, serve: listAgents,
		},

		{
			method: "GET", path: "/edge/pools", id: "listPools", about: "All pools: roles with reasons, counts and configuration.",
			query: derivedPools, answers: []Pool{}, serve: listPools,
		},
		{
			method: "POST", path: "/edge/pools", id: "createPool", about: "Add a pool.",
			body: catalog.Pool{}, needs: []string{"name"}, answers: Pool{}, status: http.StatusCreated, fails: onCreate, serve: createPool,
		},
		{
			method: "GET", path: "/edge/pools/{name}", id: "getPool", about: "One pool.",
			answers: Pool{}, fails: onRead, serve: getPool,
		},
		{
			method: "PUT", path: "/edge/pools/{name}", id: "replacePool", about: "Configure a pool anew: what is left out goes back to its default, but for the members, who stay.",
			body: catalog.Pool{}, needs: []string{}, matches: true, answers: Pool{}, fails: onChange, serve: putPool,
		},
		{
			method: "PATCH", path: "/edge/pools/{name}", id: "patchPool", about: "Change settings of a pool: what is left out stays, null is the default.",
			body: catalog.Pool{}, patches: true, matches: true, answers: Pool{}, fails: onChange, serve: patchPool,
		},
		{
			method: "DELETE", path: "/edge/pools/{name}", id: "deletePool", about: "Remove a pool that no route needs.",
			matches: true, fails: onDelete, serve: deletePool,
		},
		{
			method: "POST", path: "/edge/pools/{name}/{action}", id: "actOnPool",
			about:   "failover: away from who serves now. failback: end all cooldowns now.",
			answers: Pool{}, fails: onChange, serve: actOnPool,
		},
		{
			method: "GET", path: "/edge/pools/{name}/members", id: "listMembers", about: "The members of a pool, by priority.",
			answers: []Member{}, fails: onRead, serve: listMembers,
		},
		{
			method: "PUT", path: "/edge/pools/{name}/members", id: "replaceMembers", about: "Replace all members; their order is their priority. All of it is done, or nothing.",
			body: Members{}, needs: []string{"members"}, matches: true, answers: []Member{}, fails: onChange, serve: putMembers,
		},
		{
			method: "POST", path: "/edge/pools/{name}/members", id: "addMember", about: "Put a gateway into a pool.",
			body: MemberChange{}, needs: []string{"gateway"}, matches: true, answers: []Member{}, status: http.StatusCreated, fails: onChange, serve: addMember,
		},
		{
			method: "GET", path: "/edge/pools/{name}/members/{gateway}", id: "getMember", about: "One member of a pool.",
			answers: Member{}, fails: onRead, serve: getMember,
		},
		{
			method: "PUT", path: "/edge/pools/{name}/members/{gateway}", id: "changeMember", about: "Change a member's weight or place.",
			body: MemberChange{}, needs: []string{}, matches: true, answers: []Member{}, fails: onChange, serve: putMember,
		},
		{
			method: "DELETE", path: "/edge/pools/{name}/members/{gateway}", id: "removeMember", about: "Take a gateway out of a pool.",
			matches: true, fails: onDelete, serve: deleteMember,
		},
		{
			method: "POST", path: "/edge/pools/{name}/migrate", id: "migrateRoutes", about: "Move routes into a pool, all or none. Those that are in it already stay.",
			body: Migration{}, needs: []string{"routes"}, matches: true, answers: Moved{}, fails: onChange, serve: migrate,
		},

		{
			method: "GET", path: "/edge/routes", id: "listRoutes", about: "All routes: configuration, who serves each and why.",
			query: paging, answers: []Route{}, serve: listRoutes,
		},
		{
			method: "POST", path: "/edge/routes", id: "createRoute", about: "Add a route.",
			body: catalog.Route{}, needs: []string{"name"}, answers: Route{}, status: http.StatusCreated, fails: onCreate, serve: createRoute,
		},
		{
			method: "GET", path: "/edge/routes/{name}", id: "getRoute", about: "One route.",
			answers: Route{}, fails: onRead, serve: getRoute,
		},
		{
			method: "PUT", path: "/edge/routes/{name}", id: "replaceRoute", about: "Configure a route anew: what is left out goes back to its default.",
			body: catalog.Route{}, needs: []string{}, matches: true, answers: Route{}, fails: onChange, serve: putRoute,
		},
		{
			method: "PATCH", path: "/edge/routes/{name}", id: "patchRoute", about: "Change settings of a route: what is left out stays, null is the default.",
			body: catalog.Route{}, patches: true, matches: true, answers: Route{}, fails: onChange, serve: patchRoute,
		},
		{
			method: "DELETE", path: "/edge/routes/{name}", id: "deleteRoute", about: "Remove a route.",
			matches: true, fails: onDelete, serve: deleteRoute,
		},
		{
			method: "POST", path: "/edge/routes/relocate", id: "relocateRoutes", about: "Pin routes to a gateway, at new addresses behind it, all or none.",
			body: Relocation{}, needs: []string{"gateway", "items"}, answers: Moved{}, fails: onChange, serve: relocate,
		},
		{
			method: "GET", path: "/edge/serving", id: "listServing", about: "Who serves what, and why.",
			query: paging, answers: []fleet.RouteStatus{}, serve: serving,
		},
		{
			method: "GET", path: "/edge/migration-candidates", id: "listCandidates", about: "Routes that may move, with a mark on those whose target is the gateway itself, and pools they may move into.",
			answers: Candidates{}, serve: candidates,
		},

		{
			method: "GET", path: "/edge/backup", id: "getBackup", about: "All that was made through this API, by name. No token is in it.",
			answers: catalog.Backup{}, serve: backup,
		},
		{
			method: "POST", path: "/edge/restore", id: "restoreBackup", about: "Put a backup in the place of all that was made through this API, whole or not at all.",
			body: catalog.Backup{}, needs: []string{}, large: true, matches: true, answers: catalog.Backup{}, fails: onCreate, serve: restore,
		},

		{
			method: "GET", path: "/edge/events", id: "listEvents", about: "What happened, and by whose hand, oldest first.",
			query: eventFilters, answers: []event.Event{}, streams: true, serve: listEvents,
		},
		{
			method: "GET", path: "/edge/connections", id: "listConnections", about: "Counts by listener, and open connections.",
			query: mostParam, answers: ConnectionsReport{}, serve: connections,
		},
		{
			method: "GET", path: "/edge/limits", id: "listLimits", about: "What limits hold, and the busiest sources.",
			answers: []LimitsReport{}, serve: limits,
		},

		{
			method: "GET", path: "/edge/tokens", id: "listTokens", about: "The tokens of this API, without their secrets.",
			query: paging, answers: []Token{}, serve: listTokens,
		},
		{
			method: "POST", path: "/edge/tokens", id: "createToken", about: "Make a token. Its secret is shown here and never again.",
			body: TokenRequest{}, needs: []string{"name", "scope"}, answers: NewToken{}, status: http.StatusCreated, fails: onCreate, serve: createToken,
		},
		{
			method: "GET", path: "/edge/tokens/{name}", id: "getToken", about: "One token, without its secret.",
			answers: Token{}, fails: onRead, serve: getToken,
		},
		{
			method: "DELETE", path: "/edge/tokens/{name}", id: "deleteToken", about: "Void a token at once.",
			fails: onDelete, serve: deleteToken,
		},
	}
}

// Operation is one entry of the table, for those who document it.
type Operation struct{ Method, Path, Summary string }

// Operations lists all that is served.
func Operations() (list []Operation) {
	for _, op := range operations {
		list = append(list, Operation{op.method, op.path, op.about})
	}
	return list
}

// byPath groups the operations of one path.
func byPath(list []*operation) map[string]map[string]*operation {
	m := map[string]map[string]*operation{}
	for _, op := range list {
		if m[op.path] == nil {
			m[op.path] = map[string]*operation{}
		}
		m[op.path][op.method] = op
	}
	return m
}
