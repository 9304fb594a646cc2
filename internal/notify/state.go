package notify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// state is what the outbox keeps on disk. It is plain data: what happens to it is
// decided here, without a clock, a disk or a network.
type state struct {
	Queue     []*item              `json:"queue"`
	Incidents map[string]*incident `json:"incidents"`
	Channels  map[string]*progress `json:"channels"`
}

// item is a message that somebody does not have yet.
type item struct {
	ID       string `json:"id"`
	Event    Event  `json:"event"`
	Reminder int    `json:"reminder,omitempty"`
	// Pending are the channels that do not have it.
	Pending []string `json:"pending"`
}

// incident is what was said of one.
type incident struct {
	// Said has each piece of news since it opened, and when it happened.
	Said map[string]time.Time `json:"said"`
	// Open: it is reminded of. Event is what to repeat.
	Open      bool  `json:"open"`
	Event     Event `json:"event"`
	Reminders int   `json:"reminders,omitempty"`
	// Told is when people last heard of it.
	Told time.Time `json:"told"`
}

// progress is how a channel gets on.
type progress struct {
	Delivered uint64    `json:"delivered"`
	LastOK    time.Time `json:"last_ok,omitzero"`
	Lost      int       `json:"lost,omitempty"` // since the last message that arrived
	LostSince time.Time `json:"lost_since,omitzero"`
	Failures  int       `json:"failures,omitempty"` // in a row
	LastError string    `json:"last_error,omitempty"`
	// Next is when to try again. Held: not before, whatever else happens.
	Next time.Time `json:"next,omitzero"`
	Held bool      `json:"held,omitempty"`
	// Refused: it is held because the settings look wrong.
	Refused bool `json:"refused,omitempty"`
}

// Bounds of what is remembered of incidents.
const (
	maxIncidents   = 256
	maxSaid        = 50
	forgetIncident = 7 * 24 * time.Hour
)

func (s *state) normalize(channels []string) {
	if s.Incidents == nil {
		s.Incidents = map[string]*incident{}
	}
	old := s.Channels
	s.Channels = map[string]*progress{}
	for _, name := range channels {
		p := old[name]
		if p == nil {
			p = &progress{}
		}
		// A restart is what comes after a setting was corrected.
		if p.Refused {
			p.Held, p.Refused, p.Next = false, false, time.Time{}
		}
		s.Channels[name] = p
	}
	maps.DeleteFunc(s.Incidents, func(_ string, i *incident) bool { return i == nil })
	s.Queue = slices.DeleteFunc(s.Queue, func(it *item) bool {
		if it == nil {
			return true
		}
		it.Pending = slices.DeleteFunc(it.Pending, func(n string) bool { return s.Channels[n] == nil })
		return len(it.Pending) == 0
	})
}

// news reports whether the event says something that was not said yet, and notes
// it. Within an incident that is a kind, a path and a severity: moving on to a third
// path is news, failing to for another reason is not.
func (s *state) news(e Event, now time.Time) bool {
	if e.Incident == "" {
		return true
	}
	key := fmt.Sprintf("%s %s %s", e.Kind, e.Severity, e.To)
	i := s.Incidents[e.Incident]
	if i == nil {
		i = &incident{Said: map[string]time.Time{}}
		s.Incidents[e.Incident] = i
	}
	if i.Said == nil || len(i.Said) > maxSaid {
		i.Said = map[string]time.Time{}
	}
	opens := e.Severity == Warning || e.Severity == Critical
	// One that opened before, at another time, opens it again.
	at, said := i.Said[key]
	if said && (i.Open || !opens || at.Equal(e.At)) {
		return false
	}
	if opens && !i.Open {
		*i = incident{Said: map[string]time.Time{}}
	}
	i.Said[key], i.Told = e.At, now
	switch {
	case e.Severity == Resolved:
		i.Open, i.Event = false, Event{}
		s.dropReminders(e.Incident)
	case opens:
		i.Open = true
		if i.Event.Severity != Critical || e.Severity == Critical {
			i.Event = e
			i.Event.Paths, i.Event.Detail = nil, "" // old news by the time of a reminder
		}
	}
	s.forgetOld(now)
	return true
}

// forgetOld keeps the memory bounded: what is closed goes first.
func (s *state) forgetOld(now time.Time) {
	maps.DeleteFunc(s.Incidents, func(_ string, i *incident) bool { return !i.Open && now.Sub(i.Told) > forgetIncident })
	for len(s.Incidents) > maxIncidents {
		names := slices.SortedFunc(maps.Keys(s.Incidents), func(a, b string) int {
			x, y := s.Incidents[a], s.Incidents[b]
			if x.Open != y.Open {
				if x.Open {
					return 1
				}
				return -1
			}
			return cmp.Or(x.Told.Compare(y.Told), cmp.Compare(a, b))
		})
		delete(s.Incidents, names[0])
	}
}

func (s *state) dropReminders(name string) {
	s.Queue = slices.DeleteFunc(s.Queue, func(it *item) bool { return it.Reminder > 0 && it.Event.Incident == name })
}

// add queues a message for all channels, and makes room for it.
func (s *state) add(e Event, reminder, limit int) {
	names := slices.Sorted(maps.Keys(s.Channels))
	if len(names) == 0 {
		return
	}
	s.Queue = append(s.Queue, &item{ID: e.id(reminder), Event: e, Reminder: reminder, Pending: names})
	for len(s.Queue) > limit {
		s.drop(s.leastMissed())
	}
}

// leastMissed is the oldest of what is least worth keeping.
func (s *state) leastMissed() int {
	worth := func(it *item) int {
		switch {
		case it.Reminder > 0:
			return 0
		case it.Event.Severity == Critical:
			return 3
		case it.Event.Severity == Info:
			return 1
		}
		return 2
	}
	least := 0
	for i, it := range s.Queue {
		if worth(it) < worth(s.Queue[least]) {
			least = i
		}
	}
	return least
}

func (s *state) drop(i int) {
	it := s.Queue[i]
	for _, name := range it.Pending {
		s.Channels[name].lose(it)
	}
	s.Queue = slices.Delete(s.Queue, i, i+1)
}

// lose counts a message. A reminder is not missed.
func (p *progress) lose(it *item) {
	if it.Reminder > 0 {
		return
	}
	if p.Lost == 0 {
		p.LostSince = it.Event.At
	}
	p.Lost++
}

// first returns the next message for a channel, nil if there is none.
func (s *state) first(channel string) *item {
	for _, it := range s.Queue {
		if slices.Contains(it.Pending, channel) {
			return it
		}
	}
	return nil
}

func (s *state) waiting(channel string) (n int) {
	for _, it := range s.Queue {
		if slices.Contains(it.Pending, channel) {
			n++
		}
	}
	return n
}

// done takes a channel off a message, which may be gone already.
func (s *state) done(it *item, channel string) {
	it.Pending = slices.DeleteFunc(it.Pending, func(n string) bool { return n == channel })
	if len(it.Pending) == 0 {
		s.Queue = slices.DeleteFunc(s.Queue, func(q *item) bool { return q == it })
	}
}

// remind queues what has been open for so long without a word, and returns how many
// that are, and how long until there is more to say; zero: nothing is open. An
// incident that has a message on its way is not reminded of: nobody has heard of it
// yet.
func (s *state) remind(now time.Time, every time.Duration, limit int) (added int, next time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(s.Incidents)) {
		i := s.Incidents[name]
		if !i.Open || s.onItsWay(name) {
			continue
		}
		wait := min(i.Told.Add(every).Sub(now), every) // a clock that was set back delays by one interval
		if wait <= 0 {
			i.Reminders++
			i.Told = now
			s.add(i.Event, i.Reminders, limit)
			added++
			wait = every
		}
		if next == 0 || wait < next {
			next = wait
		}
	}
	return added, next
}

func (s *state) onItsWay(name string) bool {
	return slices.ContainsFunc(s.Queue, func(it *item) bool { return it.Event.Incident == name })
}
