package edge

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/session"
)

// gatewayReport is a gateway in the admin API.
type gatewayReport struct {
	monitor.GatewayView
	Open      int64             `json:"open_connections"`
	Served    uint64            `json:"served_total"`
	BytesUp   uint64            `json:"bytes_up_total"`
	BytesDown uint64            `json:"bytes_down_total"`
	Faults    map[string]uint64 `json:"faults_total"`
	Pools     []string          `json:"pools"`
}

func gatewayReports(s *monitor.Snapshot) []gatewayReport {
	list := make([]gatewayReport, len(s.Gateways))
	for i, g := range s.Gateways {
		list[i] = gatewayReport{
			GatewayView: g, Open: g.Live.Open.Load(), Served: g.Live.Served.Load(),
			BytesUp: g.Live.BytesUp.Load(), BytesDown: g.Live.BytesDown.Load(),
			Faults: faults(g.Live), Pools: []string{},
		}
		for _, p := range s.Pools {
			if p.Index(g.Name) >= 0 {
				list[i].Pools = append(list[i].Pools, p.Name)
			}
		}
	}
	return list
}

var faultNames = [attempt.Faults]string{
	attempt.Refused: "refused", attempt.Unreachable: "unreachable", attempt.Slow: "slow",
	attempt.Reset: "reset", attempt.Silent: "silent",
}

func faults(g *session.Gateway) map[string]uint64 {
	m := map[string]uint64{}
	for f, name := range faultNames {
		if name != "" {
			m[name] = g.Faults[f].Load()
		}
	}
	return m
}

// poolReport is a pool in the admin API.
type poolReport struct {
	monitor.PoolView
	Failback  float64  `json:"failback_seconds"`
	Serving   []string `json:"serving"`
	Open      int64    `json:"open_connections"`
	Served    uint64   `json:"served_total"`
	Outages   uint64   `json:"outages_total"`
	BytesUp   uint64   `json:"bytes_up_total"`
	BytesDown uint64   `json:"bytes_down_total"`
}

func poolReports(s *monitor.Snapshot) []poolReport {
	list := make([]poolReport, len(s.Pools))
	for i, p := range s.Pools {
		list[i] = poolReport{
			PoolView: p, Failback: max(p.Failback, 0).Seconds(), Serving: []string{},
			Open: p.Live.Open.Load(), Served: p.Live.Served.Load(), Outages: p.Live.Outages.Load(),
			BytesUp: p.Live.BytesUp.Load(), BytesDown: p.Live.BytesDown.Load(),
		}
		for _, m := range p.View.Serving() {
			list[i].Serving = append(list[i].Serving, m.Gateway)
		}
	}
	return list
}

// listenerReport is what a listener has done.
type listenerReport struct {
	Listener     string            `json:"listener"`
	Open         int64             `json:"open_connections"`
	Accepted     uint64            `json:"accepted_total"`
	AcceptErrors uint64            `json:"accept_errors_total"`
	Ended        map[string]uint64 `json:"ended_total"`
}

// connectionReport is one open connection.
type connectionReport struct {
	Source     string    `json:"source"`
	Listener   string    `json:"listener"`
	ServerName string    `json:"server_name,omitzero"`
	Route      string    `json:"route,omitzero"`
	Pool       string    `json:"pool,omitzero"`
	Gateway    string    `json:"gateway,omitzero"`
	Since      time.Time `json:"since"`
	BytesUp    uint64    `json:"bytes_up"`
	BytesDown  uint64    `json:"bytes_down"`
}

type connectionsReport struct {
	Listeners   []listenerReport   `json:"listeners"`
	Connections []connectionReport `json:"connections"`
}

const (
	fewConnections  = 100
	mostConnections = 100_000
)

func serveConnections(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	most := fewConnections
	if text := r.URL.Query().Get("most"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return apiError(http.StatusBadRequest, fmt.Errorf("most=%q: want a number", text))
		}
		most = min(n, mostConnections)
	}
	report := connectionsReport{Listeners: []listenerReport{}, Connections: []connectionReport{}}
	live.Listeners(func(l *session.Listener) {
		ended := map[string]uint64{}
		for _, why := range session.Reasons() {
			if n := l.Ended[why].Load(); n > 0 {
				ended[why.String()] = n
			}
		}
		report.Listeners = append(report.Listeners, listenerReport{
			l.Name, l.Open.Load(), l.Accepted.Load(), l.AcceptErrors.Load(), ended,
		})
	})
	slices.SortFunc(report.Listeners, func(a, b listenerReport) int { return strings.Compare(a.Listener, b.Listener) })
	for _, c := range live.Connections(most) {
		report.Connections = append(report.Connections, connectionReport{
			c.Source.String(), c.Listener, c.Name, c.Route, c.Pool, c.Gateway, c.Time, c.BytesUp, c.BytesDown,
		})
	}
	return writeJSON(w, report)
}

// limitsReport is what a listener's limits hold.
type limitsReport struct {
	Listener  string                  `json:"listener"`
	Open      int                     `json:"open_connections"`
	Sources   int                     `json:"sources"`
	Evictions uint64                  `json:"evictions_total"`
	Untracked uint64                  `json:"untracked_total"`
	Refused   map[limit.Reason]uint64 `json:"refused_total"`
	Busiest   []sourceReport          `json:"busiest"`
}

type sourceReport struct {
	Prefix  string `json:"prefix"`
	Open    int    `json:"open_connections"`
	Refused uint64 `json:"refused"`
}

const busiest = 20

func serveLimits(live *relay.Relay, w http.ResponseWriter, _ *http.Request) error {
	list := []limitsReport{}
	live.Listeners(func(l *session.Listener) {
		s := l.Limits.Stats()
		report := limitsReport{l.Name, s.Open, s.Sources, s.Evictions, s.Untracked, s.Refused, []sourceReport{}}
		for _, src := range l.Limits.Top(busiest) {
			report.Busiest = append(report.Busiest, sourceReport{src.Prefix.String(), src.Open, src.Refused})
		}
		list = append(list, report)
	})
	slices.SortFunc(list, func(a, b limitsReport) int { return strings.Compare(a.Listener, b.Listener) })
	return writeJSON(w, list)
}

func waitContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), longestWait)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
