package fallback

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
)

// drillAnswer is what there is to know of drills.
type drillAnswer struct {
	Running *drillRun      `json:"running,omitempty"`
	Homes   []drillAge     `json:"homes"`
	Reports []drill.Report `json:"reports"` // newest first
}

// drillNews is one event of a drill: a phase that has ended, or the report, which is the
// last.
type drillNews struct {
	Phase  *drill.Phase  `json:"phase,omitempty"`
	Report *drill.Report `json:"report,omitempty"`
}

// drills says what was, with GET, and drills, with POST.
func drills(w http.ResponseWriter, r *http.Request) error {
	serve := startDrill
	if r.Method != http.MethodPost {
		serve = func(now *running, w http.ResponseWriter, r *http.Request) error {
			reports, err := now.drills.Reports()
			if err != nil {
				return err
			}
			return write(w, http.StatusOK, drillAnswer{now.drilling.Load(), now.ages(time.Now()), reports})
		}
	}
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET, POST")
		return refuse(w, newProblem(http.StatusMethodNotAllowed, codeMethod, "want GET or POST"))
	}
	return raw(r.Method, serve)(w, r)
}

// startDrill drills for as long as somebody listens. What is refused has a status of its
// own: the stream begins with the end of the first phase.
func startDrill(now *running, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	o := drill.Options{Home: q.Get("home"), Confirm: q.Get("confirm")}
	if text := q.Get("real"); text != "" {
		var err error
		if o.Real, err = strconv.ParseBool(text); err != nil {
			return newProblem(http.StatusBadRequest, codeBadRequest, "real=%q: want true or false", text)
		}
	}
	if !now.covers(o.Home) {
		return fmt.Errorf("home %q: %w", o.Home, control.ErrNoHome)
	}
	ctx, cancel := now.during(r.Context())
	defer cancel()
	begun := false
	say := func(news drillNews) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		text, err := json.Marshal(news)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: drill\ndata: %s\n\n", text)
		}
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			cancel() // nobody listens
		}
	}
	report, err := now.runDrill(ctx, o, func(p drill.Phase) { say(drillNews{Phase: &p}) })
	if report.ID == "" {
		return err
	}
	say(drillNews{Report: &report})
	return nil
}

func (c *client) drillCommand() *cobra.Command {
	var real bool
	var confirm string
	cmd := command("drill [<home>]", "Rehearses an outage of a home that this one covers, and its handback", `

It has seven phases, and says how long each took. Nothing real is touched: the items are
stand-ins that sleep, and no record is written. With --real the services move; that wants
a drill_window at both homes, and that you type what it asks for. Interrupt it, and it
takes back what it has done. Without a home it lists the drills there were.`, cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.reports(cmd)
			}
			if real && confirm == "" {
				var err error
				if confirm, err = typed(cmd, drill.Confirmation(args[0])); err != nil {
					return err
				}
			}
			q := url.Values{"home": {args[0]}, "real": {strconv.FormatBool(real)}}
			add(q, "confirm", confirm)
			return c.drill(cmd, q)
		})
	cmd.Flags().BoolVar(&real, "real", false, "move the real services")
	cmd.Flags().StringVar(&confirm, "confirm", "", "what would have to be typed for --real")
	return cmd
}

// typed has a person type what must be.
func typed(cmd *cobra.Command, want string) (string, error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "This moves real services. To go on, type: %s\n", want)
	in := bufio.NewScanner(cmd.InOrStdin())
	in.Scan()
	if got := strings.TrimSpace(in.Text()); got != want {
		return "", usage(fmt.Errorf("%q was typed, want %q: nothing is done", got, want))
	}
	return want, nil
}

// drill runs one, and prints each phase when it has ended.
func (c *client) drill(cmd *cobra.Command, q url.Values) error {
	out := cmd.OutOrStdout()
	var report *drill.Report
	err := c.listen(cmd.Context(), http.MethodPost, "/fallback/drill?"+q.Encode(), func(data []byte) error {
		var news drillNews
		if err := json.Unmarshal(data, &news); err != nil {
			return fmt.Errorf("reading how the drill goes: %w", err)
		}
		if news.Report != nil {
			report = news.Report
		}
		if p := news.Phase; p != nil && !c.json {
			printPhase(out, *p)
		}
		return nil
	})
	switch {
	case report == nil && cmd.Context().Err() != nil:
		return fmt.Errorf("it was interrupted: what it had done is being taken back")
	case report == nil && err == nil:
		return fmt.Errorf("the other side has ended it: look at fallback drill for its report")
	case report == nil:
		return err
	case c.json:
		err = json.NewEncoder(out).Encode(report)
	default:
		_, err = fmt.Fprint(out, "\n", report.Text())
	}
	if err == nil && !report.OK {
		err = fmt.Errorf("the drill has failed: %s", report.Error)
	}
	return err
}

func (c *client) reports(cmd *cobra.Command) error {
	var a drillAnswer
	printed, err := c.call(cmd, http.MethodGet, "/fallback/drill", &a)
	if err == nil && !printed {
		printDrills(cmd.OutOrStdout(), a)
	}
	return err
}
