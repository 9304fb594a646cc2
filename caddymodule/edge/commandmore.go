package edge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
)

func (c *client) moreCommands() []*cobra.Command {
	migrate := c.leaf("migrate <pool> [<route>...]", "Move pinned routes into a pool; without a route, show those that may", cobra.MinimumNArgs(1), c.migrate)
	migrate.Flags().Bool("all", false, "all that may, but for those whose target is the gateway itself")
	events := c.leaf("events", "What happened, and by whose hand", cobra.NoArgs, c.events)
	events.Flags().BoolP("follow", "f", false, "go on as it happens")
	events.Flags().Uint64("after", 0, "those after this ID")
	events.Flags().Int("limit", 50, "at most so many")
	for _, name := range []string{"kind", "gateway", "pool", "route"} {
		events.Flags().String(name, "", "only those of this "+name)
	}
	return []*cobra.Command{
		c.tokenCommands(),
		c.leaf("serving", "Who serves each route, and why", cobra.NoArgs, c.serving),
		c.leaf("agents", "What the agents at home report", cobra.NoArgs, c.agents),
		c.leaf("code <gateway>", "A code that enrols a gateway's agent, once", cobra.ExactArgs(1), c.code),
		migrate,
		c.leaf("relocate <gateway> <route>=<host:port>...", "Pin routes to a gateway, at new addresses behind it", cobra.MinimumNArgs(2), c.relocate),
		events,
		c.leaf("backup [<file>]", "All that was made through the admin API", cobra.MaximumNArgs(1), c.backup),
		c.leaf("restore <file>", "Put a backup in its place, whole; - is standard input", cobra.ExactArgs(1), c.restore),
	}
}

func (c *client) tokenCommands() *cobra.Command {
	root := &cobra.Command{Use: "token", Short: "Tokens for the admin API"}
	add := c.leaf("add <name>", "Make one; its secret is shown now and never again", cobra.ExactArgs(1), c.addToken)
	add.Flags().String("scope", api.ScopeRead, "read or write")
	add.Flags().Duration("ttl", 0, "how long it is good (default: for ever)")
	root.AddCommand(
		add,
		c.leaf("list", "All of them, without their secrets", cobra.NoArgs, c.listTokens),
		c.leaf("rm <name>", "Void one at once", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return c.remove(cmd, "token", args[0]) }),
	)
	return root
}

func (c *client) addToken(cmd *cobra.Command, args []string) error {
	scope, _ := cmd.Flags().GetString("scope")
	ttl, _ := cmd.Flags().GetDuration("ttl")
	ask := api.TokenRequest{Name: args[0], Scope: scope}
	if ttl != 0 {
		ask.Expires = time.Now().Add(ttl)
	}
	var made api.NewToken
	if err := c.call(cmd, http.MethodPost, "/edge/tokens", ask, &made); err != nil {
		return err
	}
	return c.say(cmd, "%s", made.Secret)
}

func (c *client) listTokens(cmd *cobra.Command, _ []string) error {
	var list []api.Token
	if err := c.call(cmd, http.MethodGet, "/edge/tokens", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "TOKEN", "SCOPE", "CREATED", "EXPIRES")
	for _, token := range list {
		expires := "never"
		if !token.Expires.IsZero() {
			expires = day(token.Expires)
		}
		if token.Expired {
			expires = "expired"
		}
		t.Row(token.Name, token.Scope, day(token.Created), expires)
	}
	t.End()
	return nil
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

func (c *client) code(cmd *cobra.Command, args []string) error {
	var made api.Code
	if err := c.call(cmd, http.MethodPost, "/edge/gateways/"+url.PathEscape(args[0])+"/pairing-code", nil, &made); err != nil {
		return err
	}
	return c.say(cmd, "%s  good once, until %s", made.Code, day(made.Expires))
}

func (c *client) rotateToken(cmd *cobra.Command, args []string) error {
	var made api.GatewayToken
	if err := c.call(cmd, http.MethodPost, "/edge/gateways/"+url.PathEscape(args[0])+"/token/rotate", nil, &made); err != nil {
		return err
	}
	return c.say(cmd, "%s", made.Token)
}

func (c *client) revokeToken(cmd *cobra.Command, args []string) error {
	if err := c.call(cmd, http.MethodDelete, "/edge/gateways/"+url.PathEscape(args[0])+"/token", nil, nil); err != nil {
		return err
	}
	return c.say(cmd, "gateway %s: its token is void", args[0])
}

func (c *client) serving(cmd *cobra.Command, _ []string) error {
	var list []fleet.RouteStatus
	if err := c.call(cmd, http.MethodGet, "/edge/serving", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "ROUTE", "FOR", "LEADS TO", "SERVED BY", "SINCE", "WHY")
	for _, r := range list {
		t.Row(r.Route, asked(r.Kind, r.Hosts, r.Port), leadsTo(r.Pin, r.Pool), cmp.Or(strings.Join(r.Serving, " "), "nobody"), table.Ago(r.Since), r.Reason)
	}
	t.End()
	return nil
}

func (c *client) agents(cmd *cobra.Command, _ []string) error {
	var list []fleet.AgentStatus
	if err := c.call(cmd, http.MethodGet, "/edge/agents", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "GATEWAY", "STATE", "LAST", "LOST", "VERSION", "LAN", "TABLE", "FAILED")
	for _, a := range list {
		state, lan := "behind", ""
		if a.Current {
			state = "current"
		}
		if a.LAN.IsValid() {
			lan = a.LAN.String()
		}
		t.Row(a.Gateway, a.State, table.Ago(a.Last), a.Lost, a.Version, lan, state, len(a.Failed))
	}
	t.End()
	return nil
}

func (c *client) migrate(cmd *cobra.Command, args []string) error {
	all, _ := cmd.Flags().GetBool("all")
	routes := args[1:]
	if len(routes) == 0 {
		candidates, err := c.candidates(cmd)
		if err != nil {
			return err
		}
		if !all {
			return printCandidates(cmd.OutOrStdout(), candidates)
		}
		for _, r := range candidates {
			if !r.Loopback {
				routes = append(routes, r.Route)
			}
		}
	}
	var moved api.Moved
	if err := c.call(cmd, http.MethodPost, "/edge/pools/"+url.PathEscape(args[0])+"/migrate", api.Migration{Routes: routes}, &moved); err != nil {
		return err
	}
	return c.say(cmd, "pool %s: %d routes moved", args[0], moved.Migrated)
}

// candidates are the routes that may move. With --json they are the answer, unless
// it is used for more.
func (c *client) candidates(cmd *cobra.Command) ([]catalog.Candidate, error) {
	ask := *c
	if all, _ := cmd.Flags().GetBool("all"); all {
		ask.json = false
	}
	var answer api.Candidates
	err := ask.call(cmd, http.MethodGet, "/edge/migration-candidates", nil, &answer)
	return answer.Routes, err
}

func printCandidates(out io.Writer, list []catalog.Candidate) error {
	t := table.New(out, "ROUTE", "GATEWAY", "TARGET", "NOTE")
	for _, r := range list {
		target, note := "", ""
		if r.Host != "" {
			target = fmt.Sprintf("%s:%d", r.Host, r.Port)
		}
		if r.Loopback {
			note = "the target is the gateway itself"
		}
		t.Row(r.Route, r.Gateway, target, note)
	}
	t.End()
	return nil
}

func (c *client) relocate(cmd *cobra.Command, args []string) error {
	ask := api.Relocation{Gateway: args[0]}
	for _, text := range args[1:] {
		route, target, _ := strings.Cut(text, "=")
		host, port, err := splitTarget(target)
		if err != nil {
			return fmt.Errorf("%s: want <route>=<host>:<port>", text)
		}
		ask.Items = append(ask.Items, catalog.Move{Route: route, Host: host, Port: port})
	}
	var moved api.Moved
	if err := c.call(cmd, http.MethodPost, "/edge/routes/relocate", ask, &moved); err != nil {
		return err
	}
	return c.say(cmd, "gateway %s: %d routes moved", args[0], moved.Migrated)
}

func (c *client) backup(cmd *cobra.Command, args []string) error {
	ask, text := *c, new(bytes.Buffer)
	ask.json = false
	var b json.RawMessage
	if err := ask.call(cmd, http.MethodGet, "/edge/backup", nil, &b); err != nil {
		return err
	}
	if err := json.Indent(text, b, "", "\t"); err != nil {
		return err
	}
	text.WriteByte('\n')
	if len(args) == 0 {
		_, err := cmd.OutOrStdout().Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(args[0], text.Bytes(), 0o600); err != nil {
		return err
	}
	return c.say(cmd, "%s: written", args[0])
}

func (c *client) restore(cmd *cobra.Command, args []string) error {
	data, err := readInput(cmd, args[0])
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%s is not JSON", args[0])
	}
	var now catalog.Backup
	if err := c.call(cmd, http.MethodPost, "/edge/restore", json.RawMessage(data), &now); err != nil {
		return err
	}
	return c.say(cmd, "restored: %d gateways, %d pools, %d routes", len(now.Gateways), len(now.Pools), len(now.Routes))
}

// events prints what happened. With --follow it goes on, from where it was, through
// restarts of the relay.
func (c *client) events(cmd *cobra.Command, _ []string) error {
	q := url.Values{}
	for _, name := range []string{"kind", "gateway", "pool", "route", "after", "limit"} {
		if text := cmd.Flags().Lookup(name).Value.String(); text != "" && text != "0" {
			q.Set(name, text)
		}
	}
	ask := *c
	ask.json = false
	var list []event.Event
	if err := ask.call(cmd, http.MethodGet, "/edge/events?"+q.Encode(), nil, &list); err != nil {
		return err
	}
	out := &eventPrinter{cmd.OutOrStdout(), c.json}
	if !q.Has("after") {
		q.Set("after", "0") // nothing is to slip through between this answer and the stream
	}
	for _, e := range list {
		out.print(e)
		q.Set("after", fmt.Sprint(e.ID))
	}
	if follow, _ := cmd.Flags().GetBool("follow"); !follow {
		return nil
	}
	q.Del("limit")
	q.Set("watch", "true")
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	return c.follow(ctx, q, out)
}

func (c *client) follow(ctx context.Context, q url.Values, out *eventPrinter) error {
	resp, err := c.send(ctx, http.MethodGet, "/edge/events?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e event.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("reading an event: %w", err)
		}
		out.print(e)
	}
	if ctx.Err() != nil {
		return nil
	}
	return cmp.Or(lines.Err(), fmt.Errorf("the relay has stopped"))
}

// maxEventBytes is for an event that names thousands of routes.
const maxEventBytes = 16 << 20

// eventPrinter prints a line for each event: a table would have to wait for all.
type eventPrinter struct {
	out  io.Writer
	json bool
}

func (p *eventPrinter) print(e event.Event) {
	if p.json {
		_ = json.NewEncoder(p.out).Encode(e)
		return
	}
	fmt.Fprintln(p.out, table.OneLine(describe(e)))
}

// describe is an event in one line.
func describe(e event.Event) string {
	words := []string{day(e.At), string(e.Kind)}
	for _, part := range []struct{ name, value string }{
		{"gateway", e.Gateway},
		{"pool", e.Pool},
		{"routes", strings.Join(e.Routes, ",")},
		{"from", e.From},
		{"to", e.To},
		{"by", e.Actor},
		{"because", e.Reason},
	} {
		if part.value != "" {
			words = append(words, part.name+" "+part.value)
		}
	}
	return strings.Join(words, "  ")
}
