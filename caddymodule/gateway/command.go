package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "gateway",
		Usage: "<command>",
		Short: "Pairs this gateway with a relay, and shows how it does",
		Long: `
Talks to the admin API of the gateway that runs on this machine, or at --address.

The exit code is 0 if all went well, and 1 if not. For "gateway status" it is 1 as
well while the relay does not answer or a route does not work here.`,
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
	roots   string
}

func (c *client) commands() []*cobra.Command {
	command := func(use, short, long string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Long: short + "." + long, Args: args, SilenceUsage: true, RunE: run}
	}
	pair := command("pair <url> <code>", "Trades a one-time code of the relay for this gateway's token", `

The token is kept in Caddy's data directory and never shown. If no gateway runs that
could take it, it is kept in the data directory of whoever runs this command: run it as
the user that the gateway runs as.`, cobra.ExactArgs(2), c.pair)
	pair.Flags().StringVar(&c.roots, "roots", "", "PEM file with the authorities to trust, if no gateway runs yet")
	return []*cobra.Command{
		pair,
		command("status", "Shows the contact with the relay, and each route", "", cobra.NoArgs, c.status),
		command("rotate", "Trades this gateway's token for another one", " The old one is void at once.", cobra.NoArgs, c.rotate),
		command("unpair", "Forgets the token, the relay and the routes", " The relay still has the gateway: delete it there.", cobra.NoArgs, c.unpair),
	}
}

// call asks the admin API and decodes the answer into v.
func (c *client) call(method, path string, body []byte, v any) (text []byte, err error) {
	address, err := caddycmd.DetermineAdminAPIAddress(c.address, nil, c.config, "")
	if err != nil {
		return nil, fmt.Errorf("finding the admin API: %w", err)
	}
	head := http.Header{}
	if body != nil {
		head.Set("Content-Type", "application/json")
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, path, head, bytes.NewReader(body))
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

// pairTime bounds the trade.
const pairTime = 30 * time.Second

func (c *client) pair(cmd *cobra.Command, args []string) error {
	var s statusReport
	if _, err := c.call(http.MethodGet, "/gateway/status", nil, &s); err != nil {
		return c.pairHere(cmd, args[0], args[1])
	}
	body, err := json.Marshal(pairRequest{args[0], args[1]})
	if err != nil {
		return err
	}
	var a pairAnswer
	text, err := c.call(http.MethodPost, "/gateway/pair", body, &a)
	if err != nil {
		return err
	}
	return c.print(cmd, text, "this is gateway %s now", table.OneLine(a.Gateway))
}

// pairHere pairs without a gateway that runs.
func (c *client) pairHere(cmd *cobra.Command, url, code string) error {
	roots, err := readRoots(c.roots)
	if err != nil {
		return err
	}
	relay, err := link.NewClient(link.ClientConfig{URL: url, Roots: roots})
	if err != nil {
		return err
	}
	defer relay.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), pairTime)
	defer cancel()
	p := agent.Pairing{Dir: dataDir()}
	name, err := p.Pair(ctx, relay, code)
	if err != nil {
		return err
	}
	text, err := json.Marshal(pairAnswer{name})
	if err != nil {
		return err
	}
	return c.print(cmd, append(text, '\n'), "this is gateway %s now; no gateway runs here that could take the token: it is in %s", table.OneLine(name), p.TokenFile())
}

func (c *client) rotate(cmd *cobra.Command, _ []string) error {
	text, err := c.call(http.MethodPost, "/gateway/rotate", nil, new(done))
	if err != nil {
		return err
	}
	return c.print(cmd, text, "the token is another one now")
}

func (c *client) unpair(cmd *cobra.Command, _ []string) error {
	text, err := c.call(http.MethodPost, "/gateway/unpair", nil, new(done))
	if err != nil {
		return err
	}
	return c.print(cmd, text, "the token, the relay and the routes are forgotten here")
}

func (c *client) status(cmd *cobra.Command, _ []string) error {
	var s statusReport
	text, err := c.call(http.MethodGet, "/gateway/status", nil, &s)
	if err != nil {
		return err
	}
	if c.json {
		err = c.print(cmd, text, "")
	} else {
		printStatus(cmd.OutOrStdout(), &s)
	}
	if err == nil && (s.State != agent.Connected || len(s.Failed) > 0) {
		cmd.SilenceErrors = true
		return fmt.Errorf("state %s, %d routes that do not work", s.State, len(s.Failed))
	}
	return err
}

func printStatus(out io.Writer, s *statusReport) {
	t := table.New(out, "GATEWAY", "RELAY", "STATE", "SINCE", "LAN", "TABLE", "ERROR")
	state := "as wanted"
	switch {
	case s.Hash == "":
		state = "none yet"
	case s.FromDisk:
		state = "the last one"
	case s.Wanted != "" && s.Wanted != s.Hash:
		state = "behind"
	}
	lan := ""
	if s.LAN.IsValid() {
		lan = s.LAN.String()
	}
	t.Row(s.Gateway, s.Relay, s.State, table.Ago(s.Since), lan, state, s.Error)
	t.End()
	if len(s.Routes) == 0 {
		return
	}
	fmt.Fprintln(out)
	t = table.New(out, "ROUTE", "KIND", "VISITORS ASK FOR", "TARGET", "OPEN", "SERVED", "FAULT")
	for _, r := range s.Routes {
		asks := strings.Join(r.Hosts, " ")
		if r.Port > 0 {
			asks = fmt.Sprint("port ", r.Port)
		}
		t.Row(r.Route, r.Kind, asks, r.Target, r.Open, r.Served, r.Fault)
	}
	t.End()
}
