package edge

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// collector reads the relay's own counters when Prometheus asks, so that they
// survive config reloads: each config has a fresh registry, and the same numbers
// are registered in it anew. Labels are names from the config, never a visitor's.
type collector struct{ broker *broker }

// registerMetrics adds the relay to a config's registry. Twice does no harm.
func (b *broker) registerMetrics(r *prometheus.Registry) {
	if r == nil {
		return
	}
	if err := r.Register(collector{b}); err != nil {
		if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); !twice {
			panic(err) // two metrics of one name: a mistake in this file
		}
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("edgeward_"+name, help, labels, nil)
}

var (
	mAccepted     = desc("connections_accepted_total", "Connections accepted.", "listener")
	mAcceptErrors = desc("accept_errors_total", "Times accepting failed and was paused, for want of descriptors say.", "listener")
	mOpen         = desc("connections_open", "Connections open now.", "listener")
	mEnded        = desc("connections_ended_total", "Connections that reached a gateway and ended, by reason.", "listener", "reason")
	mRefused      = desc("connections_refused_total", "Connections refused, by reason.", "listener", "reason")
	mECH          = desc("client_hello_ech_total", "ClientHellos with an encrypted_client_hello extension.", "listener")
	mHelloBytes   = desc("client_hello_bytes", "Size of ClientHellos on the wire.", "listener")
	mHelloSegs    = desc("client_hello_segments", "Reads it took to have a whole ClientHello.", "listener")
	mDial         = desc("dial_seconds", "Time from accept to the gateway's connection.", "listener")
	mSources      = desc("limit_sources", "Sources that limits remember.", "listener")
	mEvictions    = desc("limit_evictions_total", "Sources forgotten to make room.", "listener")

	mRouteOpen   = desc("route_connections_open", "Connections open now, by route.", "route")
	mRouteServed = desc("route_connections_total", "Connections served, by route.", "route")
	mRouteBytes  = desc("route_bytes_total", "Bytes carried; up is towards home.", "route", "direction")

	mGatewayState  = desc("gateway_state", "1 for the phase the gateway is in.", "gateway", "state")
	mGatewayOpen   = desc("gateway_connections_open", "Connections open now, by gateway.", "gateway")
	mGatewayServed = desc("gateway_connections_total", "Connections served, by gateway.", "gateway")
	mGatewayBytes  = desc("gateway_bytes_total", "Bytes carried; up is towards home.", "gateway", "direction")
	mGatewayFaults = desc("gateway_faults_total", "What visitors' connections found wrong, by fault.", "gateway", "fault")
	mCheckSuccess  = desc("check_success", "1 if the latest check was good.", "gateway")
	mCheckDuration = desc("check_duration_seconds", "How long the latest check took.", "gateway")
	mCertExpiry    = desc("check_ssl_earliest_cert_expiry", "When the gateway's certificate expires, in seconds since 1970.", "gateway")

	mPoolRole     = desc("pool_member_role", "1 for the role a member has in its pool.", "pool", "gateway", "role")
	mPoolServing  = desc("pool_serving_members", "Members that new connections go to.", "pool")
	mPoolOpen     = desc("pool_connections_open", "Connections open now, by pool.", "pool")
	mPoolOutages  = desc("pool_outages_total", "Visitors whom no member answered.", "pool")
	mPoolTakeover = desc("pool_takeover_seconds", "Time to the first byte for visitors whom not the first member dialled served.", "pool")

	mSnapshotVersion = desc("snapshot_version", "Version of the health snapshot.")
	mSnapshotTime    = desc("snapshot_timestamp_seconds", "When the health snapshot last changed, in seconds since 1970.")
	mEvidenceLost    = desc("evidence_lost_total", "Observations of traffic dropped because more came than could be judged.")
	mChecksDelayed   = desc("checks_delayed_total", "Checks that waited for others to end.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		mAccepted, mAcceptErrors, mOpen, mEnded, mRefused, mECH, mHelloBytes, mHelloSegs, mDial, mSources, mEvictions,
		mRouteOpen, mRouteServed, mRouteBytes, mGatewayState, mGatewayOpen, mGatewayServed, mGatewayBytes, mGatewayFaults,
		mCheckSuccess, mCheckDuration, mCertExpiry, mPoolRole, mPoolServing, mPoolOpen, mPoolOutages, mPoolTakeover,
		mSnapshotVersion, mSnapshotTime, mEvidenceLost, mChecksDelayed,
		mAgentConnected, mAgentLast, mAgentBeats, mAgentLost, mAgentCurrent, mAgentFaults, mEvents, mRoutesParked, mRoutesOut,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	r := c.broker.relay()
	if r == nil {
		return
	}
	m := sink{ch}
	r.Listeners(m.listener)
	m.routes(r)
	snapshot := r.Monitor.Snapshot()
	for _, g := range snapshot.Gateways {
		m.gateway(g)
	}
	for _, p := range snapshot.Pools {
		m.pool(p)
	}
	m.gauge(mSnapshotVersion, float64(snapshot.Version))
	m.gauge(mSnapshotTime, float64(snapshot.At.UnixNano())/1e9)
	stats := r.Monitor.Stats()
	m.count(mEvidenceLost, stats.Lost)
	m.count(mChecksDelayed, stats.Delayed)
	if f := c.broker.fleet(); f != nil {
		m.fleet(f)
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

func (m sink) histogram(d *prometheus.Desc, h *session.Histogram, labels ...string) {
	count, sum, buckets := h.Read()
	m.ch <- prometheus.MustNewConstHistogram(d, count, sum, buckets, labels...)
}

func (m sink) bytes(d *prometheus.Desc, t *session.Traffic, label string) {
	m.count(d, t.BytesUp.Load(), label, "up")
	m.count(d, t.BytesDown.Load(), label, "down")
}

func (m sink) listener(l *session.Listener) {
	m.count(mAccepted, l.Accepted.Load(), l.Name)
	m.count(mAcceptErrors, l.AcceptErrors.Load(), l.Name)
	m.gauge(mOpen, float64(l.Open.Load()), l.Name)
	for _, why := range session.Reasons() {
		d := mEnded
		if why.Refusal() {
			d = mRefused
		}
		if why != session.None {
			m.count(d, l.Ended[why].Load(), l.Name, why.String())
		}
	}
	m.count(mECH, l.ECH.Load(), l.Name)
	m.histogram(mHelloBytes, l.HelloBytes, l.Name)
	m.histogram(mHelloSegs, l.HelloSegments, l.Name)
	m.histogram(mDial, l.DialSeconds, l.Name)
	s := l.Limits.Stats()
	m.gauge(mSources, float64(s.Sources), l.Name)
	m.count(mEvictions, s.Evictions, l.Name)
}

func (m sink) routes(r *relay.Relay) {
	r.Routes(func(name string, s *session.RouteStats) {
		m.gauge(mRouteOpen, float64(s.Open.Load()), name)
		m.count(mRouteServed, s.Served.Load(), name)
		m.bytes(mRouteBytes, &s.Traffic, name)
	})
}

func (m sink) gateway(g monitor.GatewayView) {
	for _, phase := range []health.Phase{health.Unknown, health.Alive, health.Down} {
		m.flag(mGatewayState, g.Phase == phase, g.Name, phase.String())
	}
	m.gauge(mGatewayOpen, float64(g.Live.Open.Load()), g.Name)
	m.count(mGatewayServed, g.Live.Served.Load(), g.Name)
	m.bytes(mGatewayBytes, &g.Live.Traffic, g.Name)
	for name, n := range api.Faults(g.Live) {
		m.count(mGatewayFaults, n, g.Name, name)
	}
	if g.Check == nil {
		return
	}
	m.flag(mCheckSuccess, g.Check.OK, g.Name)
	m.gauge(mCheckDuration, g.Check.Latency, g.Name)
	if !g.Check.CertExpiry.IsZero() {
		m.gauge(mCertExpiry, float64(g.Check.CertExpiry.Unix()), g.Name)
	}
}

func (m sink) pool(p monitor.PoolView) {
	serving := 0
	for _, member := range p.Members {
		for role := pool.RoleUnknown; role <= pool.RoleDisabled; role++ {
			m.flag(mPoolRole, member.Role == role, p.Name, member.Gateway, role.String())
		}
		if member.Role == pool.RoleServing {
			serving++
		}
	}
	m.gauge(mPoolServing, float64(serving), p.Name)
	m.gauge(mPoolOpen, float64(p.Live.Open.Load()), p.Name)
	m.count(mPoolOutages, p.Live.Outages.Load(), p.Name)
	m.histogram(mPoolTakeover, p.Live.Takeover, p.Name)
}

var _ prometheus.Collector = collector{}
