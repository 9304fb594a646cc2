package fallback

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

func printStatus(out io.Writer, st control.Status) {
	if st.Note != "" {
		fmt.Fprintln(out, table.OneLine(st.Note))
		fmt.Fprintln(out)
	}
	t := table.New(out, "HOME", "STATE", "SINCE", "LEASE", "EPOCH", "SEAT", "DNS HERE", "WHY")
	for _, h := range st.Homes {
		t.Row(h.Home, h.Stage, table.Ago(h.Since), h.Holder, h.Epoch, seat(h), dns(h), h.Why)
	}
	t.End()
	fmt.Fprintln(out)
	t = table.New(out, "HOME", "TIER", "ITEM", "WHOSE", "HERE", "DOING", "WHY")
	for _, h := range st.Homes {
		for _, i := range h.Items {
			t.Row(h.Home, tier(i), i.Name, i.At, i.Seen, i.Doing, remark(i))
		}
	}
	t.End()
	for _, h := range st.Homes {
		printDoing(out, h)
	}
}

func seat(h control.HomeStatus) string {
	if h.Seat.Phase == "" {
		return ""
	}
	return h.Seat.String()
}

func dns(h control.HomeStatus) string {
	switch {
	case !h.DNS:
		return "off"
	case !h.Verified:
		return "on, not seen yet"
	}
	return "on"
}

func tier(i control.ItemStatus) string {
	if i.Tier == 0 {
		return "warm"
	}
	return fmt.Sprint(i.Tier)
}

// remark says what keeps an item from being as it should.
func remark(i control.ItemStatus) string {
	var list []string
	if i.Held {
		list = append(list, "held until go")
	}
	if i.Stale != "" {
		list = append(list, "its newest data may be at "+i.Stale)
	}
	if i.Why != "" {
		list = append(list, i.Why)
	}
	return strings.Join(list, "; ")
}

// printDoing says what is under way for a home, and what stops it.
func printDoing(out io.Writer, h control.HomeStatus) {
	if h.Hold != nil {
		until := "until resume"
		if !h.Hold.Until.IsZero() {
			until = "until " + h.Hold.Until.Format(time.RFC3339)
		}
		fmt.Fprintf(out, "\n%s is held by %s %s: %s\n", h.Home, table.OneLine(h.Hold.By), until, table.OneLine(h.Hold.Why))
	}
	if h.Step != "" {
		fmt.Fprintf(out, "\n%s: %s for %s: %s\n", h.Home, table.OneLine(h.Step), table.Ago(h.StepSince), table.OneLine(h.StepWhy))
	}
	if c := h.Carrying; c != nil {
		fmt.Fprintf(out, "\n%s: carrying %s of %s: %s of %s, %s/s, %s left\n", h.Home, table.OneLine(c.Path), table.OneLine(c.Item),
			size(c.Bytes), size(c.Total), size(c.Rate), c.Left.Round(time.Second))
	}
	if time.Until(h.NotBack) > 0 {
		fmt.Fprintf(out, "\n%s: no handback before %s\n", h.Home, h.NotBack.Format(time.RFC3339))
	}
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func printHome(out io.Writer, h control.HomeStatus) {
	fmt.Fprintf(out, "%s is %s: %s\n", h.Home, h.Stage, table.OneLine(h.Why))
	printDoing(out, h)
}

func printPlan(out io.Writer, a planAnswer) {
	fmt.Fprintf(out, "%s is %s: %s\n", a.Home, a.Stage, table.OneLine(a.Why))
	for i, s := range a.Steps {
		var more []string
		if s.Due > 0 {
			more = append(more, "when the outage is "+s.Due.String()+" old")
		}
		if s.Done {
			more = append(more, "done")
		}
		if s.Note != "" {
			more = append(more, s.Note)
		}
		line := s.Step.String()
		if len(more) > 0 {
			line += ": " + strings.Join(more, ", ")
		}
		fmt.Fprintf(out, "%3d. %s\n", i+1, table.OneLine(line))
	}
	if len(a.Steps) == 0 {
		fmt.Fprintln(out, "     nothing to do")
	}
}

func printRecords(out io.Writer, list []fallback.Record) {
	t := table.New(out, "TIME", "HOME", "STATE", "STEP", "EVENT", "REASON", "ACTIONS")
	for _, r := range list {
		t.Row(r.At.Format(time.RFC3339), r.Home, stage(r), r.Step, r.Event, r.Reason, strings.Join(r.Actions, ", "))
	}
	t.End()
}

func stage(r fallback.Record) string {
	if r.From == r.To {
		return string(r.To)
	}
	return fmt.Sprintf("%s -> %s", r.From, r.To)
}

func recordLine(r fallback.Record) string {
	parts := []string{r.At.Format(time.RFC3339), r.Home, stage(r)}
	for _, s := range []string{r.Step, cmp.Or(r.Reason, r.Event), strings.Join(r.Actions, ", ")} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return table.OneLine(strings.Join(parts, "  "))
}

func printPhase(out io.Writer, p drill.Phase) {
	state := "ok"
	if !p.OK {
		state = "FAILED"
	}
	fmt.Fprintf(out, "%d. %-28s %7.1fs  %s\n", p.Number, p.Name, p.Seconds, strings.TrimSpace(state+"  "+table.OneLine(p.Detail)))
}

func printDrills(out io.Writer, a drillAnswer) {
	if d := a.Running; d != nil {
		fmt.Fprintf(out, "a drill of %s is under way since %s: %d phases have ended\n\n", d.Home, table.Ago(d.Began), len(d.Phases))
	}
	for _, h := range a.Homes {
		when := "never"
		if h.Seconds != nil {
			when = table.Ago(time.Now().Add(-time.Duration(*h.Seconds*float64(time.Second)))) + " ago"
		}
		if h.Overdue {
			when += ", which is too long ago"
		}
		fmt.Fprintf(out, "%s: last good drill %s\n", h.Home, when)
	}
	fmt.Fprintln(out)
	t := table.New(out, "DRILL", "HOME", "BEGAN", "REAL", "RESULT", "TOOK", "WHY")
	for _, r := range a.Reports {
		result := "pass"
		if !r.OK {
			result = "FAIL"
		}
		t.Row(r.ID, r.Home, r.Began.Format(time.RFC3339), r.Real, result, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), r.Error)
	}
	t.End()
}

func printUndos(out io.Writer, list []writeback.Undo) {
	t := table.New(out, "ID", "HOME", "ITEM", "DATA", "HERE", "FROM", "WRITTEN")
	for _, u := range list {
		t.Row(u.ID, u.Home, u.Item, u.Path, u.Dir, u.From, u.At.Format(time.RFC3339))
	}
	t.End()
}
