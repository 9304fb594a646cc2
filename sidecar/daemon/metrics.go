package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edgeward/edgeward/sidecar/follow/plan"
)

func compare[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

func (d *daemon) serveMetrics(ctx context.Context) error {
	if d.plan.Run.Metrics == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", d.plan.Run.Metrics)
	if err != nil {
		return fmt.Errorf("listening for metrics: %w", err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{d})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	d.task(func() error { return serveHTTP(ctx, l, mux) })
	return nil
}

// collector makes metrics of a status.
type collector struct{ d *daemon }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("edge_sidecar_"+name, help, labels, nil)
}

var (
	upDesc      = desc("haproxy_up", "1 if HAProxy answers.")
	blockedDesc = desc("blocked", "1 if nothing is written, because HAProxy checks our servers itself.")
	knownDesc   = desc("source_known", "1 if the source says something that is believed.")
	ageDesc     = desc("source_age_seconds", "Time since the source was heard last.")
	memberDesc  = desc("member_serving", "1 if a member is seen to take visitors.", "backend", "gateway")
	doneDesc    = desc("member_as_wanted", "1 if a member is seen to be as the source wants it.", "backend", "gateway")
	openDesc    = desc("member_sessions", "Open connections of a member.", "backend", "gateway")
	writesDesc  = desc("writes_total", "Changes written to HAProxy.")
	missedDesc  = desc("writes_unconfirmed_total", "Changes that could not be read back.")
	driftDesc   = desc("drift_total", "Servers that somebody else has changed.")
	errorsDesc  = desc("errors_total", "Calls to HAProxy that failed, or had no effect.")
	workersDesc = desc("workers_total", "Workers of HAProxy that were told all.")
	tookDesc    = desc("last_write_seconds", "How long the last changes took, with reading back.")
	agentDesc   = desc("agent_checks_total", "Agent checks, by what they were told.", "answer")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := c.d.status(context.Background()) // the client's own deadline ends it
	gauge(knownDesc, yes(s.Source.Known))
	if !s.Source.Heard.IsZero() {
		gauge(ageDesc, time.Since(s.Source.Heard).Seconds())
	}
	if a := s.Agents; a != nil {
		count(agentDesc, a.Asked, "state")
		count(agentDesc, a.Unknown, "unknown")
		count(agentDesc, a.Refused, "refused")
	}
	h := s.HAProxy
	if h == nil {
		return
	}
	gauge(upDesc, yes(h.Worker != 0))
	gauge(blockedDesc, yes(h.Blocked != ""))
	gauge(tookDesc, h.Counts.Took.Seconds())
	count(writesDesc, h.Counts.Writes)
	count(missedDesc, h.Counts.Unconfirmed)
	count(driftDesc, h.Counts.Drift)
	count(errorsDesc, h.Counts.Errors)
	count(workersDesc, h.Counts.Workers)
	for _, m := range h.Members {
		gauge(memberDesc, yes(m.Seen != nil && *m.Seen == plan.Ready), m.Backend, m.Gateway)
		gauge(doneDesc, yes(m.Done), m.Backend, m.Gateway)
		if open, ok := s.Sessions[m.Backend+"/"+m.Gateway]; ok {
			gauge(openDesc, float64(open), m.Backend, m.Gateway)
		}
	}
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
