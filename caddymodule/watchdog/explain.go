package watchdog

import (
	"fmt"
	"time"

	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// explanation says why a site is where it is, and what would move it.
type explanation struct {
	Site  string       `json:"site"`
	Phase decide.Phase `json:"phase"`
	On    string       `json:"on,omitempty"`
	Want  string       `json:"want,omitempty"`
	Why   string       `json:"why"`
	// Paths says of each path what is known, and what it is short of.
	Paths []string `json:"paths"`
	// Moves says what would move the site.
	Moves []string `json:"moves"`
	// DwellLeft and RecoveryLeft are seconds that the way back to the first path
	// waits at least; BudgetLeft is how many moves the hour has left, or -1.
	DwellLeft    float64 `json:"dwell_left"`
	RecoveryLeft float64 `json:"recovery_left"`
	BudgetLeft   int     `json:"budget_left"`
}

// policy is how a site is judged.
func (l *live) policy(site string) decide.Policy {
	for _, s := range l.config.Sites {
		if s.Name == site {
			return s.Policy
		}
	}
	return decide.Policy{}.WithDefaults()
}

// explain puts a status into sentences. It decides nothing: what waits for what is in
// the status.
func explain(s watchdog.SiteStatus, p decide.Policy, now time.Time) explanation {
	e := explanation{
		Site: s.Site, Phase: s.Phase, On: s.On, Want: s.Want, Why: s.Why,
		DwellLeft: s.DwellLeft, BudgetLeft: s.BudgetLeft, Paths: []string{}, Moves: []string{},
	}
	for i, path := range s.Paths {
		e.Paths = append(e.Paths, describe(path))
		if i == 0 {
			e.RecoveryLeft = path.RecoveryLeft
		}
	}
	e.Moves = append(e.Moves, forbids(s, now)...)
	for i, path := range s.Paths {
		if path.Serving {
			e.Moves = append(e.Moves, leaving(path, s.Paths, p))
			if i > 0 {
				e.Moves = append(e.Moves, returning(s, p))
			}
		}
	}
	if s.On == "" {
		e.Moves = append(e.Moves, "an operator: the records are "+s.Records+", so switch the site to one of its paths")
	}
	return e
}

func describe(p watchdog.PathStatus) string {
	text := p.Path
	if p.Serving {
		text += " (serving)"
	}
	switch {
	case p.Failed:
		text += " has failed"
	case p.Usable:
		text += " works"
	default:
		text += " could not be written now"
	}
	text += fmt.Sprintf(": %s; %d of the last %d probes failed", p.Why, p.Failures, p.Window)
	if p.HealthyFor > 0 {
		text += ", well for " + seconds(p.HealthyFor)
	}
	return text
}

// forbids says what keeps every move from being made.
func forbids(s watchdog.SiteStatus, now time.Time) (list []string) {
	switch p := s.Paused; {
	case p == nil:
	case p.Until.IsZero():
		list = append(list, "nothing moves it before resume")
	default:
		list = append(list, "nothing moves it for "+seconds(p.Until.Sub(now).Seconds())+", or before resume")
	}
	if s.Pinned != "" {
		list = append(list, "nothing moves it before unpin: it is pinned to "+s.Pinned)
	}
	return list
}

func leaving(on watchdog.PathStatus, paths []watchdog.PathStatus, p decide.Policy) string {
	short := max(p.Failures-on.Failures, 0)
	text := fmt.Sprintf("%s is left after %d more failed probes (%d of %d)", on.Path, short, p.Failures, p.Window)
	if on.Failed {
		text = on.Path + " has failed, and is left as soon as another path is seen to work"
	}
	for _, other := range paths {
		if !other.Serving && other.Usable {
			return text + ", to " + other.Path
		}
	}
	return text + "; now there is none to go to"
}

// returning says what the way back waits for.
func returning(s watchdog.SiteStatus, p decide.Policy) string {
	first := s.Paths[0]
	text := "it returns to " + first.Path
	switch {
	case s.BudgetLeft == 0:
		return text + fmt.Sprintf(" when less than %d moves were made within the hour", p.Budget)
	case !first.Usable:
		return text + " when that works again: " + first.Why
	}
	if wait := max(first.RecoveryLeft, s.DwellLeft); wait > 0 {
		return text + fmt.Sprintf(" in %s at the earliest (recovery %s, dwell %s)", seconds(wait), seconds(first.RecoveryLeft), seconds(s.DwellLeft))
	}
	return text + " with the next good probe"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
