// Command edge-watchdog is the home build: Caddy with caddy-l4 and Edgeward's
// modules. For now those are the relay's, with which a home gateway can forward
// connections by name as well. The watchdog itself is not there yet.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4"

	_ "github.com/edgeward/edgeward/caddymodule/edge"
)

func main() { caddycmd.Main() }
