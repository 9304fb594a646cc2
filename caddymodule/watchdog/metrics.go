package watchdog

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// collector reads the watchdog's status when Prometheus asks, so that numbers survive
// config reloads: each config has a fresh registry, and the same watchdog is
// registered in it anew. Labels are names from the config.
type collector struct{ broker *broker }

// registerMetrics adds the watchdog to a config's registry. Twice does no harm.
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
	return prometheus.NewDesc("edge_watchdog_"+name, help, labels, nil)
}

var (
	mApply = desc("apply", "1 if writes are permitted, 0 in a dry run.")

	mProbeSuccess  = desc("probe_success", "1 if the latest probe was good, 0 if it was bad; not there while it is unknown.", "site", "probe", "path", "family")
	mProbeDuration = desc("probe_duration_seconds", "How long the latest probe took.", "site", "probe", "path", "family")
	mProbeTime     = desc("probe_timestamp_seconds", "When the latest probe began, in seconds since 1970.", "site", "probe", "path", "family")
	mProbeStatus   = desc("probe_http_status_code", "The status of the latest answer.", "site", "probe", "path", "family")
	mProbeCert     = desc("probe_ssl_earliest_cert_expiry", "When the certificate expires, in seconds since 1970.", "site", "probe", "path", "family")
	mProbes        = desc("probes_total", "Probes, by what they saw.", "site", "probe", "path", "family", "value")

	mPathUsable   = desc("path_usable", "1 if the path works, as far as was seen at the pace at which it is looked at.", "site", "path")
	mPathServing  = desc("path_serving", "1 for the path that the records name.", "site", "path")
	mPathFailed   = desc("path_failed", "1 if the path is taken for dead.", "site", "path")
	mPathFailures = desc("path_failures", "Failures of the latest probes that are looked at.", "site", "path")
	mPathHealthy  = desc("path_healthy_seconds", "How long the path has been well without a break.", "site", "path")

	mPhase     = desc("site_phase", "1 for the phase the site is in.", "site", "phase")
	mBlind     = desc("blind", "1 while our own connection is lost, so that nothing is known.", "site")
	mPaused    = desc("paused", "1 while an operator forbids writes.", "site")
	mPinned    = desc("pinned", "1 while an operator keeps the site where it is.", "site")
	mDrifts    = desc("drifts", "Differences between the records and what they should hold.", "site")
	mLastMove  = desc("last_move_timestamp_seconds", "When the records were last moved, in seconds since 1970.", "site")
	mMovesLeft = desc("moves_left", "Moves that the hour has left before the way back closes; not there without a budget.", "site")
	mRead      = desc("records_read_timestamp_seconds", "When the records were last read, in seconds since 1970.", "site")
	mWrites    = desc("writes_total", "Writes asked for, by cause.", "site", "cause")
	mOutcomes  = desc("write_outcomes_total", "Answers to writes, by outcome.", "site", "outcome")
	mDecisions = desc("decisions_total", "Decisions that said something.", "site")

	mRequests   = desc("api_requests_total", "Requests to the provider since the config was loaded.", "zone")
	mBudget     = desc("api_budget_remaining", "Requests that are left in five minutes.", "zone")
	mAPIUp      = desc("api_up", "1 if the latest request to the provider was answered as it should be.", "zone")
	mAPIBackoff = desc("api_backoff_seconds", "How long the provider is not asked again, because it refused or failed.", "zone")

	mNoticesQueued = desc("notices_queued", "Notices that somebody does not have yet.")
	mDelivered     = desc("notices_delivered_total", "Notices delivered.", "channel")
	mNoticeFails   = desc("notice_failures", "Attempts that failed, in a row.", "channel")
	mIncidents     = desc("incidents_open", "Incidents that are open.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		mApply, mProbeSuccess, mProbeDuration, mProbeTime, mProbeStatus, mProbeCert, mProbes,
		mPathUsable, mPathServing, mPathFailed, mPathFailures, mPathHealthy,
		mPhase, mBlind, mPaused, mPinned, mDrifts, mLastMove, mMovesLeft, mRead, mWrites, mOutcomes, mDecisions,
		mRequests, mBudget, mAPIUp, mAPIBackoff, mNoticesQueued, mDelivered, mNoticeFails, mIncidents,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	now := c.broker.live.Load()
	if now == nil {
		return
	}
	st, err := now.Status()
	if err != nil {
		return // it is being stopped
	}
	m := sink{ch}
	m.flag(mApply, st.Apply)
	for _, s := range st.Sites {
		m.site(s)
		m.counts(now, s)
	}
	for _, z := range st.Zones {
		m.zone(z)
	}
	m.notices(st.Notices)
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

// time leaves out what has not happened.
func (m sink) time(d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		m.gauge(d, float64(t.UnixMilli())/1e3, labels...)
	}
}

func (m sink) site(s watchdog.SiteStatus) {
	for _, phase := range decide.Phases() {
		m.flag(mPhase, s.Phase == phase, s.Site, string(phase))
	}
	m.flag(mBlind, s.Phase == decide.Blind, s.Site)
	m.flag(mPaused, s.Paused != nil, s.Site)
	m.flag(mPinned, s.Pinned != "", s.Site)
	m.gauge(mDrifts, float64(len(s.Drifts)), s.Site)
	m.time(mLastMove, s.LastMove, s.Site)
	m.time(mRead, s.RecordsAt, s.Site)
	if s.BudgetLeft >= 0 {
		m.gauge(mMovesLeft, float64(s.BudgetLeft), s.Site)
	}
	for _, p := range s.Paths {
		m.flag(mPathUsable, p.Usable, s.Site, p.Path)
		m.flag(mPathServing, p.Serving, s.Site, p.Path)
		m.flag(mPathFailed, p.Failed, s.Site, p.Path)
		m.gauge(mPathFailures, float64(p.Failures), s.Site, p.Path)
		m.gauge(mPathHealthy, p.HealthyFor, s.Site, p.Path)
	}
	for _, p := range probesOf(s) {
		m.probe(s.Site, p)
	}
}

// seen is a probe of a site with the words that name it.
type seen struct {
	*watchdog.ProbeStatus
	kind, path, family string
}

// probesOf lists all probes of a site that have been made.
func probesOf(s watchdog.SiteStatus) []seen {
	list := []seen{{s.Witness4, "witness", "", "ipv4"}, {s.Witness6, "witness", "", "ipv6"}}
	if s.Local != nil {
		list = append(list, seen{s.Local, "local", "", familyOf(s.Local.Address)})
	}
	for _, p := range s.Paths {
		list = append(list, seen{p.V4, "path", p.Path, "ipv4"}, seen{p.V6, "path", p.Path, "ipv6"})
	}
	made := list[:0]
	for _, p := range list {
		if p.ProbeStatus != nil {
			made = append(made, p)
		}
	}
	return made
}

func familyOf(address string) string {
	if addr, err := netip.ParseAddrPort(address); err == nil && addr.Addr().Is6() {
		return "ipv6"
	}
	return "ipv4"
}

func (m sink) probe(site string, p seen) {
	labels := []string{site, p.kind, p.path, p.family}
	if p.Value != evidence.Unknown {
		m.flag(mProbeSuccess, p.Value == evidence.Good, labels...)
	}
	m.gauge(mProbeDuration, p.Took, labels...)
	m.time(mProbeTime, p.At, labels...)
	if p.Status != 0 {
		m.gauge(mProbeStatus, float64(p.Status), labels...)
	}
	m.time(mProbeCert, p.Expires, labels...)
}

func (m sink) counts(now *live, s watchdog.SiteStatus) {
	c, ok := now.SiteCounts(s.Site)
	if !ok {
		return
	}
	for _, cause := range []decide.Cause{decide.Failover, decide.Return, decide.Repair, decide.Manual, decide.Withdraw, decide.Rehearsal} {
		m.count(mWrites, c.Writes[cause], s.Site, string(cause))
	}
	for _, o := range []decide.Outcome{decide.Confirmed, decide.Refused, decide.Unsure, decide.Dry} {
		m.count(mOutcomes, c.Outcomes[o], s.Site, o.String())
	}
	m.count(mDecisions, c.Decisions, s.Site)
	for source, values := range c.Probes {
		kind, path, family := words(source, s)
		for _, v := range []evidence.Value{evidence.Good, evidence.Bad, evidence.Unknown} {
			m.count(mProbes, values[v], s.Site, kind, path, family, v.String())
		}
	}
}

// words name a source as probesOf does.
func words(of decide.Source, s watchdog.SiteStatus) (kind, path, family string) {
	family = "ipv4"
	if of.V6 {
		family = "ipv6"
	}
	switch {
	case of.Kind == decide.Witness:
		return "witness", "", family
	case of.Kind == decide.Local && s.Local != nil:
		return "local", "", familyOf(s.Local.Address)
	case of.Kind == decide.Local:
		return "local", "", family
	case of.Path < len(s.Paths):
		return "path", s.Paths[of.Path].Path, family
	}
	return "path", "", family
}

func (m sink) zone(z watchdog.ZoneStatus) {
	name := cmp.Or(z.Zone, z.ID)
	m.count(mRequests, uint64(max(z.Requests, 0)), name)
	m.gauge(mBudget, float64(z.BudgetLeft), name)
	m.flag(mAPIUp, z.Error == "" && !z.ReadAt.IsZero(), name)
	m.gauge(mAPIBackoff, max(time.Until(z.BackoffUntil), 0).Seconds(), name)
}

func (m sink) notices(s notify.Stats) {
	m.gauge(mNoticesQueued, float64(s.Queued))
	m.gauge(mIncidents, float64(len(s.Open)))
	for _, c := range s.Channels {
		m.count(mDelivered, c.Delivered, c.Name)
		m.gauge(mNoticeFails, float64(c.Failures), c.Name)
	}
}

var _ prometheus.Collector = collector{}
