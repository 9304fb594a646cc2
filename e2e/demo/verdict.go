package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// verdict is what the demo has shown.
type verdict struct {
	visitors int
	failed   int // while a gateway was alive
	cut      int // those whose own gateway was killed while it served them
	outage   int // failed while none was alive: as it must be
	usual    time.Duration
	worst    time.Duration // the longest that one who was served waited
	faults   []string
}

// An act's end is from settled to almost before it is over: visitors who come then
// are with whom they should be, and have been served before the next act begins.
const (
	settled = 700 * time.Millisecond
	almost  = 100 * time.Millisecond
)

// judge looks at all visits. Deaths are when a gateway was killed.
func judge(played []playedAct, all visits, deaths []time.Time) *verdict {
	v := &verdict{visitors: len(all), usual: all.between(played[0].from, played[0].to).latency(.5)}
	for _, one := range all {
		switch {
		case overlaps(played, one):
			if one.err != nil {
				v.outage++
			}
		case one.err != nil && slices.ContainsFunc(deaths, func(d time.Time) bool { return one.began.Before(d) && !one.ended.Before(d) }):
			v.cut++
		case one.err != nil:
			if v.failed++; v.failed <= 3 {
				v.faults = append(v.faults, fmt.Sprintf("a visitor failed after %s: %v", round(one.took()), one.err))
			}
		default:
			v.worst = max(v.worst, one.took())
		}
	}
	for _, p := range played {
		v.judgeAct(p, all.between(p.to.Add(-settled), p.to.Add(-almost)))
	}
	return v
}

// judgeAct checks that an act ended as it should.
func (v *verdict) judgeAct(p playedAct, last visits) {
	served := len(last) - last.failed()
	if p.claimed != p.serves {
		v.faults = append(v.faults, fmt.Sprintf("%q: the relay says that %q serves, want %q", p.title, p.claimed, p.serves))
	}
	switch {
	case p.serves == "" && served > 0:
		v.faults = append(v.faults, fmt.Sprintf("%q: %d visitors were served by nobody knows whom", p.title, served))
	case p.serves != "" && (last.by(p.serves) == 0 || last.by(p.serves) != served):
		v.faults = append(v.faults, fmt.Sprintf("%q: at its end %s served %d visitors of %d, want all",
			p.title, p.serves, last.by(p.serves), len(last)))
	}
}

// between are the visits that began in a span of time.
func (vs visits) between(from, to time.Time) (some visits) {
	for _, v := range vs {
		if !v.began.Before(from) && v.began.Before(to) {
			some = append(some, v)
		}
	}
	return some
}

// overlaps tells whether a visit was under way during an outage.
func overlaps(played []playedAct, v visit) bool {
	for i, p := range played {
		end := p.to
		if i+1 < len(played) {
			end = played[i+1].from // when somebody was back
		}
		if p.serves == "" && v.began.Before(end) && !v.ended.Before(p.from) {
			return true
		}
	}
	return false
}

func (v *verdict) passed() bool { return v.failed == 0 && len(v.faults) == 0 }

func (v *verdict) text() string {
	head := "PASS"
	if !v.passed() {
		head = "FAIL"
	}
	text := fmt.Sprintf("%s: %d visitors, %d failed while a gateway was alive, worst added latency %s (usual: %s)",
		head, v.visitors, v.failed, round(v.worst-v.usual), round(v.usual))
	if v.cut > 0 {
		text += fmt.Sprintf(", %d were with a gateway at the moment it was killed", v.cut)
	}
	text += fmt.Sprintf(", %d turned away in the outage of both", v.outage)
	if len(v.faults) > 0 {
		text += "\n  " + strings.Join(v.faults, "\n  ")
	}
	return text
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
