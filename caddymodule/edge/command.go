package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/firewall/command"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "edge",
		Usage: "<command>",
		Short: "Shows and steers the relay: gateways, pools, connections",
		Long: `
Talks to the admin API of the relay that runs on this machine, or at --address.

Every command prints a table, or with --json what the admin API answered.
The exit code is 0 if all is well, 1 if the command failed, and for
"edge status" 2 if a pool has no member that serves.`,
		CobraFunc: func(root *cobra.Command) {
			c := &client{}
			root.PersistentFlags().StringVar(&c.address, "address", "", "address of the admin API (default: localhost:2019, or the one in --config)")
			root.PersistentFlags().StringVarP(&c.config, "config", "c", "", "config file to find the admin address in")
			root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
			root.AddCommand(append(c.commands(), firewallCommand(&c.json))...)
		},
	})
}

func (c *client) commands() []*cobra.Command {
	show := func(use, short string, run func(*cobra.Command) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs, SilenceUsage: true,
			RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
		}
	}
	act := func(action, kind, short string) *cobra.Command {
		return &cobra.Command{
			Use: action + " <" + kind + ">", Short: short, Args: cobra.ExactArgs(1), SilenceUsage: true,
			RunE: func(cmd *cobra.Command, args []string) error { return c.act(cmd, kind, args[0], action) },
		}
	}
	return append([]*cobra.Command{
		show("status", "Who serves what, and why", c.status),
		show("gateways", "Health of each gateway", c.gateways),
		show("pools", "Roles in each pool, with reasons", c.pools),
		show("connections", "Open connections, and how others ended", c.connections),
		show("limits", "What limits hold, and the busiest sources", c.limits),
		act("drain", "gateway", "No new connections to a gateway; open ones go on"),
		act("undrain", "gateway", "Let health decide about a gateway again"),
		act("disable", "gateway", "No new connections to a gateway, and close the open ones"),
		act("ready", "gateway", "Let health decide about a gateway again"),
		act("hold", "gateway", "Keep a gateway's role whatever its health"),
		act("failover", "pool", "Send new visitors away from who serves a pool now"),
		act("failback", "pool", "End all cooldowns of a pool now"),
	}, c.configCommands()...)
}

func (c *client) status(cmd *cobra.Command) error {
	var pools []api.Pool
	if err := c.call(cmd, http.MethodGet, "/edge/pools?derived", nil, &pools); err != nil {
		return quiet(err)
	}
	t := table.New(cmd.OutOrStdout(), "POOL", "SERVED BY", "OPEN", "SERVED", "OUTAGES")
	lost := false
	for _, p := range pools {
		by := strings.Join(p.Serving, " ")
		if by == "" {
			by, lost = "nobody", true
		}
		t.Row(p.Name, by, p.Open, p.Served, p.Outages)
	}
	t.End()
	if lost {
		cmd.SilenceErrors = true
		fmt.Fprintln(os.Stderr, "a pool has no member that serves: see \"edge pools\"")
		os.Exit(2)
	}
	return nil
}

func (c *client) gateways(cmd *cobra.Command) error {
	var list []api.Gateway
	if err := c.call(cmd, http.MethodGet, "/edge/gateways", nil, &list); err != nil {
		return quiet(err)
	}
	t := table.New(cmd.OutOrStdout(), "GATEWAY", "ADDRESS", "PHASE", "SINCE", "OPERATOR", "OPEN", "CHECK", "REASON")
	for _, g := range list {
		check := "-"
		if g.Check != nil {
			check = fmt.Sprintf("%.1f ms", g.Check.Latency*1e3)
			if !g.Check.OK {
				check = g.Check.Detail
			}
		}
		t.Row(g.Name, g.Address, g.Phase, table.Ago(g.Since), g.Operator, g.Open, check, g.Reason)
	}
	t.End()
	return nil
}

func (c *client) pools(cmd *cobra.Command) error {
	var list []api.Pool
	if err := c.call(cmd, http.MethodGet, "/edge/pools", nil, &list); err != nil {
		return quiet(err)
	}
	t := table.New(cmd.OutOrStdout(), "POOL", "POLICY", "GATEWAY", "ROLE", "WHY")
	for _, p := range list {
		for _, m := range p.Members {
			t.Row(p.Name, p.Policy, m.Gateway, m.Role, m.Reason)
		}
	}
	t.End()
	return nil
}

func (c *client) connections(cmd *cobra.Command) error {
	var report api.ConnectionsReport
	if err := c.call(cmd, http.MethodGet, "/edge/connections", nil, &report); err != nil {
		return quiet(err)
	}
	t := table.New(cmd.OutOrStdout(), "LISTENER", "OPEN", "ACCEPTED", "ENDED")
	for _, l := range report.Listeners {
		t.Row(l.Listener, l.Open, l.Accepted, counts(l.Ended))
	}
	t.End()
	if len(report.Connections) == 0 {
		return nil
	}
	t = table.New(cmd.OutOrStdout(), "SOURCE", "SERVER NAME", "ROUTE", "GATEWAY", "SINCE", "UP", "DOWN")
	for _, l := range report.Connections {
		t.Row(l.Source, fmt.Sprintf("%q", l.ServerName), l.Route, l.Gateway, table.Ago(l.Since), l.BytesUp, l.BytesDown)
	}
	t.End()
	return nil
}

func (c *client) limits(cmd *cobra.Command) error {
	var list []api.LimitsReport
	if err := c.call(cmd, http.MethodGet, "/edge/limits", nil, &list); err != nil {
		return quiet(err)
	}
	t := table.New(cmd.OutOrStdout(), "LISTENER", "OPEN", "SOURCES", "REFUSED", "BUSIEST")
	for _, l := range list {
		refused := map[string]uint64{}
		for why, n := range l.Refused {
			refused[string(why)] = n
		}
		var top []string
		for _, s := range l.Busiest[:min(len(l.Busiest), 3)] {
			top = append(top, fmt.Sprintf("%s (%d)", s.Prefix, s.Open))
		}
		t.Row(l.Listener, l.Open, l.Sources, counts(refused), strings.Join(top, " "))
	}
	t.End()
	return nil
}

func (c *client) act(cmd *cobra.Command, kind, name, action string) error {
	var answer json.RawMessage
	path := fmt.Sprintf("/edge/%ss/%s/%s", kind, url.PathEscape(name), action)
	if err := c.call(cmd, http.MethodPost, path, nil, &answer); err != nil {
		return quiet(err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", kind, name, action)
	return nil
}

// counts prints what is not zero, by name.
func counts(m map[string]uint64) string {
	var parts []string
	for _, name := range sortedKeys(m) {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, m[name]))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// firewallCommand is "edge firewall". Caddy's own main knows no exit code 2.
func firewallCommand(asJSON *bool) *cobra.Command {
	return command.New(command.Options{
		Path: []string{"edge", "firewall"}, JSON: asJSON,
		Found: func() error { os.Exit(2); return nil },
	})
}
