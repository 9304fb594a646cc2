package fallback

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// collector reads the status when Prometheus asks, so that numbers survive config
// reloads: each config has a fresh registry, and the same broker is registered in it
// anew. Labels are names from the config.
type collector struct{ broker *broker }

// registerMetrics adds the fallback to a config's registry. Twice does no harm.
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
	return prometheus.NewDesc("edgeward_fallback_"+name, help, labels, nil)
}

var (
	mInfo = desc("info", "1, with this home, the version of the program and the hash of what all homes must have alike.", "id", "version", "config")

	mState    = desc("state", "1 for the stage of the home, as this one sees it.", "home", "state")
	mSince    = desc("state_timestamp_seconds", "Since when it is in that stage, in seconds since 1970.", "home")
	mRemote   = desc("remote_up", "1 if the home was seen well, 0 if it was not; not there while it is unknown.", "home")
	mInternet = desc("internet_up", "1 if our own connection works, 0 if it does not; not there while it is unknown.", "home")
	mHolder   = desc("lease_holder", "1 for the home that holds the lease.", "home", "holder")
	mEpoch    = desc("lease_epoch", "The epoch of the lease that was seen last.", "home")
	mLeft     = desc("lease_left_seconds", "How long our lease of the home lasts without another word; not there while we have none.", "home")
	mOutage   = desc("outage_seconds", "How long the home has been covered or gone, 0 if it serves itself.", "home")
	mDNS      = desc("dns_on", "1 while this home updates the home's records.", "home")
	mVerified = desc("dns_verified", "1 if name servers and a resolver show what was written.", "home")
	mItems    = desc("items", "Items as they are seen at this home. Tier 0 is what runs everywhere.", "home", "tier", "seen")
	mHeld     = desc("items_held", "Items that are not started here until a person says go.", "home")
	mStale    = desc("items_stale", "Items whose newest data may be at another home.", "home")
	mHold     = desc("hold", "1 while a person holds everything.", "home")
	mStrikes  = desc("strikes", "Good looks in a row, of those that a handback wants.", "home")
	mCarrying = desc("writeback_left_bytes", "What is left of the writeback that is under way; not there if there is none.", "home")

	mDrillAge = desc("drill_age_seconds", "How long ago the last good drill of a home was that this one covers; not there if there was none.", "home")
	mDrillDue = desc("drill_due", "1 if that is longer ago than drill_due, or there was none.", "home")

	mBytes   = desc("writeback_bytes_total", "Bytes carried back since the process started.", "home")
	mFailed  = desc("steps_failed_total", "Steps that failed since the process started.", "home")
	mChanges = desc("transitions_total", "Changes of the stage since the process started.", "home")
	mRefused = desc("peer_refusals_total", "What other homes asked and were refused, by code.", "code")

	mNoticesQueued = desc("notices_queued", "Notices that somebody does not have yet.")
	mDelivered     = desc("notices_delivered_total", "Notices delivered.", "channel")
	mNoticeFails   = desc("notice_failures", "Attempts that failed, in a row.", "channel")
	mIncidents     = desc("incidents_open", "Incidents that are open.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		mInfo, mState, mSince, mRemote, mInternet, mHolder, mEpoch, mLeft, mOutage, mDNS, mVerified, mItems, mHeld, mStale, mHold,
		mStrikes, mCarrying, mDrillAge, mDrillDue, mBytes, mFailed, mChanges, mRefused, mNoticesQueued, mDelivered, mNoticeFails, mIncidents,
	} {
		ch <- d
	}
}

// stages are all there are.
var stages = []fallback.Stage{
	fallback.Gated, fallback.Covered, fallback.Starting, fallback.Serving, fallback.Yielding,
	fallback.Normal, fallback.Waiting, fallback.Fallback, fallback.Handback, fallback.GivenBack, fallback.Dark,
	fallback.Asks, fallback.NoInternet, fallback.Fenced,
}

// seen are all that may be seen of an item.
var seen = []control.Running{control.RunningWell, control.RunningIll, control.RunningStopped, control.RunningUnknown}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	r := c.broker.live.Load()
	if r == nil {
		return
	}
	m, now := sink{ch}, time.Now()
	st := r.control.Show()
	m.gauge(mInfo, 1, st.ID, st.Version, st.Config)
	tallies, refused := r.tallies.snapshot()
	for _, h := range st.Homes {
		m.home(h, now)
		m.items(h)
		t := tallies[h.Home]
		m.count(mBytes, t.bytes, h.Home)
		m.count(mFailed, t.failed, h.Home)
		m.count(mChanges, t.changes, h.Home)
	}
	for code, n := range refused {
		m.count(mRefused, n, string(code))
	}
	for _, a := range r.ages(now) {
		if a.Seconds != nil {
			m.gauge(mDrillAge, *a.Seconds, a.Home)
		}
		m.flag(mDrillDue, a.Overdue, a.Home)
	}
	m.notices(r.notices.outbox.Stats())
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

// known leaves out what is not known.
func (m sink) known(d *prometheus.Desc, v evidence.Value, labels ...string) {
	if v != evidence.Unknown {
		m.flag(d, v == evidence.Good, labels...)
	}
}

func (m sink) home(h control.HomeStatus, now time.Time) {
	for _, s := range stages {
		m.flag(mState, h.Stage == s, h.Home, string(s))
	}
	if !h.Since.IsZero() {
		m.gauge(mSince, float64(h.Since.UnixMilli())/1e3, h.Home)
	}
	if !h.Own {
		m.known(mRemote, h.Remote, h.Home)
	}
	m.known(mInternet, h.Internet, h.Home)
	if h.Holder != "" {
		m.gauge(mHolder, 1, h.Home, h.Holder)
	}
	m.gauge(mEpoch, float64(h.Epoch), h.Home)
	if !h.Until.IsZero() {
		m.gauge(mLeft, max(h.Until.Sub(now), 0).Seconds(), h.Home)
	}
	m.gauge(mOutage, outage(h, now).Seconds(), h.Home)
	m.flag(mDNS, h.DNS, h.Home)
	m.flag(mVerified, h.Verified, h.Home)
	m.flag(mHold, h.Hold != nil, h.Home)
	m.gauge(mStrikes, float64(h.Strikes), h.Home)
	if c := h.Carrying; c != nil {
		m.gauge(mCarrying, float64(max(c.Total-c.Bytes, 0)), h.Home)
	}
}

// outage is how long the home has not served itself.
func outage(h control.HomeStatus, now time.Time) time.Duration {
	if h.Seat.Phase == fallback.PhaseOwn || h.Seat.Outage.IsZero() {
		return 0
	}
	return max(now.Sub(h.Seat.Outage), 0)
}

func (m sink) items(h control.HomeStatus) {
	count, tiers := map[int]map[control.Running]int{}, []int{}
	held, stale := 0, 0
	for _, i := range h.Items {
		if count[i.Tier] == nil {
			count[i.Tier] = map[control.Running]int{}
			tiers = append(tiers, i.Tier)
		}
		count[i.Tier][i.Seen]++
		if i.Held {
			held++
		}
		if i.Stale != "" {
			stale++
		}
	}
	slices.Sort(tiers)
	for _, n := range tiers {
		for _, s := range seen {
			m.gauge(mItems, float64(count[n][s]), h.Home, strconv.Itoa(n), string(s))
		}
	}
	m.gauge(mHeld, float64(held), h.Home)
	m.gauge(mStale, float64(stale), h.Home)
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
