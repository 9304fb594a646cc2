package fallback

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// notices tells people. What happens never waits for a disk or a network.
type notices struct {
	*entry
	outbox  *notify.Outbox
	journal *journal.Journal // of the outbox

	mu    sync.Mutex // held for no I/O
	queue []notify.Event
	wake  chan struct{} // one slot
}

// mostQueued is how many events wait for the disk at most. What is beyond is lost, and
// the log says so.
const mostQueued = 1000

func newNotices(e *entry, j *journal.Journal) (*notices, error) {
	var channels []notify.Channel
	for _, c := range e.channels {
		c.Log = e.log
		ch, err := notify.New(c)
		if err != nil {
			return nil, err
		}
		channels = append(channels, ch)
	}
	outbox, err := notify.NewOutbox(j, channels, notify.Options{Reminder: e.remind, Log: e.log})
	if err != nil {
		return nil, err
	}
	n := &notices{entry: e, outbox: outbox, journal: j, wake: make(chan struct{}, 1)}
	n.forget()
	return n, nil
}

// settleEvery is how often is looked for what is over. A process needs less to find
// out how things stand.
const settleEvery = time.Minute

// run delivers until ctx ends. What look finds from time to time is told.
func (n *notices) run(ctx context.Context, look func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { n.outbox.Run(ctx) })
	again := time.NewTicker(settleEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			n.post()
		case <-again.C:
			look()
		}
	}
}

// close keeps what is still in the queue, and gives the channels back.
func (n *notices) close() error {
	n.post()
	return n.outbox.Close()
}

// post puts what waits into the outbox, where it outlives this process.
func (n *notices) post() {
	n.mu.Lock()
	list := n.queue
	n.queue = nil
	n.mu.Unlock()
	for _, e := range list {
		if err := n.outbox.Post(e); err != nil {
			n.log.Error("a notice is lost", "kind", e.Kind, "error", err)
		}
	}
}

func (n *notices) add(e notify.Event) {
	n.mu.Lock()
	full := len(n.queue) >= mostQueued
	if !full {
		n.queue = append(n.queue, e)
	}
	n.mu.Unlock()
	if full {
		n.log.Error("a notice is lost: the disk does not take them", "kind", e.Kind, "reason", e.Reason)
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// tell puts a record into words for people.
func (n *notices) tell(r fallback.Record) {
	if r.From != r.To {
		for _, e := range n.moved(r) {
			n.add(e)
		}
		return
	}
	if e, ok := n.noted(r); ok {
		n.add(e)
	}
}

// event is what all notices of a record have.
func (n *notices) event(r fallback.Record) notify.Event {
	e := notify.Event{Site: r.Home, At: r.At, Reason: r.Reason}
	if r.Step != "" {
		e.Reason = r.Step + ": " + r.Reason
	}
	if r.Event != "" {
		e.Detail = "Home " + n.id + " saw: " + r.Event
	}
	return e
}

// subject says what is told about, and names what lasts: of a home, as this one sees it.
// Our own connection is one, however many homes we have to do with.
func (n *notices) subject(home, what string) (site, incident string) {
	if what == "internet" {
		home = n.id
	}
	return home, "fallback/" + n.id + "/" + home + "/" + what
}

// began is how the begin of a stage is put: what cannot last is no incident.
var began = map[fallback.Stage]struct {
	kind     notify.Kind
	severity notify.Severity
	incident string
}{
	fallback.Fallback:   {notify.CoverBegan, notify.Critical, "cover"},
	fallback.Covered:    {notify.CoverBegan, notify.Warning, "covered"},
	fallback.Yielding:   {notify.ItemFailed, notify.Critical, "covered"},
	fallback.Asks:       {notify.NeedsPerson, notify.Critical, "asks"},
	fallback.NoInternet: {notify.Blind, notify.Warning, "internet"},
	fallback.Dark:       {notify.Blind, notify.Warning, "internet"},
	fallback.Fenced:     {notify.LeaseLost, notify.Critical, "lease"},
	fallback.Handback:   {notify.HandbackBegan, notify.Info, ""},
}

// ended is how the end of an incident is put.
var ended = map[string]notify.Kind{
	"cover": notify.CoverOver, "covered": notify.CoverOver, "asks": notify.PersonSaid,
	"internet": notify.Sighted, "lease": notify.LeaseBack,
}

// over says which incidents a stage puts an end to by itself. Who has a home's lease
// when this one has it no more is said by settled.
var over = map[fallback.Stage][]string{
	fallback.Normal:   {"asks", "internet"},
	fallback.Waiting:  {"internet"},
	fallback.Serving:  {"covered", "asks", "internet", "lease"},
	fallback.Starting: {"asks", "internet", "lease"},
	fallback.Fallback: {"asks", "internet", "lease"},
	fallback.Covered:  {"asks", "internet"},
	fallback.Gated:    {"internet"},
}

// moved is what there is to tell of another stage.
func (n *notices) moved(r fallback.Record) (list []notify.Event) {
	for _, what := range over[r.To] {
		list = n.end(list, r, what, ended[what], r.Home)
	}
	if r.To == fallback.Normal && back(r.From) {
		list = n.end(list, r, "cover", notify.CoverOver, r.Home)
	}
	how, ok := began[r.To]
	if !ok {
		return list
	}
	e := n.event(r)
	e.Kind, e.Severity, e.From, e.To = how.kind, how.severity, r.Home, n.id
	if how.incident != "" {
		e.Site, e.Incident = n.subject(r.Home, how.incident)
	}
	switch {
	case r.To == fallback.Fallback && back(r.From):
		e.Kind, e.From, e.To, e.Incident = notify.HandbackFailed, n.id, r.Home, "" // the cover goes on
	case r.To == fallback.Covered:
		e.To = "another home" // which one the reason says
	case r.To == fallback.Handback:
		e.From, e.To = n.id, r.Home
	}
	return append(list, e)
}

// back reports whether a stage is part of a handback.
func back(s fallback.Stage) bool { return s == fallback.Handback || s == fallback.GivenBack }

// end adds the end of an incident, if somebody was told of its begin.
func (n *notices) end(list []notify.Event, r fallback.Record, what string, kind notify.Kind, to string) []notify.Event {
	site, name := n.subject(r.Home, what)
	if !n.isOpen(name) {
		return list
	}
	e := n.event(r)
	e.Site, e.Incident, e.Kind, e.Severity, e.From, e.To = site, name, kind, notify.Resolved, n.id, to
	if what == "asks" {
		e.Reason = "nobody has to say go any more: " + e.Reason
	}
	return append(list, e)
}

// settled ends what is over by how things stand: what was open when the process before
// ended, and what is known only later.
func (n *notices) settled(homes []control.HomeStatus) {
	for _, h := range homes {
		r := fallback.Record{At: time.Now(), Home: h.Home, Reason: h.Why}
		var list []notify.Event
		switch elsewhere := h.Holder != "" && h.Holder != n.id; {
		case h.Stage == fallback.Serving:
			for _, what := range over[h.Stage] {
				list = n.end(list, r, what, ended[what], h.Home)
			}
		case h.Stage == fallback.Normal && h.Holder == h.Home && h.Seat.Phase == fallback.PhaseOwn:
			for _, what := range over[h.Stage] {
				list = n.end(list, r, what, ended[what], h.Home)
			}
			list = n.end(list, r, "cover", notify.CoverOver, h.Home)
			list = n.end(list, r, "lease", notify.CoverOver, h.Home)
		case elsewhere && h.Holder != h.Home && (h.Stage == fallback.Normal || h.Stage == fallback.Covered):
			list = n.end(list, r, "cover", notify.CoverBegan, h.Holder)
			list = n.end(list, r, "lease", notify.CoverBegan, h.Holder)
		}
		for _, e := range list {
			n.add(e)
		}
	}
}

// forget drops what is about homes that are not in the config any more: nobody sees its
// end.
func (n *notices) forget() {
	known := map[string]bool{}
	for what := range ended {
		for _, h := range n.homes {
			_, name := n.subject(h.ID, what)
			known[name] = true
		}
	}
	for _, name := range n.outbox.Stats().Open {
		if !known[name] {
			n.log.Info("an incident is dropped: what it is about is not in the config any more", "incident", name)
			n.outbox.Forget(name)
		}
	}
}

// isOpen reports whether somebody was told of an incident and not of its end.
func (n *notices) isOpen(name string) bool {
	n.mu.Lock()
	open := false
	for _, e := range n.queue {
		if e.Incident == name {
			open = e.Severity != notify.Resolved
		}
	}
	n.mu.Unlock()
	if open {
		return true
	}
	return slices.Contains(n.outbox.Stats().Open, name)
}

// noted is what there is to tell of something within a stage. Of what is only for the
// record nobody is told, but for tiers that begin and for what people said themselves.
func (n *notices) noted(r fallback.Record) (e notify.Event, ok bool) {
	switch r.Level {
	case fallback.Alarm:
		e.Severity = notify.Critical
	case fallback.Warn:
		e.Severity = notify.Warning
	default:
		if tier := n.tier(r); tier > 0 {
			return n.started(r, tier)
		}
		return n.said(r)
	}
	severity := e.Severity
	e = n.event(r)
	e.Kind, e.Severity, e.From, e.To = notify.ItemFailed, severity, r.Home, n.id
	switch kind := stepKind(r); {
	case kind == fallback.StepCarry && r.Event == confirmed:
		e.Kind, e.From, e.To = notify.DataConflict, n.id, r.Home
	case back(r.To) && kind == fallback.StepStart:
		e.To = r.Home // it is to run there
	case slices.Contains(handsBack, kind), back(r.To) && kind != "":
		e.Kind, e.From, e.To = notify.HandbackFailed, n.id, r.Home
	}
	return e, true
}

// confirmed is what a record has seen that is no failure.
const confirmed = "done"

// handsBack are steps that no cover has.
var handsBack = []fallback.StepKind{fallback.StepPreflight, fallback.StepProve, fallback.StepCarry, fallback.StepGive, fallback.StepGrant}

func stepKind(r fallback.Record) fallback.StepKind {
	word, _, _ := strings.Cut(r.Step, " ")
	return fallback.StepKind(word)
}

// tier is the one that begins here, by the seat that is in force now. Of the first one
// people have heard: it is the cover.
func (n *notices) tier(r fallback.Record) (last int) {
	if r.To != fallback.Fallback || stepKind(r) != fallback.StepSeat {
		return 0
	}
	for word := range strings.FieldsSeq(strings.ReplaceAll(r.Reason, ",", " ")) {
		number, at, _ := strings.Cut(word, "=")
		if tier, err := strconv.Atoi(number); err == nil && at == n.id && tier > 1 {
			last = max(last, tier)
		}
	}
	return last
}

func (n *notices) started(r fallback.Record, tier int) (e notify.Event, ok bool) {
	e = n.event(r)
	e.Kind, e.Severity, e.From, e.To = notify.TierStarted, notify.Info, r.Home, n.id
	e.Reason = fmt.Sprintf("tier %d begins at %s: %s", tier, n.id, r.Reason)
	return e, true
}

// said is the word of a person, of which others should know.
func (n *notices) said(r fallback.Record) (e notify.Event, ok bool) {
	switch word, _, _ := strings.Cut(r.Event, " "); fallback.Word(word) {
	case fallback.SayHold, fallback.SayResume, fallback.SayGo, fallback.SayHandback:
		e = n.event(r)
		e.Kind, e.Severity, e.From, e.To = notify.PersonSaid, notify.Info, r.Home, n.id
		return e, true
	}
	return e, false
}

// test sends a test message to every channel.
func (n *notices) test() error {
	return n.outbox.Post(notify.Event{Kind: notify.Test, Severity: notify.Info, At: time.Now(), Reason: "somebody tries whether messages arrive"})
}
