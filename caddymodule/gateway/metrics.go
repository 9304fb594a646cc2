package gateway

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeward/edgeward/relay/agent"
)

// collector reads the gateway's own counters when Prometheus asks, so that they survive
// config reloads: each config has a fresh registry, and the same numbers are registered
// in it anew. Labels are names of routes, never a visitor's.
type collector struct{}

// registerMetrics adds the gateway to a config's registry. Twice does no harm.
func registerMetrics(r *prometheus.Registry) {
	if r == nil {
		return
	}
	if err := r.Register(collector{}); err != nil {
		if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); !twice {
			panic(err) // two metrics of one name: a mistake in this file
		}
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("edge_agent_"+name, help, labels, nil)
}

var (
	mState     = desc("state", "1 for the state of the contact with the relay.", "state")
	mSent      = desc("heartbeats_total", "Heartbeats sent by this run of the agent.")
	mRepeated  = desc("heartbeats_repeated_total", "Heartbeats sent because the one before was not answered in time.")
	mAnswered  = desc("last_answer_timestamp_seconds", "When the relay last answered a heartbeat, in seconds since 1970.")
	mCurrent   = desc("table_current", "1 if the table that the relay wants here is in force.")
	mRoutes    = desc("routes", "Routes in the table in force.")
	mFailed    = desc("routes_failed", "Routes that do not work here.")
	mTunnelAge = desc("tunnel_age_seconds", "How long ago the tunnel last shook hands; missing if not known.")

	mRouteOK     = desc("route_ok", "1 if nothing is known to be wrong with the route here.", "route")
	mRouteOpen   = desc("route_connections_open", "Connections and requests open now, by route.", "route")
	mRouteServed = desc("route_connections_total", "Connections and requests served, by route.", "route")
	mRouteBytes  = desc("route_bytes_total", "Bytes of connections; up is towards home.", "route", "direction")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		mState, mSent, mRepeated, mAnswered, mCurrent, mRoutes, mFailed, mTunnelAge,
		mRouteOK, mRouteOpen, mRouteServed, mRouteBytes,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	_, now := current()
	if now == nil {
		return
	}
	m := sink{ch}
	s := now.status()
	for _, state := range []string{agent.Connected, agent.Disconnected, agent.Unpaired, agent.Refused} {
		m.flag(mState, s.State == state, state)
	}
	m.count(mSent, s.Sent)
	m.count(mRepeated, s.Repeated)
	if !s.Answered.IsZero() {
		m.gauge(mAnswered, float64(s.Answered.UnixNano())/1e9)
	}
	m.flag(mCurrent, s.Wanted != "" && s.Wanted == s.Hash)
	m.gauge(mRoutes, float64(len(s.Routes)))
	m.gauge(mFailed, float64(len(s.Failed)))
	if s.TunnelAge >= 0 {
		m.gauge(mTunnelAge, s.TunnelAge)
	}
	seen := map[string]bool{}
	for _, r := range s.Routes {
		if !seen[r.Route] { // a relay that sends a name twice spoils no metrics
			m.route(r)
		}
		seen[r.Route] = true
	}
}

// sink writes metrics.
type sink struct{ ch chan<- prometheus.Metric }

func (m sink) count(d *prometheus.Desc, n uint64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (m sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (m sink) flag(d *prometheus.Desc, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	m.gauge(d, v, labels...)
}

func (m sink) route(r agent.Route) {
	m.flag(mRouteOK, r.Fault == "", r.Route)
	m.gauge(mRouteOpen, float64(r.Open), r.Route)
	m.count(mRouteServed, r.Served, r.Route)
	m.count(mRouteBytes, r.Up, r.Route, "up")
	m.count(mRouteBytes, r.Down, r.Route, "down")
}

var _ prometheus.Collector = collector{}
