package edge

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
)

// noun is a kind of thing that is configured through the API.
type noun struct {
	name     string // gateway; its path is /edge/gateways
	settings []setting
	list     func(*cobra.Command) error
	// adjust changes what is sent by set.
	adjust func(object)
}

// configCommands are those that change what is configured, and that show it.
func (c *client) configCommands() []*cobra.Command {
	gateways := noun{"gateway", gatewaySettings, c.listGateways, nil}
	pools := noun{"pool", poolSettings, c.listPools, nil}
	routes := noun{"route", routeSettings, c.listRoutes, eitherPinOrPool}
	gateway := c.group(gateways, "Gateways: list, add, change, remove, and their tokens")
	gateway.AddCommand(
		c.leaf("rotate <name>", "A new token for a gateway's agent; the old one is void at once", cobra.ExactArgs(1), c.rotateToken),
		c.leaf("revoke <name>", "Void the token of a gateway's agent", cobra.ExactArgs(1), c.revokeToken),
	)
	return append([]*cobra.Command{
		gateway,
		c.group(pools, "Pools: list, add, change, remove"),
		c.group(routes, "Routes: list, add, change, remove"),
	}, c.moreCommands()...)
}

// leaf is a command that takes arguments.
func (c *client) leaf(use, short string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error { return quiet(run(cmd, args)) },
	}
}

func (c *client) group(n noun, short string) *cobra.Command {
	root := &cobra.Command{Use: n.name, Short: short}
	list := c.leaf("list", "All of them", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return n.list(cmd) })
	add := c.leaf("add <name>", "Add one", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return c.add(cmd, n, args[0]) })
	set := c.leaf("set <name>", "Change what flags say; an empty one is the default", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error { return c.set(cmd, n, args[0]) })
	rm := c.leaf("rm <name>", "Remove one that nothing needs", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error { return c.remove(cmd, n.name, args[0]) })
	addTo(add, n.settings)
	addTo(set, n.settings)
	root.AddCommand(list, add, set, rm)
	return root
}

func (n noun) path(name string) string { return "/edge/" + n.name + "s/" + url.PathEscape(name) }

func (c *client) add(cmd *cobra.Command, n noun, name string) error {
	body, err := collect(cmd, n.settings)
	if err != nil {
		return err
	}
	body["name"] = name
	withoutNulls(body)
	if err := c.call(cmd, http.MethodPost, "/edge/"+n.name+"s", body, nil); err != nil {
		return err
	}
	return c.say(cmd, "%s %s: added", n.name, name)
}

// withoutNulls takes out what means the default: in a new thing it is left out.
func withoutNulls(body object) {
	for name, value := range body {
		switch value := value.(type) {
		case nil:
			delete(body, name)
		case object:
			withoutNulls(value)
		}
	}
}

func (c *client) set(cmd *cobra.Command, n noun, name string) error {
	body, err := collect(cmd, n.settings)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return fmt.Errorf("nothing to change: give a flag, see --help")
	}
	if n.adjust != nil {
		n.adjust(body)
	}
	if err := c.call(cmd, http.MethodPatch, n.path(name), body, nil); err != nil {
		return err
	}
	return c.say(cmd, "%s %s: changed", n.name, name)
}

// eitherPinOrPool lets go of the pool when a pin is set, and the reverse.
func eitherPinOrPool(body object) {
	for one, other := range map[string]string{"gateway": "pool", "pool": "gateway"} {
		if _, both := body[other]; body[one] != nil && !both {
			body[other] = nil
			return
		}
	}
}

func (c *client) remove(cmd *cobra.Command, kind, name string) error {
	if err := c.call(cmd, http.MethodDelete, "/edge/"+kind+"s/"+url.PathEscape(name), nil, nil); err != nil {
		return err
	}
	return c.say(cmd, "%s %s: removed", kind, name)
}

func (c *client) say(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), table.OneLine(fmt.Sprintf(format, args...)))
	return err
}

func (c *client) listGateways(cmd *cobra.Command) error {
	var list []api.Gateway
	if err := c.call(cmd, http.MethodGet, "/edge/gateways", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "GATEWAY", "OWNER", "DIAL", "PHASE", "OPERATOR", "AGENT", "POOLS")
	for _, g := range list {
		agent := ""
		if g.Agent != nil {
			agent = g.Agent.State
		}
		t.Row(g.Name, ownerOf(g.Config), g.Dial, g.Phase, g.Operator, agent, strings.Join(g.Pools, " "))
	}
	t.End()
	return nil
}

// ownerOf tells where something is configured.
func ownerOf[T catalog.Gateway | catalog.Pool](config *T) string {
	switch config := any(config).(type) {
	case *catalog.Gateway:
		if config != nil {
			return config.Owner.String()
		}
	case *catalog.Pool:
		if config != nil {
			return config.Owner.String()
		}
	}
	return ""
}

func (c *client) listPools(cmd *cobra.Command) error {
	var list []api.Pool
	if err := c.call(cmd, http.MethodGet, "/edge/pools", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "POOL", "OWNER", "POLICY", "FAILBACK", "MEMBERS", "SERVED BY")
	for _, p := range list {
		var failback string
		var members []pool.Member
		if p.Config != nil {
			failback, members = p.Config.Failback, p.Config.Members
		}
		t.Row(p.Name, ownerOf(p.Config), p.Policy, failback, listed(members), strings.Join(p.Serving, " "))
	}
	t.End()
	return nil
}

// listed writes members as --members takes them.
func listed(members []pool.Member) string {
	var list []string
	for _, m := range members {
		word := m.Gateway
		if m.Weight > 1 {
			word += "*" + strconv.Itoa(m.Weight)
		}
		list = append(list, word)
	}
	return strings.Join(list, ",")
}

func (c *client) listRoutes(cmd *cobra.Command) error {
	var list []api.Route
	if err := c.call(cmd, http.MethodGet, "/edge/routes", nil, &list); err != nil {
		return err
	}
	t := table.New(cmd.OutOrStdout(), "ROUTE", "OWNER", "FOR", "LEADS TO", "TARGET", "SERVED BY")
	for _, r := range list {
		var by, target string
		if r.Status != nil {
			by = strings.Join(r.Status.Serving, " ")
		}
		if to := r.Config.Target; to != nil {
			target = fmt.Sprintf("%s:%d", to.Host, to.Port)
		}
		t.Row(r.Name, r.Config.Owner, asked(r.Config.Kind.String(), r.Config.Hosts, r.Config.Port),
			leadsTo(r.Config.Gateway, r.Config.Pool), target, cmp.Or(by, "nobody"))
	}
	t.End()
	return nil
}

// asked is what visitors of a route ask for.
func asked(kind string, hosts []string, port int) string {
	if port != 0 {
		return fmt.Sprintf("%s %d", kind, port)
	}
	list := slices.Clone(hosts)
	if len(list) > 3 {
		list = append(list[:3], fmt.Sprintf("and %d more", len(hosts)-3))
	}
	return kind + " " + strings.Join(list, " ")
}

func leadsTo(gateway, pool string) string {
	if gateway != "" {
		return "gateway " + gateway
	}
	return "pool " + pool
}
