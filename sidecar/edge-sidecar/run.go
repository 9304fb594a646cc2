package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/settings"
)

func (o *options) runCommand() *cobra.Command {
	cmd := leaf("run", "Keeps HAProxy in step with the health of the gateways, until it is told to end", o.run)
	cmd.Flags().BoolVar(&o.debug, "debug", false, "log more")
	return cmd
}

// run works in the foreground. SIGHUP has the config read again.
func (o *options) run(cmd *cobra.Command) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	return daemon.Run(cmd.Context(), daemon.Config{
		Load:   func() (settings.Plan, error) { return o.plan(cmd) },
		Log:    slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
		Reload: hangups,
		Notify: func(state string) { _, _ = systemd.SdNotify(false, state) },
	})
}

func (o *options) statusCommand() *cobra.Command {
	return leaf("status", "Asks the running sidecar: what is wanted, what is seen, and why", o.status)
}

func (o *options) status(cmd *cobra.Command) error {
	p, err := o.plan(cmd)
	if err != nil {
		return err
	}
	s, err := daemon.Ask(cmd.Context(), p.Run.Dir)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
	}
	return printStatus(cmd.OutOrStdout(), s, time.Now())
}

// printStatus writes a status for people.
func printStatus(out io.Writer, s daemon.Status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("sidecar", "pid %d, for %s, health %s", s.PID, ago(now, s.Started), s.Health)
	src := s.Source.Kind
	if s.Source.URL != "" {
		src += " of " + s.Source.URL
	}
	if s.Source.Known {
		line("source", "%s: version %d, heard %s ago", src, s.Source.Version, ago(now, s.Source.Heard))
	} else {
		line("source", "%s: nothing is known, and nothing is changed", src)
	}
	for _, problem := range [][2]string{{"source", s.Source.Error}, {"config", s.Config}} {
		if problem[1] != "" {
			line(problem[0], "%q", problem[1])
		}
	}
	if s.HAProxy != nil {
		printHAProxy(w, *s.HAProxy, s.Sessions, now)
	}
	for _, m := range s.Members {
		line("member", "%s/%s\t%q\t%s", m.Pool, m.Gateway, m.Answer, m.Why)
	}
	for _, a := range s.Addresses {
		text := "unknown"
		if a.Addr.IsValid() {
			text = fmt.Sprintf("%s since %s", a.Addr, ago(now, a.Since))
		}
		if a.Error != "" {
			text += fmt.Sprintf("; stays so: %q", a.Error)
		}
		line("name", "%s\t%s", a.Host, text)
	}
	if a := s.Agents; a != nil {
		line("agent checks", "%d answered, %d of which nothing is known, %d refused", a.Asked, a.Unknown, a.Refused)
	}
	return w.Flush()
}

func printHAProxy(w io.Writer, h follow.Status, sessions map[string]int, now time.Time) {
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	if h.Worker == 0 {
		line("haproxy", "does not answer")
	} else {
		line("haproxy", "%s, worker %d, up for %s, all compared %s ago", h.Version, h.Worker, ago(now, h.Started), ago(now, h.ReadAt))
	}
	if h.Blocked != "" {
		line("blocked", "%s", h.Blocked)
	}
	if h.Error != "" {
		line("last error", "%s ago: %q", ago(now, h.ErrorAt), h.Error)
	}
	c := h.Counts
	line("written", "%d changes, %d not confirmed, %d of others taken back; the last took %s", c.Writes, c.Unconfirmed, c.Drift, c.Took.Round(time.Microsecond))
	fmt.Fprintf(w, "\nPOOL\tGATEWAY\tWANT\tSEEN\tSINCE\tOPEN\tADDRESS\tWHY\n")
	for _, m := range h.Members {
		seen, address, open := "-", "-", "-"
		if n, ok := sessions[m.Backend+"/"+m.Gateway]; ok {
			open = strconv.Itoa(n)
		}
		if m.Seen != nil {
			seen = m.Seen.String()
		}
		if m.Address.IsValid() {
			address = m.Address.String()
		}
		if !m.Done && m.Want != plan.Leave {
			seen += " (!)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.200q\n", m.Backend, m.Gateway, m.Want, seen, ago(now, m.Since), open, address, m.Why)
	}
	fmt.Fprintln(w)
}

// ago is how long something is past, as people say it.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
