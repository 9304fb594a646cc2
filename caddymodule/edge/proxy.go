package edge

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/edgeward/edgeward/caddymodule/options"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("edge_proxy", parseProxy)
	httpcaddyfile.RegisterDirectiveOrder("edge_proxy", httpcaddyfile.Before, "reverse_proxy")
}

// parseProxy reads the edge_proxy directive: a reverse_proxy to the gateways of a
// pool, with the pool's outage page. Syntax:
//
//	edge_proxy [<matcher>] [<pool>[:<port>]] {
//		... what reverse_proxy takes, without upstreams
//	}
//
// Without a pool it goes by the request's host, and the routes of kind http that
// are made through the admin API.
//
// It stands for edge_outage and a reverse_proxy with dynamic edge_pool, which may
// be written out where more is to be changed.
func parseProxy(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the directive itself, where a segment begins
	segment := h.NextSegment()
	source := Upstreams{}
	named := len(segment) > 1 && segment[1].Text != "{"
	if named {
		source.Pool = segment[1].Text
	}
	if name, port, found := strings.Cut(source.Pool, ":"); found {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return nil, h.Errf("edge_proxy %s: want <pool> or <pool>:<port>", source.Pool)
		}
		source.Pool, source.Port = name, n
	}
	proxy := new(reverseproxy.Handler)
	rest := []caddyfile.Token{segment[0]}
	if named {
		rest = append(rest, segment[2:]...)
	} else {
		rest = append(rest, segment[1:]...)
	}
	if err := proxy.UnmarshalCaddyfile(caddyfile.NewDispenser(rest)); err != nil {
		return nil, err
	}
	if len(proxy.Upstreams) > 0 || proxy.DynamicUpstreamsRaw != nil {
		return nil, h.Err("edge_proxy has its upstreams from the pool")
	}
	proxy.DynamicUpstreamsRaw = caddyconfig.JSONModuleObject(source, "source", "edge_pool", nil)
	if proxy.LoadBalancing == nil {
		proxy.LoadBalancing = &reverseproxy.LoadBalancing{Retries: members(h, source.Pool) - 1}
	}
	if proxy.TransportRaw == nil {
		dial := reverseproxy.HTTPTransport{DialTimeout: caddy.Duration(time.Second)}
		proxy.TransportRaw = caddyconfig.JSONModuleObject(dial, "protocol", "http", nil)
	}
	if err := proxy.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	outage := OutageHandler{Pool: source.Pool}
	return &caddyhttp.Subroute{Routes: caddyhttp.RouteList{{HandlersRaw: []json.RawMessage{
		caddyconfig.JSONModuleObject(outage, "handler", "edge_outage", nil),
		caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil),
	}}}}, nil
}

// usualMembers is how many members are tried where the pool is not known yet.
const usualMembers = 3

// members is how many gateways a pool of the edge global option has: each may be
// tried once.
func members(h httpcaddyfile.Helper, pool string) int {
	if pool == "" {
		return usualMembers
	}
	if before, ok := h.Option("edge").(httpcaddyfile.App); ok {
		if app, err := options.Decode[App](before); err == nil && app.Pools[pool] != nil {
			return len(app.Pools[pool].Members)
		}
	}
	return 1
}
