package catalog

import (
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/session"
)

// DefaultHTTPPort is where an agent takes routes by HTTP host.
const DefaultHTTPPort = 8080

// Monitor returns what the relay watches of a gateway. It is not validated: see
// monitor.Gateway.Validate.
func (g Gateway) Monitor() (monitor.Gateway, error) { return g.monitor() }

// Settings returns what a pool asks of the relay. They are not validated: see
// pool.Settings.Validate.
func (p Pool) Settings() (session.PoolSettings, error) { return p.settings() }
