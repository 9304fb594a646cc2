package visible

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Check asks until all that answer see what is wanted, or the deadline is over. An
// error means that a setting cannot work, and that nobody was asked. A source that
// does not answer is waited for no longer than for the others.
func Check(ctx context.Context, c Config, wants []Want) (Report, error) {
	if err := c.Validate(); err != nil {
		return Report{}, err
	}
	for _, w := range wants {
		if err := w.Validate(); err != nil {
			return Report{}, err
		}
	}
	c = c.withDefaults()
	caller := ctx
	ctx, end := context.WithTimeout(ctx, c.Deadline)
	defer end()
	start := time.Now()
	questions := questionsOf(wants)
	servers, resolvers := c.sources()
	polls := make([]*poll, 0, len(servers)+len(resolvers))
	for _, s := range slices.Concat(servers, resolvers) {
		polls = append(polls, newPoll(c, s, questions, start))
	}
	b := &board{phases: make([]phase, len(polls)), end: end}
	var wg sync.WaitGroup
	for i, p := range polls {
		wg.Go(func() { p.run(ctx, func(to phase) { b.set(i, to) }) })
	}
	wg.Wait()
	r := Report{Took: time.Since(start), Cancelled: caller.Err() != nil}
	for i, q := range questions {
		r.Seen = append(r.Seen, q.seen(polls[:len(servers)], polls[len(servers):], i))
	}
	return r, nil
}

// question is one family of one want.
type question struct {
	name   string // as in the want
	asked  string // with a dot at the end
	family resolve.Family
	want   netip.Addr
}

func questionsOf(wants []Want) []question {
	var list []question
	for _, w := range wants {
		asked := w.asked()
		list = append(list,
			question{w.Name, asked, resolve.IPv4, w.A},
			question{w.Name, asked, resolve.IPv6, w.AAAA})
	}
	return list
}

func (q question) seen(servers, resolvers []*poll, i int) Seen {
	s := Seen{Name: q.name, Family: q.family, Want: q.want}
	for _, p := range servers {
		s.Servers = append(s.Servers, p.sights[i])
	}
	for _, p := range resolvers {
		s.Resolvers = append(s.Resolvers, p.sights[i])
	}
	return s
}

// answer is what a source serves.
type answer struct {
	addrs []netip.Addr // in order, each once
	alias string       // the name is an alias of this one
}

const nothing = "no such record"

func (a answer) is(want netip.Addr) bool {
	if a.alias != "" {
		return false
	}
	if !want.IsValid() {
		return len(a.addrs) == 0
	}
	return len(a.addrs) == 1 && a.addrs[0] == want
}

// String names four addresses at most: a hostile answer may have hundreds.
func (a answer) String() string {
	const most = 4
	switch n := len(a.addrs); {
	case a.alias != "":
		return "an alias of " + a.alias
	case n == 0:
		return nothing
	case n > most:
		return fmt.Sprintf("%s and %d more", join(a.addrs[:most]), n-most)
	}
	return join(a.addrs)
}

func join(addrs []netip.Addr) string {
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
	}
	return strings.Join(list, ", ")
}

// phase is how far a poll is.
type phase uint8

const (
	waiting phase = iota // for the change
	silent               // waiting, and the source does not answer
	done
)

// board ends a check when nothing is left to wait for: some are done, and the rest
// are silent.
type board struct {
	end context.CancelFunc

	mu     sync.Mutex
	phases []phase // guarded by mu; one for each poll
}

func (b *board) set(i int, to phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phases[i] = to
	if !slices.Contains(b.phases, waiting) && slices.Contains(b.phases, done) {
		b.end()
	}
}

// poll asks one source until it sees all that is wanted. One goroutine runs it, and
// the sights may be read when it has ended.
type poll struct {
	c         Config
	source    source
	start     time.Time
	questions []question
	sights    []Sight // one for each question
	// The questions in a row without a usable answer: how many, since when, and why.
	misses  int
	since   time.Time
	failure error
}

// A source is silent after that many questions without a usable answer, over at
// least that time. Uncalibrated: a lost packet or a restart is no silence.
const (
	patience     = 3
	patienceTime = 5 * time.Second
)

const unasked = "not asked"

func newPoll(c Config, s source, questions []question, start time.Time) *poll {
	p := &poll{c: c, source: s, start: start, questions: questions, sights: make([]Sight, len(questions))}
	for i := range p.sights {
		p.sights[i] = Sight{Source: s.name, Said: unasked}
	}
	return p
}

// run returns when all questions are answered as wanted, or ctx ends.
func (p *poll) run(ctx context.Context, tell func(phase)) {
	left := make([]int, len(p.questions))
	for i := range left {
		left[i] = i
	}
	for every := p.c.Interval; ; every = min(every*3/2, p.c.MaxInterval) {
		left = p.round(ctx, left)
		switch {
		case len(left) == 0:
			tell(done)
			return
		case p.misses >= patience && time.Since(p.since) >= patienceTime:
			p.forget(left)
			tell(silent)
		default:
			tell(waiting)
		}
		if !pause(ctx, every) {
			return
		}
	}
}

// round asks what is left to ask, and returns what then is. It ends with the first
// question that is not answered, which goes to the end of the queue: a source that
// is silent costs one timeout a round, and one name that it is silent about does not
// hide the others.
func (p *poll) round(ctx context.Context, left []int) []int {
	var again []int
	for n, i := range left {
		q, s, asked := p.questions[i], &p.sights[i], time.Now()
		a, err := p.source.ask(ctx, q)
		if err != nil {
			p.miss(ctx, s, asked, err)
			return slices.Concat(left[n+1:], again, []int{i})
		}
		p.misses = 0
		s.Said = a.String()
		if a.is(q.want) {
			s.Value, s.After = evidence.Good, time.Since(p.start)
			continue
		}
		s.Value = evidence.Bad
		again = append(again, i)
	}
	return again
}

// miss notes a question without a usable answer. If the check has ended meanwhile
// that says nothing.
func (p *poll) miss(ctx context.Context, s *Sight, asked time.Time, err error) {
	if ctx.Err() != nil {
		if s.Said == unasked {
			s.Said = "no answer until the end"
		}
		return
	}
	if p.misses == 0 {
		p.since = asked
	}
	p.misses++
	p.failure = err
	if s.Value == evidence.Unknown {
		s.Said = err.Error()
	}
}

// forget makes unknown what a source that fell silent said before.
func (p *poll) forget(left []int) {
	for _, i := range left {
		switch s := &p.sights[i]; {
		case s.Value == evidence.Bad:
			s.Value, s.Said = evidence.Unknown, fmt.Sprintf("%v; before that: %s", p.failure, s.Said)
		case s.Said == unasked:
			s.Said = p.failure.Error()
		}
	}
}

// pause is false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
