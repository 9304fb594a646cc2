package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
)

// listRoutes is what dashboards ask for again and again: ten thousand routes are
// some megabytes. So it is written without reflection, and what is configured is
// written once for each catalog.
func listRoutes(c *call) error {
	now := c.fleet.Catalog()
	list, err := cut(c, slices.Sorted(maps.Keys(now.Routes)), func(name string) string { return name })
	if err != nil {
		return err
	}
	configs, err := c.api.configs.of(now)
	if err != nil {
		return err
	}
	status := map[string]*fleet.RouteStatus{}
	all := c.fleet.Serving()
	for i := range all {
		status[all[i].Route] = &all[i]
	}
	b := append(make([]byte, 0, 512*len(list)+8), '[')
	for i, name := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"name":`...), name)
		b = append(append(b, `,"config":`...), configs[name]...)
		if s := status[name]; s != nil {
			b = routeStatus(s).append(append(b, `,"status":`...))
		}
		b = append(b, '}')
	}
	return c.sendList(append(b, "]\n"...))
}

// configCache keeps the JSON of the routes of one catalog.
type configCache struct {
	mu     sync.Mutex
	holds  *catalog.Catalog
	routes map[string][]byte
}

// of returns the JSON of each route. What did not change since the catalog before
// is not written again.
func (k *configCache) of(now *catalog.Catalog) (map[string][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holds == now {
		return k.routes, nil
	}
	routes := make(map[string][]byte, len(now.Routes))
	for name, r := range now.Routes {
		if k.holds != nil {
			if was, ok := k.holds.Routes[name]; ok && was.Equal(r) {
				routes[name] = k.routes[name]
				continue
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		routes[name] = text
	}
	k.holds, k.routes = now, routes
	return routes, nil
}

// append writes what json.Marshal would write.
func (s *RouteStatus) append(b []byte) []byte {
	b = append(b, `{"serving":[`...)
	for i, name := range s.Serving {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, name)
	}
	b = append(b, ']')
	if s.Parked {
		b = append(b, `,"parked":true`...)
	}
	b = appendTime(b, `,"since":"`, s.Since)
	b = appendTime(b, `,"back":"`, s.Back)
	if s.BackLeft != 0 {
		b = strconv.AppendFloat(append(b, `,"back_left_seconds":`...), s.BackLeft, 'f', -1, 64)
	}
	b = appendText(append(b, `,"reason":`...), s.Reason)
	b = append(b, `,"members":[`...)
	for i := range s.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMember(b, &s.Members[i])
	}
	return append(b, "]}"...)
}

func appendMember(b []byte, m *fleet.RouteMember) []byte {
	b = appendText(append(b, `{"gateway":`...), m.Gateway)
	b = appendText(append(b, `,"role":`...), m.Role.String())
	if m.Avoid != "" {
		b = appendText(append(b, `,"avoid":`...), m.Avoid)
	}
	b = appendText(append(b, `,"reason":`...), m.Reason)
	return append(b, '}')
}

func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return append(t.AppendFormat(append(b, name...), time.RFC3339Nano), '"')
}

// appendText writes a string; what is not plain is left to encoding/json.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // it is a string
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
