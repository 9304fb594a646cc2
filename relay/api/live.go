package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

// ListenerReport is what a listener has done.
type ListenerReport struct {
	Listener     string            `json:"listener"`
	Open         int64             `json:"open_connections"`
	Accepted     uint64            `json:"accepted_total"`
	AcceptErrors uint64            `json:"accept_errors_total"`
	Ended        map[string]uint64 `json:"ended_total"`
}

// ConnectionReport is one open connection.
type ConnectionReport struct {
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

// ConnectionsReport is what came and what is there.
type ConnectionsReport struct {
	Listeners   []ListenerReport   `json:"listeners"`
	Connections []ConnectionReport `json:"connections"`
}

const (
	fewConnections  = 100
	mostConnections = 100_000
)

func connections(c *call) error {
	live, err := c.relay()
	if err != nil {
		return err
	}
	most, err := c.number("most", fewConnections)
	if err != nil {
		return err
	}
	report := ConnectionsReport{Listeners: listeners(live), Connections: []ConnectionReport{}}
	for _, o := range live.Connections(int(min(most, mostConnections))) {
		report.Connections = append(report.Connections, ConnectionReport{
			o.Source.String(), o.Listener, o.Name, o.Route, o.Pool, o.Gateway, o.Time, o.BytesUp, o.BytesDown,
		})
	}
	return c.answer(report)
}

// relay is the data plane, which a stopping fleet has no more.
func (c *call) relay() (*relay.Relay, error) {
	if live := c.fleet.Relay(); live != nil {
		return live, nil
	}
	return nil, problem(http.StatusServiceUnavailable, notRunning, "the relay is stopping")
}

func listeners(live *relay.Relay) []ListenerReport {
	list := []ListenerReport{}
	live.Listeners(func(l *session.Listener) {
		ended := map[string]uint64{}
		for _, why := range session.Reasons() {
			if n := l.Ended[why].Load(); n > 0 {
				ended[why.String()] = n
			}
		}
		list = append(list, ListenerReport{l.Name, l.Open.Load(), l.Accepted.Load(), l.AcceptErrors.Load(), ended})
	})
	slices.SortFunc(list, func(a, b ListenerReport) int { return strings.Compare(a.Listener, b.Listener) })
	return list
}

// LimitsReport is what a listener's limits hold.
type LimitsReport struct {
	Listener  string                  `json:"listener"`
	Open      int                     `json:"open_connections"`
	Sources   int                     `json:"sources"`
	Evictions uint64                  `json:"evictions_total"`
	Untracked uint64                  `json:"untracked_total"`
	Refused   map[limit.Reason]uint64 `json:"refused_total"`
	Busiest   []SourceReport          `json:"busiest"`
}

// SourceReport is what the limits know of one source.
type SourceReport struct {
	Prefix  string `json:"prefix"`
	Open    int    `json:"open_connections"`
	Refused uint64 `json:"refused"`
}

const busiest = 20

func limits(c *call) error {
	live, err := c.relay()
	if err != nil {
		return err
	}
	list := []LimitsReport{}
	live.Listeners(func(l *session.Listener) {
		s := l.Limits.Stats()
		report := LimitsReport{l.Name, s.Open, s.Sources, s.Evictions, s.Untracked, s.Refused, []SourceReport{}}
		for _, src := range l.Limits.Top(busiest) {
			report.Busiest = append(report.Busiest, SourceReport{src.Prefix.String(), src.Open, src.Refused})
		}
		list = append(list, report)
	})
	slices.SortFunc(list, func(a, b LimitsReport) int { return strings.Compare(a.Listener, b.Listener) })
	return c.answer(list)
}
