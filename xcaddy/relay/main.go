// Command edge-relay is Caddy with caddy-l4 and Edgeward's relay modules.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4"

	_ "github.com/edgeward/edgeward/caddymodule/cluster"
	_ "github.com/edgeward/edgeward/caddymodule/edge"
)

func main() { caddycmd.Main() }
