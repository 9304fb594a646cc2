package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/firewall"
	"github.com/edgeward/edgeward/relay/firewall/command"
	"github.com/edgeward/edgeward/sidecar/address"
	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/preflight"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/runtime"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// errStops is the error of findings that stop; its exit code is 2.
var errStops = errors.New("something must be dealt with first")

// options are the flags.
type options struct {
	config      string
	preset      string
	domain      string
	home        string
	output      string
	snapshot    string
	snapshotAge time.Duration
	noReload    bool
	json        bool
	debug       bool
}

func root() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "edge-sidecar",
		Short: "Keeps an HAProxy doing what the relay does",
		Long: `
Renders the relay's gateways, pools and routes as an HAProxy config, and puts it in force.

The config is JSON; what "edge-relay edge backup" prints is one. "run" keeps a running HAProxy
in step with the health of the gateways.

The exit code is 0 if all is well, 1 if a command failed, and 2 if something must be dealt with
first. "run" ends with 3 if another one runs, and with 4 if HAProxy checks the gateways itself.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	f := cmd.PersistentFlags()
	f.StringVarP(&o.config, "config", "c", "/etc/edgeward/sidecar.json", "the description, as JSON")
	f.StringVar(&o.preset, "preset", "", `"oracle": a relay for one home, with careful limits`)
	f.StringVar(&o.domain, "domain", "", "with --preset and no --config: the domain that the home serves")
	f.StringVar(&o.home, "home-ip", "", "with --preset and no --config: the home's public IPv4 address")
	f.StringVar(&o.snapshot, "snapshot", "", "file with the relay's snapshot; members that do not serve are rendered as disabled")
	f.DurationVar(&o.snapshotAge, "snapshot-age", time.Minute, "how old the snapshot's file may be")
	f.BoolVar(&o.json, "json", false, "print JSON")
	cmd.AddCommand(o.renderCommand(), o.checkCommand(), o.applyCommand(), o.runCommand(), o.statusCommand(), o.preflightCommand(), command.New(command.Options{Path: []string{"firewall"}, JSON: &o.json, Found: func() error { return errStops }}))
	return cmd
}

func leaf(name, short string, run func(cmd *cobra.Command) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) }}
}

// brief is leaf for what ends, in an orderly way, with the session it was called in.
func brief(name, short string, run func(cmd *cobra.Command) error) *cobra.Command {
	return leaf(name, short, func(cmd *cobra.Command) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
		defer stop()
		cmd.SetContext(ctx)
		return run(cmd)
	})
}

func (o *options) renderCommand() *cobra.Command {
	cmd := brief("render", "Writes the HAProxy config, and the maps if it goes into a file; touches nothing else", o.render)
	cmd.Flags().StringVarP(&o.output, "output", "o", "-", "file to write; the maps go where the config says. - is standard output")
	return cmd
}

func (o *options) checkCommand() *cobra.Command {
	return brief("check", "Renders, and lets HAProxy look at it; changes nothing", o.check)
}

func (o *options) applyCommand() *cobra.Command {
	cmd := brief("apply", "Renders, checks, replaces and reloads; puts the former config back if the new one does not come up", o.apply)
	cmd.Flags().BoolVar(&o.noReload, "no-reload", false, "leave HAProxy alone: the config is for its next start")
	return cmd
}

func (o *options) preflightCommand() *cobra.Command {
	return brief("preflight", "Finds what would be in the way on this machine; changes nothing", o.preflight)
}

func (o *options) render(cmd *cobra.Command) error {
	_, out, err := o.rendered(cmd)
	if err != nil {
		return err
	}
	if o.output == "-" {
		_, err := io.WriteString(cmd.OutOrStdout(), out.Text)
		return err
	}
	for _, f := range append(out.Files, render.File{Path: o.output, Content: out.Text}) {
		if err := apply.Write(f.Path, f.Content); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) check(cmd *cobra.Command) error {
	plan, out, err := o.rendered(cmd)
	if err != nil {
		return err
	}
	problems, err := apply.Check(cmd.Context(), checker(plan), out)
	if bad, ok := errors.AsType[*haproxy.Invalid](err); ok {
		problems = bad.Problems
	}
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "HAProxy takes the config")
	return err
}

func checker(plan settings.Plan) haproxy.Checker {
	return haproxy.Checker{Binary: plan.HAProxy.Binary, Timeout: time.Duration(plan.HAProxy.CheckTimeout)}
}

func (o *options) apply(cmd *cobra.Command) error {
	plan, out, err := o.rendered(cmd)
	if err != nil {
		return err
	}
	plan.Reload.Off = plan.Reload.Off || o.noReload
	c := daemon.Applying(plan)
	if plan.Render.Health == render.BySidecar && o.snapshot == "" {
		c.Maps = runtime.New(out.Socket, runtime.Options{})
	}
	result, err := apply.Apply(cmd.Context(), c, out)
	for _, text := range result.Notices {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", text)
	}
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), describe(result, plan.HAProxy.Config))
	return err
}

func describe(r apply.Result, path string) string {
	switch {
	case !r.Changed:
		return path + " is as it should be: nothing was touched"
	case r.Worker == 0 && r.Names > 0:
		return fmt.Sprintf("%s is written, and its names are in force without a reload (%d maps)", path, r.Names)
	case r.Worker == 0:
		return path + " is written, for the next start of HAProxy"
	}
	return fmt.Sprintf("%s is in force in worker %d; the states of %d servers went along", path, r.Worker, r.Carried)
}

func (o *options) preflight(cmd *cobra.Command) error {
	c := preflight.Config{Binary: "/usr/sbin/haproxy", Path: "/etc/haproxy/haproxy.cfg"}
	plan, err := o.plan(cmd)
	switch {
	case err == nil:
		c = preflight.Config{Binary: plan.HAProxy.Binary, Path: plan.HAProxy.Config, Master: plan.Reload.Master}
	case cmd.Flags().Changed("config"):
		return err
	}
	return o.report(cmd, preflight.Check(cmd.Context(), preflight.Host(), c))
}

func (o *options) report(cmd *cobra.Command, findings []firewall.Finding) error {
	w := cmd.OutOrStdout()
	if o.json {
		if findings == nil {
			findings = []firewall.Finding{}
		}
		if err := json.NewEncoder(w).Encode(findings); err != nil {
			return err
		}
	} else if len(findings) == 0 {
		fmt.Fprintln(w, "nothing is in the way")
	}
	for _, f := range findings {
		if !o.json {
			fmt.Fprintf(w, "%s: %s\n\twhy: %s\n\tdo:  %s\n", f.Severity, f.What, f.Why, f.Do)
		}
	}
	if len(firewall.Stops(findings)) > 0 {
		return errStops
	}
	return nil
}

// rendered reads the config and renders it; notices go to standard error.
func (o *options) rendered(cmd *cobra.Command) (settings.Plan, render.Output, error) {
	plan, err := o.plan(cmd)
	if err != nil {
		return plan, render.Output{}, err
	}
	if o.snapshot != "" {
		if plan.Render.Stopped, err = readSnapshot(o.snapshot, o.snapshotAge, cmd.InOrStdin()); err != nil {
			return plan, render.Output{}, err
		}
	}
	if plan.Render.Follows {
		if plan.Render.Addresses, err = address.Addresses(plan.Addresses.File); err != nil {
			return plan, render.Output{}, err
		}
	}
	out, err := render.Render(plan.Render)
	if err != nil {
		return plan, out, err
	}
	for _, name := range plan.LeftOut {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: route %s is left out\n", name)
	}
	for _, text := range out.Notices {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", text)
	}
	return plan, out, nil
}

// plan reads the config, or makes one from the flags of a preset.
func (o *options) plan(cmd *cobra.Command) (settings.Plan, error) {
	if o.domain == "" && o.home == "" {
		return settings.Load(o.config, o.preset)
	}
	if cmd.Flags().Changed("config") {
		return settings.Plan{}, errors.New("--config and --domain: want one of them")
	}
	if o.preset != "oracle" {
		return settings.Plan{}, errors.New("--domain and --home-ip need --preset oracle")
	}
	f, err := settings.Oracle(o.domain, o.home)
	if err != nil {
		return settings.Plan{}, err
	}
	return f.Plan()
}
