package watchdog

import (
	"errors"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// Status is what a watchdog shows of itself. Durations are in seconds.
type Status struct {
	// Apply: writes are permitted.
	Apply   bool         `json:"apply"`
	Since   time.Time    `json:"since"`
	Sites   []SiteStatus `json:"sites"`
	Zones   []ZoneStatus `json:"zones"`
	Notices notify.Stats `json:"notices"`
}

// SiteStatus is what is known of a site.
type SiteStatus struct {
	Site  string       `json:"site"`
	Names []string     `json:"names"`
	Phase decide.Phase `json:"phase"`
	// On is the path that the records name; Want the one that they should.
	On   string `json:"on,omitempty"`
	Want string `json:"want,omitempty"`
	// Why is what keeps things as they are.
	Why string `json:"why"`
	// Records says what the records hold: a path, mixed, unknown or a conflict.
	Records   string    `json:"records"`
	RecordsAt time.Time `json:"records_at,omitzero"`
	// Drifts are the differences from what the records should hold.
	Drifts   []string     `json:"drifts,omitempty"`
	LeftOut  string       `json:"left_out,omitempty"`
	Paths    []PathStatus `json:"paths"`
	Local    *ProbeStatus `json:"local,omitempty"`
	Witness4 *ProbeStatus `json:"witness4,omitempty"`
	Witness6 *ProbeStatus `json:"witness6,omitempty"`
	LastMove time.Time    `json:"last_move,omitzero"`
	// DwellLeft is how long no move back is made.
	DwellLeft float64 `json:"dwell_left,omitzero"`
	// BudgetLeft is how many moves the hour has left; -1: there is no limit.
	BudgetLeft int           `json:"budget_left"`
	Paused     *decide.Pause `json:"paused,omitempty"`
	Pinned     string        `json:"pinned,omitempty"`
	// Drill is one that is under way.
	Drill *DrillStatus `json:"drill,omitempty"`
	// Visible is what was last seen of a change in DNS.
	Visible *VisibleStatus `json:"visible,omitempty"`
}

// DrillStatus is a drill under way.
type DrillStatus struct {
	To   string `json:"to"`
	Back string `json:"back"`
	// Until is when the way back begins; Over: it has.
	Until time.Time `json:"until"`
	Over  bool      `json:"over,omitempty"`
}

// VisibleStatus is what name servers and resolvers said of a change.
type VisibleStatus struct {
	Path  string         `json:"path"`
	At    time.Time      `json:"at"`
	Took  float64        `json:"took"`
	Value evidence.Value `json:"value"`
	Text  string         `json:"text"`
}

// PathStatus is what is known of a path.
type PathStatus struct {
	Path    string `json:"path"`
	Serving bool   `json:"serving"`
	// Usable: it could be written now. Failed: it is taken for dead.
	Usable bool   `json:"usable"`
	Failed bool   `json:"failed"`
	Why    string `json:"why"`
	// Failures of the last Window probes.
	Failures     int            `json:"failures"`
	Window       int            `json:"window"`
	HealthyFor   float64        `json:"healthy_for"`
	RecoveryLeft float64        `json:"recovery_left"`
	Addresses    []string       `json:"addresses"`
	Proxied      bool           `json:"proxied,omitempty"`
	V4           *ProbeStatus   `json:"v4,omitempty"`
	V6           *ProbeStatus   `json:"v6,omitempty"`
	Value        evidence.Value `json:"value"`
}

// ProbeStatus is the last result of one kind of probe.
type ProbeStatus struct {
	Value   evidence.Value `json:"value"`
	Reason  string         `json:"reason"`
	Detail  string         `json:"detail,omitempty"`
	At      time.Time      `json:"at"`
	Took    float64        `json:"took"`
	Address string         `json:"address,omitempty"`
	Status  int            `json:"status,omitempty"`
	// Expires is when the certificate does.
	Expires  time.Time `json:"expires,omitzero"`
	Issuer   string    `json:"issuer,omitempty"`
	Node     string    `json:"node,omitempty"`
	Ray      string    `json:"ray,omitempty"`
	Cache    string    `json:"cache,omitempty"`
	Degraded []string  `json:"degraded,omitempty"`
}

// ZoneStatus is what is known of a zone and of the way to it.
type ZoneStatus struct {
	Zone    string    `json:"zone"`
	ID      string    `json:"id,omitempty"`
	ReadAt  time.Time `json:"read_at,omitzero"`
	Records int       `json:"records"`
	Error   string    `json:"error,omitempty"`
	// Requests since the start, and what is left for urgent ones in five minutes.
	Requests     int       `json:"requests"`
	BudgetLeft   int       `json:"budget_left"`
	BackoffUntil time.Time `json:"backoff_until,omitzero"`
	NameServers  []string  `json:"name_servers,omitempty"`
}

// PlanStatus is what it would take to bring a site to a path.
type PlanStatus struct {
	Path    string   `json:"path"`
	Changes []string `json:"changes,omitempty"`
	Refused []string `json:"refused,omitempty"`
}

// publish makes the site's status.
func (s *site) publish(now time.Time) {
	e := decide.Explain(s.cfg.Policy, s.state, now)
	st := &SiteStatus{
		Site: s.cfg.Name, Names: s.cfg.Names, Phase: e.Phase, On: e.On, Want: e.Want, Why: e.Why,
		Records: s.state.Records.Describe(s.cfg.Policy), RecordsAt: s.state.Records.At, LeftOut: s.state.Records.LeftOut,
		LastMove: s.state.LastMove, DwellLeft: e.DwellLeft.Seconds(), BudgetLeft: e.BudgetLeft, Paused: s.state.Paused,
	}
	if d := s.drifts.Load(); d != nil {
		st.Drifts = *d
	}
	if i := s.state.Pinned; i >= 0 && i < len(s.cfg.Paths) {
		st.Pinned = s.cfg.Paths[i].Name
	}
	st.Visible = s.sight.Load()
	if d := s.state.Drill; d != nil {
		st.Drill = &DrillStatus{To: s.cfg.Paths[d.To].Name, Back: s.cfg.Paths[d.Back].Name, Until: d.Until, Over: !now.Before(d.Until)}
	}
	for i, v := range e.Paths {
		st.Paths = append(st.Paths, pathStatus(s.now(i), v))
	}
	for _, t := range s.tasks {
		*st.slot(t.source) = probeStatus(t)
	}
	for i := range st.Paths {
		st.Paths[i].Value = worst(st.Paths[i].V4, st.Paths[i].V6)
	}
	s.status.Store(st)
	s.awaiting = slices.DeleteFunc(s.awaiting, func(a *await) bool {
		if a.ctx.Err() != nil {
			return true
		}
		if !a.is(st) {
			return false
		}
		close(a.done)
		return true
	})
}

// show returns the status as it is now; or, of a loop that does not answer, as it was.
func (s *site) show() SiteStatus {
	done := make(chan struct{})
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case s.shows <- done:
		select {
		case <-done:
		case <-s.w.ctx.Done():
		}
	case <-s.w.ctx.Done():
	case <-patience.C:
	}
	return *s.status.Load()
}

// slot is where a probe is shown.
func (st *SiteStatus) slot(of decide.Source) **ProbeStatus {
	switch {
	case of.Kind == decide.Local:
		return &st.Local
	case of.Kind == decide.Witness && of.V6:
		return &st.Witness6
	case of.Kind == decide.Witness:
		return &st.Witness4
	case of.V6:
		return &st.Paths[of.Path].V6
	}
	return &st.Paths[of.Path].V4
}

// worst of what is known of two families.
func worst(probes ...*ProbeStatus) evidence.Value {
	value := evidence.Unknown
	for _, p := range probes {
		switch {
		case p == nil || value == evidence.Bad:
		case p.Value != evidence.Unknown:
			value = p.Value
		}
	}
	return value
}

func pathStatus(p Path, v decide.Verdict) PathStatus {
	st := PathStatus{
		Path: p.Name, Serving: v.Serving, Usable: v.Usable, Failed: v.Failed, Why: v.Why, Failures: v.Failures, Window: v.Window,
		HealthyFor: v.HealthyFor.Seconds(), RecoveryLeft: v.RecoveryLeft.Seconds(), Proxied: p.Proxied, Addresses: []string{},
	}
	for _, a := range addresses(p) {
		st.Addresses = append(st.Addresses, a.String())
	}
	return st
}

// probeStatus is the last result of a task, or nil before there is one.
func probeStatus(t *task) *ProbeStatus {
	r := t.last
	if r.Started.IsZero() {
		return nil
	}
	p := &ProbeStatus{
		Value: r.Value, Reason: string(r.Reason), Detail: r.Detail, At: r.Started, Took: r.Took.Seconds(),
		Status: r.Status, Expires: r.Certificate.NotAfter, Issuer: r.Certificate.Issuer, Node: r.Node, Ray: r.Ray, Cache: r.CacheStatus, Degraded: r.Degraded,
	}
	if r.Addr.IsValid() {
		p.Address = r.Addr.String()
	}
	return p
}

func (z *zone) publish(err error) {
	stats := z.client.Stats()
	st := &ZoneStatus{
		Zone: z.name, ID: z.id, Records: len(z.owned), Requests: stats.Requests, BudgetLeft: stats.Remaining, NameServers: z.servers,
	}
	if old := z.status.Load(); old != nil {
		st.ReadAt = old.ReadAt
	}
	if err != nil {
		st.Error = err.Error()
		// Not to ask again yet is no news: what is wrong was said by what came before.
		if e, ok := errors.AsType[*cloudflare.Error](err); ok && e.Kind == cloudflare.KindHeld && z.status.Load().Error != "" {
			st.Error = z.status.Load().Error
		}
	} else if z.owned != nil {
		st.ReadAt = time.Now()
	}
	if ready, until := z.client.Ready(time.Now()); !ready {
		st.BackoffUntil = until
	}
	z.status.Store(st)
}
