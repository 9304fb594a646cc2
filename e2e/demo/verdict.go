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
	failed   int // while there was a way to a gateway that was alive
	cut      int // those whose own gateway, or relay, was killed while it served them
	outage   int // failed while none was alive: as it must be
	stranded int // failed while the records moved: DNS still led where nobody was
	moves    []string
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

// judge looks at all visits. Deaths are when a gateway or the relay was killed.
func judge(played []playedAct, all visits, deaths []span, moves []*move) *verdict {
	v := &verdict{visitors: len(all), usual: all.between(played[0].from, played[0].to).latency(.5)}
	for _, one := range all {
		switch {
		case overlaps(played, one):
			if one.err != nil {
				v.outage++
			}
		case one.err != nil && slices.ContainsFunc(deaths, func(d span) bool { return !one.began.After(d.to) && !one.ended.Before(d.from) }):
			v.cut++
		case one.err != nil && slices.ContainsFunc(moves, func(m *move) bool { return m.strands(one) }):
			v.stranded++
		case one.err != nil:
			if v.failed++; v.failed <= 3 {
				v.faults = append(v.faults, fmt.Sprintf("a visitor failed after %s: %v", round(one.took()), one.err))
			}
		default:
			v.worst = max(v.worst, one.took())
		}
	}
	for _, m := range moves {
		v.judgeMove(m)
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

// strands reports whether a visitor came while DNS still led to the dead relay; or
// was on the way, at the moment of the way back, to an edge that then no longer serves
// the name.
func (m *move) strands(v visit) bool {
	dns, ok := m.after("DNS")
	led := m.cause.Add(dns + lookupTakes)
	if m.to == "relay" {
		write, written := m.after("write")
		return ok && written && v.began.Before(led) && !v.ended.Before(m.cause.Add(write))
	}
	return !v.began.Before(m.cause) && (!ok || v.began.Before(led))
}

// lookupTakes is how old an answer from DNS may be when a visitor sets out.
const lookupTakes = 100 * time.Millisecond

// judgeMove checks that a move took each step.
func (v *verdict) judgeMove(m *move) {
	var lacks []string
	for _, step := range []string{"decide", "write", "verified", "DNS"} {
		if _, ok := m.after(step); !ok {
			lacks = append(lacks, step)
		}
	}
	if len(lacks) > 0 {
		v.faults = append(v.faults, fmt.Sprintf("the move to %s lacks: %s", m.to, strings.Join(lacks, ", ")))
		return
	}
	verified, _ := m.after("verified")
	dns, _ := m.after("DNS")
	v.moves = append(v.moves, fmt.Sprintf("The move to %s: records verified after %s, DNS leads there after %s", m.to, round(verified), round(dns)))
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
	if len(v.moves) > 0 {
		text += fmt.Sprintf(", %d lost until DNS led past the dead relay", v.stranded)
	}
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
