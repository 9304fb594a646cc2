package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// local is a command that does its work in this process. It needs no Caddy that
// runs, and refuses to work beside one on the same state directory.
type local struct {
	config  string
	adapter string
	json    bool
}

func (l *local) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.config, "config", "c", "", "config file (default: Caddyfile in this directory)")
	cmd.Flags().StringVar(&l.adapter, "adapter", "", "how to read the config file (default: by its name)")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON")
}

func checkCommand() caddycmd.Command {
	return caddycmd.Command{
		Name: "check", Usage: "[--config <file>] [--json]", Short: "Looks at records and paths, and changes nothing",
		Long: `
Reads the config, asks the provider for the records, runs every probe once, and says
what keeps the watchdog from doing its work. It changes nothing. It runs in this
process, and is refused while a watchdog has the same state_dir.
` + exits,
		CobraFunc: func(cmd *cobra.Command) {
			l := &local{}
			l.addFlags(cmd)
			ours(cmd, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return l.check(cmd) })
		},
	}
}

func onceCommand() caddycmd.Command {
	return caddycmd.Command{
		Name: "once", Usage: "[--config <file>] [--apply] [--site <site> --to <path>] [--json]",
		Short: "Runs one cycle and ends, as from a timer",
		Long: `
Reads, probes, decides and writes once, in this process. What was counted is kept for
the next run. Nothing is written without --apply, whatever the config says.

With --site and --to it moves one site to a path, if that is seen to work.
` + exits,
		CobraFunc: func(cmd *cobra.Command) {
			o := &once{}
			o.addFlags(cmd)
			cmd.Flags().BoolVar(&o.apply, "apply", false, "permit writes")
			cmd.Flags().StringVar(&o.site, "site", "", "the site to move; needs --to")
			cmd.Flags().StringVar(&o.to, "to", "", "the path to move it to; needs --site")
			ours(cmd, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd) })
		},
	}
}

// load reads the config and opens the state directory.
func (l *local) load(apply bool, log *slog.Logger) (*watchdog.Watchdog, *watchdog.Config, error) {
	app, err := loadApp(l.config, l.adapter)
	if err != nil {
		return nil, nil, err
	}
	app.Apply = apply
	if apply && app.Council != nil {
		return nil, nil, errors.New("council: one cycle cannot hold a lease: run the watchdog, or leave council out")
	}
	c, notices, err := app.build(settings.ThisMachine)
	for _, n := range notices {
		log.Warn(n)
	}
	if err != nil {
		return nil, nil, err
	}
	c.Log = log
	w, err := watchdog.Open(c.Dir, apply, journal.Options{Log: log})
	if err != nil {
		return nil, nil, openError(c.Dir, err)
	}
	return w, c, nil
}

// loadApp finds the app in a config file.
func loadApp(file, adapter string) (*App, error) {
	config, from, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	if from == "" {
		return nil, errors.New("there is no config: set --config, or have a Caddyfile in this directory")
	}
	var parts struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	if err := json.Unmarshal(config, &parts); err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	raw := parts.Apps["edge_watchdog"]
	if raw == nil {
		return nil, fmt.Errorf("%s has no edge_watchdog app (the edge_watchdog global option)", from)
	}
	app := new(App)
	if err := caddy.StrictUnmarshalJSON(raw, app); err != nil {
		return nil, fmt.Errorf("%s: edge_watchdog: %w", from, err)
	}
	return app, nil
}

// interruptible ends with the first signal to stop.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// checkReport is what check prints as JSON.
type checkReport struct {
	watchdog.Status
	Problems []string `json:"problems"`
}

func (l *local) check(cmd *cobra.Command) error {
	w, c, err := l.load(false, commandLog(cmd.ErrOrStderr(), slog.LevelError))
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, stop := interruptible()
	defer stop()
	found, err := w.Check(ctx, *c)
	if err != nil {
		return err
	}
	slices.Sort(found.Problems)
	if l.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(checkReport{found.Status, append([]string{}, found.Problems...)})
	} else {
		printCheck(cmd.OutOrStdout(), found)
	}
	if n := len(found.Problems); n > 0 && err == nil {
		err = fmt.Errorf("problems: %d", n)
	}
	return err
}

func printCheck(out io.Writer, c watchdog.Checked) {
	printProbes(out, c.Status.Sites)
	fmt.Fprintln(out)
	t := table.New(out, "SITE", "RECORDS", "ON", "DIFFERENCES")
	for _, s := range c.Status.Sites {
		t.Row(s.Site, s.Records, s.On, strings.Join(s.Drifts, "; "))
	}
	t.End()
	fmt.Fprintln(out)
	if len(c.Problems) == 0 {
		fmt.Fprintln(out, "No problems.")
		return
	}
	fmt.Fprintln(out, "Problems:")
	for _, p := range c.Problems {
		fmt.Fprintln(out, "  "+table.OneLine(p))
	}
}

// once is one cycle.
type once struct {
	local
	apply    bool
	site, to string
}

func (o *once) run(cmd *cobra.Command) error {
	if (o.site == "") != (o.to == "") {
		return errors.New("--site and --to go together: want both or neither")
	}
	w, c, err := o.load(o.apply, commandLog(cmd.ErrOrStderr(), slog.LevelInfo))
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, stop := interruptible()
	defer stop()
	if o.to != "" {
		return o.move(ctx, cmd.OutOrStdout(), w, c)
	}
	st, err := w.Once(ctx, *c)
	if err != nil && !errors.Is(err, watchdog.ErrCycle) {
		return err
	}
	if !o.apply && decided(st) {
		err = nil // a dry run that moves nobody is as complete as it gets
	}
	return errors.Join(err, o.print(cmd.OutOrStdout(), st))
}

// decided reports whether a cycle came as far as a dry run can.
func decided(st watchdog.Status) bool {
	for _, z := range st.Zones {
		if z.Error != "" {
			return false
		}
	}
	for _, s := range st.Sites {
		if s.RecordsAt.IsZero() || s.Phase == decide.Quarantine {
			return false
		}
	}
	return true
}

func (o *once) print(out io.Writer, st watchdog.Status) error {
	if o.json {
		return json.NewEncoder(out).Encode(st)
	}
	printStatus(out, st)
	return nil
}

// move switches one site. The others are left alone.
func (o *once) move(ctx context.Context, out io.Writer, w *watchdog.Watchdog, c *watchdog.Config) error {
	all := c.WithDefaults().Sites
	i := slices.IndexFunc(all, func(s watchdog.Site) bool { return s.Name == o.site || slices.Contains(s.Names, o.site) })
	if i < 0 {
		return fmt.Errorf("--site %q: %w", o.site, watchdog.ErrNotFound)
	}
	c.Sites, c.Part = c.Sites[i:i+1], true
	if err := w.Start(c); err != nil {
		return err
	}
	defer w.Stop(c)
	err := w.Switch(ctx, all[i].Name, o.to, "once --to")
	st, _ := w.Status()
	if err == nil {
		return o.print(out, st)
	}
	return moveError(err, o.apply, out)
}

// moveError tells a refusal, a dry run and the provider's trouble apart.
func moveError(err error, apply bool, out io.Writer) error {
	switch {
	case errors.Is(err, watchdog.ErrRefused), errors.Is(err, watchdog.ErrNotFound):
		return err
	case !apply && errors.Is(err, watchdog.ErrDry):
		fmt.Fprintln(out, err)
		return nil
	}
	return fmt.Errorf("%w: %w", errProvider, err)
}

func commandLog(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
}
