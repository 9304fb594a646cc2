package watchdog

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// Entry is one line of the history.
type Entry struct {
	At   time.Time `json:"at"`
	Site string    `json:"site,omitempty"`
	// Kind is decision, command, visible, drill or home.
	Kind     string       `json:"kind"`
	From     decide.Phase `json:"from,omitempty"`
	Phase    decide.Phase `json:"phase,omitempty"`
	Event    string       `json:"event"`
	Reason   string       `json:"reason,omitempty"`
	Actions  []string     `json:"actions,omitempty"`
	Refused  bool         `json:"refused,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
}

// tell puts a step on record: the log line, the history and the metric are one story.
func (s *site) tell(ev decide.Event, rec decide.Record) {
	_, isCommand := ev.(decide.Command)
	if !rec.Notable() && !isCommand {
		if s.log.Enabled(context.Background(), slog.LevelDebug) {
			s.log.Debug("nothing to decide", "event", "health", "what", decide.Describe(s.cfg.Policy, ev), "phase", rec.Phase)
		}
		return
	}
	kind := "decision"
	if isCommand {
		kind = "command"
	}
	text := rec.Reason
	if text == "" {
		text = "the site is " + string(rec.Phase)
	}
	s.log.Info(text, "event", logEvent(ev, rec), "what", rec.Event, "phase", rec.Phase, "was", rec.From, "actions", rec.Actions, "refused", rec.Refused)
	s.counts.add(ev)
	s.w.append(Entry{
		At: rec.At, Site: s.cfg.Name, Kind: kind, From: rec.From, Phase: rec.Phase, Event: rec.Event,
		Reason: rec.Reason, Actions: rec.Actions, Refused: rec.Refused, Evidence: rec.Evidence,
	})
}

// logEvent is the word by which a log line can be found.
func logEvent(ev decide.Event, rec decide.Record) string {
	if wrote, ok := ev.(decide.Wrote); ok {
		switch wrote.Outcome {
		case decide.Confirmed:
			return "dns_verified"
		case decide.Dry:
			return "dry_run"
		}
		return "api_hold"
	}
	switch {
	case rec.Phase == decide.Holding || rec.Phase == decide.Outage || rec.Phase == decide.Quarantine:
		return "hold"
	case rec.Reason == "":
		return "health"
	}
	return "decision"
}

// append adds to the history, which is not worth stopping for.
func (w *watch) append(e Entry) {
	if !w.cfg.Apply {
		return
	}
	if err := w.journal.Append(e); err != nil {
		w.cfg.Log.Error("cannot write the history", "error", err)
	}
}

// announce tells people. It never waits for a network.
func (s *site) announce(a decide.Announce, now time.Time) {
	e := notify.Event{
		Site: s.cfg.Name, At: now, From: plain(a.From), To: plain(a.To), Reason: a.Why, Paths: s.health(now),
	}
	e.Kind, e.Severity, e.Incident = s.classify(a)
	s.w.post(e)
}

// plain is a path's name, or nothing for nowhere.
func plain(path string) string {
	if path == "nowhere" {
		return ""
	}
	return path
}

// told is how each announcement is put.
var told = map[decide.What]struct {
	kind     notify.Kind
	severity notify.Severity
	incident string // of the site; the same from the first event to the last
}{
	decide.Repaired:      {notify.Repaired, notify.Info, ""},
	decide.Refusing:      {notify.ProviderRefusing, notify.Critical, "provider"},
	decide.Accepting:     {notify.ProviderOK, notify.Resolved, "provider"},
	decide.Held:          {notify.Hold, notify.Critical, "hold"},
	decide.Released:      {notify.Hold, notify.Resolved, "hold"},
	decide.OutageBegan:   {notify.Outage, notify.Critical, "outage"},
	decide.OutageOver:    {notify.OutageOver, notify.Resolved, "outage"},
	decide.WentBlind:     {notify.Blind, notify.Warning, "blind"},
	decide.SeesAgain:     {notify.Sighted, notify.Resolved, "blind"},
	decide.Quarantined:   {notify.Quarantined, notify.Critical, "quarantine"},
	decide.Cleared:       {notify.QuarantineOver, notify.Resolved, "quarantine"},
	decide.StandbyDown:   {notify.StandbyDown, notify.Warning, "standby"},
	decide.StandbyUp:     {notify.StandbyUp, notify.Resolved, "standby"},
	decide.PauseBegan:    {notify.Paused, notify.Info, ""},
	decide.PauseOver:     {notify.Resumed, notify.Info, ""},
	decide.MovedByOthers: {notify.Switched, notify.Warning, ""},
	decide.Meddling:      {notify.Hold, notify.Warning, ""},
}

// classify says how to put an announcement. A move away from the first choice opens
// an incident, which the way back ends.
func (s *site) classify(a decide.Announce) (notify.Kind, notify.Severity, string) {
	if a.What == decide.Moved {
		if a.Cause == decide.Rehearsal { // nothing is wrong
			return notify.Switched, notify.Info, ""
		}
		incident := s.cfg.Name + "/away"
		switch s.cfg.Paths[0].Name {
		case a.To:
			return notify.Returned, notify.Resolved, incident
		case a.From:
		default:
			incident = "" // from one substitute to another: news of its own
		}
		return notify.Switched, notify.Critical, incident
	}
	if a.What == decide.MovedByOthers && a.To == s.cfg.Paths[0].Name {
		return notify.Returned, notify.Resolved, s.cfg.Name + "/away"
	}
	how := told[a.What]
	incident := ""
	if how.incident != "" {
		incident = s.cfg.Name + "/" + how.incident
	}
	if how.incident == "standby" {
		incident += "/" + a.To
	}
	return how.kind, how.severity, incident
}

// health is what is known of each path, for a notice.
func (s *site) health(now time.Time) []notify.PathHealth {
	e := decide.Explain(s.cfg.Policy, s.state, now)
	list := make([]notify.PathHealth, len(s.cfg.Paths))
	for i, path := range s.cfg.Paths {
		h := notify.PathHealth{
			Name: path.Name, Addresses: addresses(s.now(i)), Preferred: i == 0, Serving: e.Paths[i].Serving, Detail: e.Paths[i].Why,
		}
		switch {
		case e.Paths[i].Usable:
			h.Value = evidence.Good
		case e.Paths[i].Failed, e.Paths[i].Latest == evidence.Bad: // a move forgets the failures that led to it
			h.Value = evidence.Bad
		}
		list[i] = h
	}
	return list
}

func addresses(p Path) []netip.Addr {
	return slices.DeleteFunc([]netip.Addr{p.A, p.AAAA}, func(a netip.Addr) bool { return !a.IsValid() })
}

// expirySoon is how long before its end a certificate is worth a word. Half of what
// is left of 90 days when it should have been renewed.
const expirySoon = 14 * 24 * time.Hour

// certificate tells people about one that ends soon, on whatever path: the one of a
// standby is seen by nobody else.
func (s *site) certificate(t *task) {
	end := t.last.Certificate.NotAfter
	if end.IsZero() || t.source.Kind != decide.OfPath {
		return
	}
	for _, other := range s.tasks { // the other family may have another one
		if o := other.last.Certificate.NotAfter; other.source.Kind == decide.OfPath && other.source.Path == t.source.Path && !o.IsZero() && o.Before(end) {
			end = o
		}
	}
	path := s.cfg.Paths[t.source.Path].Name
	soon := time.Until(end) < expirySoon
	was, known := s.expiring[path]
	s.expiring[path] = soon
	incident := s.cfg.Name + "/certificate/" + path
	switch {
	case !known && !soon && s.w.outbox != nil:
		s.w.outbox.Forget(incident) // it was renewed while nobody looked
		return
	case soon == was:
		return
	}
	e := notify.Event{
		Incident: incident, Site: s.cfg.Name, Kind: notify.Certificate, Severity: notify.Warning, To: path, At: time.Now(),
		Reason: "the certificate ends at " + end.UTC().Format(time.RFC3339),
	}
	if !soon {
		e.Severity = notify.Resolved
	}
	s.w.post(e)
}

// forget ends the incidents of sites, paths and names that are no more, whichever config
// or process they are from: nobody sees their end.
func (w *watch) forget() {
	if w.outbox == nil || w.cfg.Part {
		return
	}
	known := w.incidents()
	for _, name := range w.outbox.Stats().Open {
		if !known[name] {
			w.cfg.Log.Info("an incident is dropped: what it is about is not in the config any more", "event", "health", "incident", name)
			w.outbox.Forget(name)
		}
	}
}

// incidents are the names of all there can be.
func (w *watch) incidents() map[string]bool {
	names := map[string]bool{}
	for _, s := range w.sites {
		names[s.cfg.Name+"/away"] = true
		for _, how := range told {
			names[s.cfg.Name+"/"+how.incident] = true
		}
		for _, path := range s.cfg.Paths {
			names[s.cfg.Name+"/standby/"+path.Name] = true
			names[s.cfg.Name+"/certificate/"+path.Name] = true
		}
	}
	if w.home != nil {
		for name := range w.home.followers() {
			names[homeQuarantine+name] = true
		}
	}
	return names
}

// post hands an event to the outbox.
func (w *watch) post(e notify.Event) {
	if w.outbox == nil {
		return
	}
	if err := w.outbox.Post(e); err != nil {
		w.cfg.Log.Log(context.Background(), slog.LevelError, "a notice is lost", "kind", e.Kind, "error", err)
	}
}
