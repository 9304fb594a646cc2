package watchdog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/watchdog"
)

// drillPatience is how long a drill may take beside the time it stays: two moves, and a
// look at DNS after the second.
const drillPatience = 4 * time.Minute

func drillCommand() caddycmd.Command {
	var move, stay string
	c := remote("drill", "<site>", "Rehearses a failover, and writes nothing without --move", cobra.ExactArgs(1),
		func(c *client, cmd *cobra.Command, args []string) error { return c.drill(cmd, args[0], move, stay) })
	c.Long = `
Rehearses that the path which a site is on fails. It probes every path, plays the
decision on what was seen, shows what would be written, asks whether the token may
write, and says how long all of it would take. It writes nothing.

With --move it moves the site to that path and back, as switch does. It refuses unless
both are seen to work, and goes back in any case: also when it is interrupted, when the
path that is tried fails, and when the watchdog is started anew meanwhile.
` + exits
	return withFlags(c, func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&move, "move", "", "move the site to this path, and back")
		cmd.Flags().StringVar(&stay, "stay", "", "how long to stay there, like 5m; up to 30m (default: not at all)")
	})
}

// drill asks for a drill. The first signal to stop ends it early; what came of it is
// waited for all the same.
func (c *client) drill(cmd *cobra.Command, site, move, stay string) error {
	q := url.Values{}
	add(q, "move", move)
	add(q, "stay", stay)
	length, err := stayOf(move, stay)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), drillPatience+length)
	defer cancel()
	asked, stop := interruptible()
	defer stop()
	defer context.AfterFunc(asked, func() {
		stop() // the next signal ends this command, and not the way back
		fmt.Fprintln(cmd.ErrOrStderr(), "going back ...")
		if _, err := c.request(http.MethodPost, sitePath(site, "drill/end")); err != nil {
			cancel() // nothing is written yet, and then nothing will be
		}
	})()
	body, err := c.requestWithin(ctx, http.MethodPost, sitePath(site, "drill")+"?"+q.Encode())
	if err != nil {
		return err
	}
	var d watchdog.Drill
	if err := json.Unmarshal(body, &d); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if c.json {
		_, err = cmd.OutOrStdout().Write(body)
	} else {
		printDrill(cmd.OutOrStdout(), d)
	}
	return errors.Join(err, drillError(d))
}

// drillError is what the exit code is made of.
func drillError(d watchdog.Drill) error {
	switch n := len(d.Problems); {
	case n == 0:
		return nil
	case d.Provider:
		return fmt.Errorf("%w; problems: %d", errProvider, n)
	default:
		return fmt.Errorf("problems: %d", n)
	}
}

// stayOf reads how long to stay.
func stayOf(move, stay string) (time.Duration, error) {
	if stay == "" {
		return 0, nil
	}
	d, err := caddy.ParseDuration(stay)
	switch {
	case move == "":
		return 0, errors.New("stay goes with move: want both")
	case err != nil || d < 0 || d > watchdog.MostStay:
		return 0, fmt.Errorf("stay=%q: want a duration up to %s, like 5m", stay, watchdog.MostStay)
	}
	return d, nil
}

func drillSite(now *live, r *http.Request) (any, error) {
	move, stay := r.URL.Query().Get("move"), r.URL.Query().Get("stay")
	length, err := stayOf(move, stay)
	if err != nil {
		return nil, apiError(http.StatusBadRequest, err)
	}
	return now.Drill(r.Context(), r.PathValue("site"), watchdog.DrillOptions{Move: move, Stay: length, By: actor(r)})
}

// drillEnd says where the site is when the way back has begun.
func drillEnd(now *live, r *http.Request) (any, error) {
	if err := now.EndDrill(r.Context(), r.PathValue("site"), actor(r)); err != nil {
		return nil, err
	}
	return now.site(r.PathValue("site"))
}

func printDrill(out io.Writer, d watchdog.Drill) {
	fmt.Fprintf(out, "%s is on %s\n\n", d.Site, cmp.Or(d.On, "no path"))
	t := table.New(out, "PATH", "PROVEN", "TOOK", "WHY")
	for _, p := range d.Paths {
		name := p.Path
		if p.Serving {
			name += " (serving)"
		}
		t.Row(name, yes(p.Proven), took(p.Took), p.Why)
	}
	t.End()
	fmt.Fprintf(out, "\nIf %s failed now: ", cmp.Or(d.On, "its path"))
	if d.Decision == "" {
		fmt.Fprintln(out, "nothing would be written: "+table.OneLine(d.Why))
	} else {
		fmt.Fprintf(out, "%s would be written\n", d.Decision)
	}
	for _, line := range d.Plan {
		fmt.Fprintln(out, "  "+table.OneLine(line))
	}
	fmt.Fprintf(out, "The token may write: %s\n", table.OneLine(cmp.Or(d.Token.May+because(d.Token.Why), "not asked")))
	printSteps(out, "EXPECTED", d.Expected)
	printSteps(out, "DONE", d.Steps)
	if len(d.Problems) == 0 {
		fmt.Fprintln(out, "\nNo problems.")
		return
	}
	fmt.Fprintln(out, "\nProblems:")
	for _, p := range d.Problems {
		fmt.Fprintln(out, "  "+table.OneLine(p))
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ", " + why
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func printSteps(out io.Writer, head string, steps []watchdog.DrillStep) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := table.New(out, head, "TIME", "DETAIL")
	for _, s := range steps {
		t.Row(s.Step, time.Duration(s.Took*float64(time.Second)).Round(time.Millisecond), s.Detail)
	}
	t.End()
}
