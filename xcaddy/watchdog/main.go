// Command edge-watchdog is the home build: Caddy with caddy-l4, the watchdog, and the
// relay's modules, with which a home gateway can forward connections by name as well.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4"

	_ "github.com/edgeward/edgeward/caddymodule/cluster"
	_ "github.com/edgeward/edgeward/caddymodule/edge"
	_ "github.com/edgeward/edgeward/caddymodule/fallback"
	_ "github.com/edgeward/edgeward/caddymodule/gateway"
	_ "github.com/edgeward/edgeward/caddymodule/watchdog"
)

func main() { caddycmd.Main() }
