package monitor

import (
	"math/rand/v2"
	"time"

	"github.com/edgeward/edgeward/relay/check"
)

// task is one check of one address. Gateways that want the same check of the
// same address share it.
type task struct {
	spec     check.Spec
	address  string
	interval time.Duration
	fast     time.Duration
	next     time.Time
	begun    time.Time // when the latest check began
	late     time.Time // when a check under way has taken suspiciously long; zero: none is
	hasty    bool
	inflight int
	gateways []*gateway
	last     Finding
}

// Finding is what the latest check of a gateway found.
type Finding struct {
	At     time.Time `json:"at,omitzero"`
	OK     bool      `json:"ok"`
	Detail string    `json:"detail,omitzero"`
	// Latency in seconds.
	Latency    float64   `json:"latency_seconds,omitzero"`
	CertExpiry time.Time `json:"cert_expiry,omitzero"`
	CertNames  []string  `json:"cert_names,omitempty"`
	Status     int       `json:"http_status,omitzero"`
}

// checked is the result of a check, on its way to run.
type checked struct {
	task   *task
	result check.Result
}

// maxOverlap bounds the checks of one target under way at once: what a fast
// interval and the default timeout need.
const maxOverlap = 8

// assignTasks makes the checks fit the gateways and their addresses. A check
// that stays keeps its rhythm.
func (m *Monitor) assignTasks() {
	old := m.tasks
	m.tasks = map[string]*task{}
	for _, g := range m.gateways {
		g.task = nil
		address := g.live.Address()
		if g.NoCheck || address == nil {
			continue
		}
		key := address.String() + " " + g.Check.Key()
		t := m.tasks[key]
		if t == nil {
			if t = old[key]; t == nil {
				// A new gateway is checked at once, or the first to be checked would
				// serve before the first in order; jitter soon spreads the checks.
				t = &task{spec: g.Check, address: address.String(), next: time.Now()}
			}
			t.gateways, t.interval, t.fast = nil, g.Interval, g.Fast
			m.tasks[key] = t
		}
		t.gateways = append(t.gateways, g)
		t.interval, t.fast = min(t.interval, g.Interval), min(t.fast, g.Fast)
		g.task = t
	}
}

// doubt makes a check due now, unless the one before has only just begun.
func (t *task) doubt(now time.Time) {
	if now.Sub(t.begun) >= t.fast {
		t.next = now
	}
}

// hurry checks soon while there is a suspicion.
func (t *task) hurry(suspicious bool, now time.Time) {
	if suspicious && !t.hasty && t.next.Sub(now) > t.fast {
		t.next = now
	}
	t.hasty = suspicious
}

func (t *task) schedule(now time.Time) {
	d := t.interval
	if t.hasty {
		d = t.fast
	}
	t.next = now.Add(d - d/10 + rand.N(d/5+1))
}

// checkIfDue starts a check when one is due. While nothing is wrong, one at a
// time is enough; one that takes longer than usual is a reason to begin the next,
// or a silent gateway would cost a timeout for each.
func (m *Monitor) checkIfDue(t *task, now time.Time) {
	due := !t.next.After(now) && (t.inflight == 0 || t.hasty)
	late := !t.late.IsZero() && !t.late.After(now)
	if !t.next.After(now) {
		t.schedule(now)
	}
	if !due && !late {
		return
	}
	if late {
		t.late = now.Add(t.fast)
	}
	if t.inflight >= maxOverlap {
		return
	}
	if m.running >= m.o.Budget {
		m.delayed++
		return
	}
	m.start(t, now)
}

func (m *Monitor) start(t *task, now time.Time) {
	if t.inflight == 0 {
		t.late = now.Add(max(t.fast, time.Duration(3*t.last.Latency*float64(time.Second))))
	}
	t.begun = now
	t.inflight++
	m.running++
	m.workers.Go(func() {
		m.tell(checked{t, m.o.Check(m.ctx, t.spec, t.address)})
	})
}

// tell hands an effect's result to the owner, unless it has stopped.
func (m *Monitor) tell(ev any) {
	select {
	case m.inbox <- ev:
	case <-m.stopped:
	}
}

func (m *Monitor) onChecked(c checked) {
	t, r := c.task, c.result
	m.running--
	if t.inflight--; t.inflight == 0 {
		t.late = time.Time{}
	}
	t.last = Finding{
		At: time.Now(), OK: r.OK, Detail: r.Detail, Latency: r.Latency.Seconds(),
		CertExpiry: r.CertExpiry, CertNames: r.CertNames, Status: r.Status,
	}
	for _, g := range t.gateways {
		if g.task == t {
			m.judge(g, observed(r))
		}
	}
}
