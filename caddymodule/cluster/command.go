package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/cluster"
	"github.com/edgeward/edgeward/internal/table"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "cluster",
		Usage: "<command>",
		Short: "Makes, joins and looks after the cluster that says who may act",
		Long: `
Talks to the admin API of the process with edge_cluster on this machine, or at
--address.

The exit code is 0 if all went well, and 1 if not. For "cluster status" it is 1 as well
while there is no majority, or a member is not well.`,
		CobraFunc: func(root *cobra.Command) {
			c := &client{}
			root.PersistentFlags().StringVar(&c.address, "address", "", "address of the admin API (default: localhost:2019, or the one in --config)")
			root.PersistentFlags().StringVarP(&c.config, "config", "c", "", "config file to find the admin address in")
			root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
			root.AddCommand(c.commands()...)
		},
	})
}

// client is the command line's way to the admin API.
type client struct {
	address string
	config  string
	json    bool
}

func (c *client) commands() []*cobra.Command {
	command := func(use, short, long string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Long: short + "." + long, Args: args, SilenceUsage: true, RunE: run}
	}
	return []*cobra.Command{
		command("status", "Shows the member here, the leader and the others", "", cobra.NoArgs, c.status),
		command("init", "Makes a cluster of this machine alone", " Run it on one machine; the others join.", cobra.NoArgs, c.initialize),
		command("code", "Makes a code with which one machine joins", " It is good once, for ten minutes.", cobra.NoArgs, c.code),
		command("join <host:port> <code>", "Joins the cluster that the code is of", `

The code is from "cluster code" or "cluster replace" on a member. It also says which
cluster it is, so that nobody else can take this machine in.`, cobra.ExactArgs(2), c.join),
		command("replace <member>", "Makes a code with which a machine takes a lost member's place", `

The lost member is removed when the code is used. Run "cluster join" on the machine that
takes its place, with its name or another one. A member counts as lost a minute after it
was last heard of.`, cobra.ExactArgs(1), c.replace),
		command("remove <member>", "Takes a member out, by its name or id", "", cobra.ExactArgs(1), c.remove),
		command("snapshot", "Copies the data into the member's directory", " etcdutl reads it. It needs no majority.", cobra.NoArgs, c.snapshot),
	}
}

// call asks the admin API and decodes the answer into v.
func (c *client) call(method, path string, body, v any) (text []byte, err error) {
	address, err := caddycmd.DetermineAdminAPIAddress(c.address, nil, c.config, "")
	if err != nil {
		return nil, fmt.Errorf("finding the admin API: %w", err)
	}
	head, content := http.Header{}, []byte{}
	if body != nil {
		head.Set("Content-Type", "application/json")
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, path, head, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return text, nil
}

func (c *client) print(cmd *cobra.Command, text []byte, words string, args ...any) error {
	if c.json {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), words+"\n", args...)
	return err
}

func (c *client) initialize(cmd *cobra.Command, _ []string) error {
	text, err := c.call(http.MethodPost, "/cluster/init", nil, new(done))
	if err != nil {
		return err
	}
	return c.print(cmd, text, "this machine is the cluster's only member; add two others with: cluster code")
}

func (c *client) code(cmd *cobra.Command, _ []string) error {
	return c.invite(cmd, codeRequest{})
}

func (c *client) replace(cmd *cobra.Command, args []string) error {
	return c.invite(cmd, codeRequest{args[0]})
}

func (c *client) invite(cmd *cobra.Command, req codeRequest) error {
	var inv cluster.Invitation
	text, err := c.call(http.MethodPost, "/cluster/code", req, &inv)
	if err != nil {
		return err
	}
	return c.print(cmd, text, "on the machine that joins, within %s:\n  cluster join %s %s",
		time.Until(inv.Expires).Round(time.Minute), table.OneLine(inv.Address), table.OneLine(inv.Code))
}

func (c *client) join(cmd *cobra.Command, args []string) error {
	text, err := c.call(http.MethodPost, "/cluster/join", joinRequest{args[0], args[1]}, new(done))
	if err != nil {
		return err
	}
	return c.print(cmd, text, "this machine is a member; it votes when it has caught up: see cluster status")
}

func (c *client) remove(cmd *cobra.Command, args []string) error {
	text, err := c.call(http.MethodPost, "/cluster/remove", removeRequest{args[0]}, new(done))
	if err != nil {
		return err
	}
	return c.print(cmd, text, "%s is removed", args[0])
}

func (c *client) snapshot(cmd *cobra.Command, _ []string) error {
	var a snapshotAnswer
	text, err := c.call(http.MethodPost, "/cluster/snapshot", nil, &a)
	if err != nil {
		return err
	}
	return c.print(cmd, text, "%s", table.OneLine(a.File))
}

func (c *client) status(cmd *cobra.Command, _ []string) error {
	var s statusReport
	text, err := c.call(http.MethodGet, "/cluster/status", nil, &s)
	if err != nil {
		return err
	}
	if c.json {
		err = c.print(cmd, text, "")
	} else {
		printStatus(cmd.OutOrStdout(), &s)
	}
	if err == nil && !s.well() {
		cmd.SilenceErrors = true
		return fmt.Errorf("state %s, majority %v", s.State, s.Quorum)
	}
	return err
}

// well reports whether there is nothing to look after.
func (s *statusReport) well() bool {
	for _, m := range s.Members {
		if m.Health != cluster.HealthGood {
			return false
		}
	}
	return s.Quorum
}

func printStatus(out io.Writer, s *statusReport) {
	majority := "no"
	if s.Quorum {
		majority = "yes"
	}
	if len(s.Endpoints) > 0 {
		t := table.New(out, "ENDPOINTS", "MAJORITY", "ERROR")
		t.Row(s.Endpoints, majority, s.Error)
		t.End()
		return
	}
	t := table.New(out, "HERE", "STATE", "MAJORITY", "LEADER", "DATA", "LAST COPY", "ERROR")
	t.Row(s.Name, s.State, majority, s.Leader, fmt.Sprintf("%d KiB", s.Size>>10), table.Ago(s.Copy), s.Error)
	t.End()
	if len(s.Members) == 0 {
		return
	}
	fmt.Fprintln(out)
	t = table.New(out, "MEMBER", "ADDRESS", "HEALTH", "VOTES", "BEHIND", "VERSION", "ID")
	for _, m := range s.Members {
		t.Row(m.Name, m.Advertise, m.Health, !m.Learner, m.Behind, m.Version, m.ID)
	}
	t.End()
}
