package fallback

import (
	"cmp"
	"context"
	"fmt"
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
	outbox *notify.Outbox

	mu     sync.Mutex // held for no I/O
	queue  []notify.Event
	wake   chan struct{} // one slot
	stages map[string]fallback.Stage
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
	return &notices{entry: e, outbox: outbox, wake: make(chan struct{}, 1), stages: map[string]fallback.Stage{}}, nil
}

// run delivers until ctx ends.
func (n *notices) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { n.outbox.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			n.post()
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

// incident names what lasts: of a home, as this one sees it.
func (n *notices) incident(home, what string) string {
	return "fallback/" + n.id + "/" + home + "/" + what
}

// began is how the begin of a stage is put: what cannot last is no incident.
var began = map[fallback.Stage]struct {
	kind     notify.Kind
	severity notify.Severity
	incident string
}{
	fallback.Fallback:   {notify.Switched, notify.Critical, "cover"},
	fallback.Covered:    {notify.Switched, notify.Warning, "covered"},
	fallback.Yielding:   {notify.Hold, notify.Critical, "yield"},
	fallback.Asks:       {notify.Hold, notify.Critical, "asks"},
	fallback.NoInternet: {notify.Blind, notify.Warning, "internet"},
	fallback.Dark:       {notify.Blind, notify.Warning, "internet"},
	fallback.Fenced:     {notify.Fatal, notify.Critical, "lease"},
	fallback.Handback:   {notify.Started, notify.Info, ""},
}

// ended is how the end of an incident is put.
var ended = map[string]notify.Kind{
	"cover": notify.Returned, "covered": notify.Returned, "yield": notify.Resumed, "asks": notify.Resumed,
	"internet": notify.Sighted, "lease": notify.Started,
}

// over says which incidents a stage puts an end to.
var over = map[fallback.Stage][]string{
	fallback.Normal:   {"cover", "asks", "internet", "lease"},
	fallback.Serving:  {"covered", "yield", "asks", "internet", "lease"},
	fallback.Starting: {"covered", "asks", "internet", "lease"},
	fallback.Fallback: {"asks", "internet", "lease"},
	fallback.Covered:  {"yield", "asks", "internet", "lease"},
	fallback.Gated:    {"internet", "lease"},
}

// moved is what there is to tell of another stage.
func (n *notices) moved(r fallback.Record) (list []notify.Event) {
	for _, what := range over[r.To] {
		name := n.incident(r.Home, what)
		if !n.isOpen(name) {
			continue
		}
		e := n.event(r)
		e.Incident, e.Kind, e.Severity = name, ended[what], notify.Resolved
		e.From, e.To = n.id, r.Home
		if what == "covered" {
			e.From = ""
		}
		list = append(list, e)
	}
	how, ok := began[r.To]
	if !ok {
		return list
	}
	e := n.event(r)
	e.Kind, e.Severity, e.From, e.To = how.kind, how.severity, r.Home, n.id
	if how.incident != "" {
		e.Incident = n.incident(r.Home, how.incident)
	}
	switch {
	case r.To == fallback.Fallback && (r.From == fallback.Handback || r.From == fallback.GivenBack):
		e.Kind, e.From, e.To, e.Incident = notify.SwitchFailed, n.id, r.Home, "" // the cover goes on
	case r.To == fallback.Covered:
		e.To = ""
	case r.To == fallback.Handback:
		e.Reason = "the handback to " + r.Home + " begins: " + r.Reason
	}
	return append(list, e)
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
	for _, o := range n.outbox.Stats().Open {
		if o == name {
			return true
		}
	}
	return false
}

// noted is what there is to tell of something within a stage. Of what is only for the
// record nobody is told, but for what people said themselves.
func (n *notices) noted(r fallback.Record) (e notify.Event, ok bool) {
	e = n.event(r)
	e.From, e.To = r.Home, n.id
	switch r.Level {
	case fallback.Alarm:
		e.Severity = notify.Critical
	case fallback.Warn:
		e.Severity = notify.Warning
	default:
		return n.said(r)
	}
	e.Kind = notify.TargetDown
	if r.To == fallback.Handback || r.To == fallback.GivenBack {
		e.Kind, e.From, e.To = notify.SwitchFailed, n.id, r.Home
	} else if strings.HasPrefix(r.Step, "dns ") || strings.HasPrefix(r.Step, string(fallback.StepAcquire)) {
		e.Kind = notify.SwitchFailed
	}
	return e, true
}

// said is the word of a person, of which others should know.
func (n *notices) said(r fallback.Record) (e notify.Event, ok bool) {
	e = n.event(r)
	e.Severity = notify.Info
	switch word, _, _ := strings.Cut(r.Event, " "); fallback.Word(word) {
	case fallback.SayHold:
		e.Kind = notify.Paused
	case fallback.SayResume:
		e.Kind = notify.Resumed
	case fallback.SayGo, fallback.SayHandback:
		e.Kind = notify.Started
	default:
		return e, false
	}
	return e, true
}

// shownConflicts is how many paths a notice names.
const shownConflicts = 10

// conflict tells of data that is newer at the other home: theirs stays, ours is put
// beside it.
func (n *notices) conflict(c control.Carry, done control.Carried) {
	shown := done.Conflicts[:min(len(done.Conflicts), shownConflicts)]
	detail := strings.Join(shown, "\n")
	if more := len(done.Conflicts) - len(shown); more > 0 {
		detail += fmt.Sprintf("\nand %d more", more)
	}
	n.add(notify.Event{
		Site: c.Home, Kind: notify.Hold, Severity: notify.Warning, At: time.Now(), From: n.id, To: cmp.Or(c.To, c.Home),
		Reason: fmt.Sprintf("%d files of %s in %s are newer at %s: those stay, ours are beside them", len(done.Conflicts), c.Item, c.Data.Path, cmp.Or(c.To, c.Home)),
		Detail: detail,
	})
}

// test sends a test message to every channel.
func (n *notices) test() error {
	return n.outbox.Post(notify.Event{Kind: notify.Test, Severity: notify.Info, At: time.Now(), Reason: "somebody tries whether messages arrive"})
}
