package cluster

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeward/edgeward/internal/cluster"
)

// collector reads the member when Prometheus asks, so that what it says survives config
// reloads: each config has a fresh registry. Of an etcd that others run it says nothing:
// that has metrics of its own.
type collector struct{}

// registerMetrics adds the cluster to a config's registry. Twice does no harm.
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
	return prometheus.NewDesc("edge_cluster_"+name, help, labels, nil)
}

var (
	mState   = desc("state", "1 for the state of the member here.", "state")
	mQuorum  = desc("has_leader", "1 while the member here is part of a majority with a leader.")
	mLeader  = desc("is_leader", "1 while the member here leads.")
	mLearner = desc("is_learner", "1 while the member here does not vote yet.")
	mMembers = desc("members", "Members of the cluster, learners included.")
	mHealthy = desc("members_healthy", "Members that have reported themselves within a minute; missing without a majority.")
	mSize    = desc("data_bytes", "What the data takes on disk here.")
	mInUse   = desc("data_in_use_bytes", "What of it holds something.")
	mCopy    = desc("last_snapshot_timestamp_seconds", "When the last copy of the data was made here, in seconds since 1970.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{mState, mQuorum, mLeader, mLearner, mMembers, mHealthy, mSize, mInUse, mCopy} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	now := current()
	if now == nil || now.node == nil {
		return
	}
	m := sink{ch}
	s := now.status(context.Background())
	for _, state := range []cluster.State{
		cluster.StateNone, cluster.StateStarting, cluster.StateRunning, cluster.StateFailed,
		cluster.StateRemoved, cluster.StateBroken, cluster.StateStopped,
	} {
		m.flag(mState, s.State == state, string(state))
	}
	m.flag(mQuorum, s.Quorum)
	m.flag(mLeader, s.Quorum && s.Leader == s.Name)
	m.flag(mLearner, s.Learner)
	if !s.Copy.IsZero() {
		m.gauge(mCopy, float64(s.Copy.UnixNano())/1e9)
	}
	if len(s.Members) == 0 {
		return
	}
	m.gauge(mMembers, float64(len(s.Members)))
	if s.Quorum {
		m.gauge(mHealthy, float64(healthy(s.Members)))
	}
	m.gauge(mSize, float64(s.Size))
	m.gauge(mInUse, float64(s.InUse))
}

func healthy(members []cluster.MemberStatus) (n int) {
	for _, m := range members {
		if m.Health == cluster.HealthGood {
			n++
		}
	}
	return n
}

// sink writes metrics.
type sink struct{ ch chan<- prometheus.Metric }

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

var _ prometheus.Collector = collector{}
