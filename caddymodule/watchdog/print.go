package watchdog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/watchdog"
)

func printStatus(out io.Writer, st watchdog.Status) {
	if !st.Apply {
		fmt.Fprintln(out, "This is a dry run: nothing is written.")
	}
	t := table.New(out, "SITE", "PHASE", "ON", "WANT", "MOVED", "MOVES LEFT", "WHY")
	for _, s := range st.Sites {
		left := fmt.Sprint(s.BudgetLeft)
		if s.BudgetLeft < 0 {
			left = "any"
		}
		t.Row(s.Site, s.Phase, s.On, s.Want, table.Ago(s.LastMove), left, s.Why)
	}
	t.End()
	fmt.Fprintln(out)
	printPaths(out, st.Sites)
	fmt.Fprintln(out)
	printProbes(out, st.Sites)
	fmt.Fprintln(out)
	t = table.New(out, "ZONE", "READ", "REQUESTS", "LEFT", "TROUBLE")
	for _, z := range st.Zones {
		t.Row(cmp.Or(z.Zone, z.ID), table.Ago(z.ReadAt), z.Requests, z.BudgetLeft, z.Error)
	}
	t.End()
	if st.Notices.Queued > 0 {
		fmt.Fprintf(out, "\n%d notices wait to be delivered\n", st.Notices.Queued)
	}
}

func printPaths(out io.Writer, sites []watchdog.SiteStatus) {
	t := table.New(out, "SITE", "PATH", "STATE", "FAILED", "WELL FOR", "RECOVERY LEFT", "WHY")
	for _, s := range sites {
		for _, p := range s.Paths {
			t.Row(s.Site, p.Path, pathState(p), fmt.Sprintf("%d of %d", p.Failures, p.Window), seconds(p.HealthyFor), seconds(p.RecoveryLeft), p.Why)
		}
	}
	t.End()
}

func pathState(p watchdog.PathStatus) string {
	var list []string
	if p.Serving {
		list = append(list, "serving")
	}
	switch {
	case p.Failed:
		list = append(list, "failed")
	case p.Usable:
		list = append(list, "usable")
	}
	return strings.Join(list, ", ")
}

// printProbes shows the latest probe of each kind.
func printProbes(out io.Writer, sites []watchdog.SiteStatus) {
	t := table.New(out, "SITE", "PROBE", "ADDRESS", "RESULT", "TOOK", "CERTIFICATE", "DETAIL")
	for _, s := range sites {
		for _, p := range probesOf(s) {
			what := p.kind
			if p.path != "" {
				what = p.path
			}
			detail := strings.Join(append([]string{p.Detail}, p.Degraded...), "; ")
			t.Row(s.Site, what+" "+p.family, p.Address, p.Value, took(p.Took), expiry(p.Expires, time.Now()), cmp.Or(strings.Trim(detail, "; "), p.Reason))
		}
	}
	t.End()
}

func took(s float64) string { return fmt.Sprintf("%.0f ms", s*1e3) }

// expiry is how much of a certificate's life is left.
func expiry(end, now time.Time) string {
	switch left := end.Sub(now); {
	case end.IsZero():
		return "-"
	case left < 0:
		return "expired " + end.UTC().Format(time.DateOnly)
	default:
		return fmt.Sprintf("%d days", int(left.Hours()/24))
	}
}

func printExplanation(out io.Writer, e explanation) {
	fmt.Fprintf(out, "%s is %s, on %s: %s\n", e.Site, e.Phase, cmp.Or(e.On, "no path"), table.OneLine(e.Why))
	for _, line := range e.Paths {
		fmt.Fprintln(out, "  path "+table.OneLine(line))
	}
	for _, line := range e.Moves {
		fmt.Fprintln(out, "  "+table.OneLine(line))
	}
	if e.BudgetLeft >= 0 {
		fmt.Fprintf(out, "  moves left this hour: %d\n", e.BudgetLeft)
	}
}

func printPlans(out io.Writer, plans []watchdog.PlanStatus) {
	for _, p := range plans {
		fmt.Fprintf(out, "%s: ", p.Path)
		if len(p.Changes)+len(p.Refused) == 0 {
			fmt.Fprintln(out, "nothing to do")
			continue
		}
		fmt.Fprintf(out, "%d changes\n", len(p.Changes))
		for _, line := range p.Changes {
			fmt.Fprintln(out, "  "+table.OneLine(line))
		}
		for _, line := range p.Refused {
			fmt.Fprintln(out, "  refused: "+table.OneLine(line))
		}
	}
}

func (c *client) history(cmd *cobra.Command, path string) error {
	var page journal.Page
	printed, err := c.call(cmd, http.MethodGet, path, &page)
	if err != nil || printed {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "TIME", "SITE", "KIND", "EVENT", "PHASE", "REASON", "ACTIONS")
	for _, e := range page.Entries {
		var entry watchdog.Entry
		if err := json.Unmarshal(e.Record, &entry); err != nil {
			t.Row(e.At.Format(time.RFC3339), "", "", "cannot be read")
			continue
		}
		t.Row(entry.At.Format(time.RFC3339), entry.Site, entry.Kind, entry.Event, entry.Phase, entry.Reason, strings.Join(entry.Actions, ", "))
	}
	t.End()
	if page.Next != 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "there is more: --before %d\n", page.Next)
	}
	return nil
}

// sentence says what is paused, and for how long.
func (a pauseAnswer) sentence() string {
	what := cmp.Or(a.Site, "every site")
	switch {
	case !a.Paused:
		return "writes for " + what + " are allowed again"
	case a.Until.IsZero():
		return "no writes for " + what + " until resume"
	}
	return "no writes for " + what + " until " + a.Until.Format(time.RFC3339)
}
