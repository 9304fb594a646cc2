package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

// verdict is what the demo has shown.
type verdict struct {
	visitors int
	lines    []string
	faults   []string
}

func (s *show) judge() *verdict {
	web, wiki := s.web.All(), s.wiki.All()
	v := &verdict{visitors: len(web) + len(wiki), faults: s.Faults()}
	v.say("Outage:   DNS led to cellar after %s, tier 1 was well there after %s", round(s.moved), round(s.well))
	v.say("Handback: all was home %s after the power came; the site was gone for %s, the wiki for %s",
		round(s.handed), round(stage.Gap(web, s.back)), round(stage.Gap(wiki, s.back)))
	v.forward("site", web, s.back)
	v.forward("wiki", wiki, s.back)
	v.writers(s.Cloud.Writes())
	for _, i := range services {
		if s.Home(other).Has(i) {
			v.faults = append(v.faults, i+" still runs at cellar")
		}
	}
	return v
}

func (v *verdict) say(format string, args ...any) {
	v.lines = append(v.lines, fmt.Sprintf(format, args...))
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// forward looks for data that was lost on the way back: an older line after a newer one.
func (v *verdict) forward(name string, all []stage.Visit, back time.Time) {
	var last stage.Visit
	for _, one := range all {
		if one.Err != nil || one.Began.Before(back) {
			continue
		}
		if one.Seq < last.Seq {
			v.faults = append(v.faults, fmt.Sprintf("%s: %s showed line %d after line %d of %s", name, one.Home, one.Seq, last.Seq, last.Home))
		}
		last = one
	}
	v.say("Data:     the %s went from line to line, up to %d, and none was lost on the way back", name, last.Seq)
}

// writers tells who wrote the home's records.
func (v *verdict) writers(list []stage.Write) {
	var by []string
	for _, w := range list {
		if w.Home == home && (len(by) == 0 || by[len(by)-1] != w.By) {
			by = append(by, w.By)
		}
	}
	if got, want := strings.Join(by, ", "), "attic, cellar, attic"; got != want {
		v.faults = append(v.faults, fmt.Sprintf("the records of attic were written by %s, want %s", got, want))
	}
	v.say("Records:  written by %s, each with a higher epoch", strings.Join(by, ", then "))
}

func (v *verdict) passed() bool { return len(v.faults) == 0 }

func (v *verdict) text() string {
	if !v.passed() {
		return "FAIL: " + strings.Join(v.faults, "; ")
	}
	return fmt.Sprintf("PASS: %d visitors; at no time two homes ran the same service or wrote the same record", v.visitors)
}
