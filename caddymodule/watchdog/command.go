package watchdog

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog"
)

func init() {
	for _, c := range commands() {
		caddycmd.RegisterCommand(c)
	}
}

// exits is what all commands say of their exit codes.
const exits = `
The exit code is 0 if all went well, 1 if the provider could not be asked or refused,
and 2 for anything else: a mistake in the config or the command line, something that
was refused as unsafe, a lock that is held, a problem that check or drill found.`

// commands lists the commands of this build, besides Caddy's own.
func commands() []caddycmd.Command {
	return []caddycmd.Command{
		remote("status", "", "Shows where each site is, and why", cobra.NoArgs, (*client).status),
		remote("explain", "[<site>]", "Says why a site is where it is, and what would move it", cobra.MaximumNArgs(1), (*client).explain),
		remote("plan", "<site>", "Shows what it would take to bring a site to each path", cobra.ExactArgs(1), (*client).plan),
		remote("probe", "<site>", "Runs all probes of a site now", cobra.ExactArgs(1), (*client).probe),
		remote("switch", "<site> <path>", "Moves a site to a path; the rules hold afterwards", cobra.ExactArgs(2), (*client).move),
		remote("pin", "<site> <path>", "Moves a site to a path and keeps it there until unpin", cobra.ExactArgs(2), (*client).move),
		remote("unpin", "<site>", "Lets the rules decide about a site again", cobra.ExactArgs(1), (*client).unpin),
		remote("adopt", "<site>", "Marks the records of a site as ours, so that they may be written", cobra.ExactArgs(1), (*client).adopt),
		drillCommand(),
		pauseCommand(),
		remote("resume", "[<site>]", "Allows writes again, for a site or for all", cobra.MaximumNArgs(1), (*client).resume),
		historyCommand(),
		notifyCommand(),
		checkCommand(),
		onceCommand(),
	}
}

// runner is a command that asks the admin API.
type runner func(*client, *cobra.Command, []string) error

// remote makes a command that asks the watchdog that runs.
func remote(name, usage, short string, args cobra.PositionalArgs, run runner) caddycmd.Command {
	return caddycmd.Command{
		Name: name, Usage: usage, Short: short,
		Long: "\n" + short + ". It asks the watchdog that runs on this machine, or at --address.\n" + exits,
		CobraFunc: func(cmd *cobra.Command) {
			c := newClient()
			c.addFlags(cmd)
			ours(cmd, args, func(cmd *cobra.Command, args []string) error { return run(c, cmd, args) })
		},
	}
}

// ours gives a command our exit codes, for its own mistakes as well.
func ours(cmd *cobra.Command, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) {
	cmd.SilenceUsage = true
	cmd.SetFlagErrorFunc(finish)
	cmd.Args = func(cmd *cobra.Command, list []string) error { return finish(cmd, args(cmd, list)) }
	cmd.RunE = func(cmd *cobra.Command, list []string) error { return finish(cmd, run(cmd, list)) }
}

// errProvider says that the provider is the trouble.
var errProvider = errors.New("the provider could not be asked, or refused")

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, watchdog.ErrCycle), errors.Is(err, errProvider):
		return 1
	}
	return 2
}

// finish prints an error, and has Caddy end with its exit code.
func finish(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	cmd.SilenceErrors = true
	fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
	if exitCode(err) == 1 {
		return err
	}
	// The only way to another exit code.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return 2, nil })(cmd, nil)
}

func pauseCommand() caddycmd.Command {
	var length, why string
	c := remote("pause", "[<site>]", "Stops all writes for a site, or for all", cobra.MaximumNArgs(1),
		func(c *client, cmd *cobra.Command, args []string) error {
			q := url.Values{}
			add(q, "site", first(args))
			add(q, "for", length)
			add(q, "why", why)
			var a pauseAnswer
			return c.act(cmd, "/watchdog/pause?"+q.Encode(), &a, func() { fmt.Fprintln(cmd.OutOrStdout(), a.sentence()) })
		})
	return withFlags(c, func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&length, "for", "", "how long, like 2h or 1d (default: until resume)")
		cmd.Flags().StringVar(&why, "why", "", "a word for the others")
	})
}

func historyCommand() caddycmd.Command {
	var kind, since, until, limit, before string
	c := remote("history", "[<site>]", "Shows what was decided, newest first", cobra.MaximumNArgs(1),
		func(c *client, cmd *cobra.Command, args []string) error {
			q := url.Values{}
			add(q, "site", first(args))
			add(q, "kind", kind)
			add(q, "since", since)
			add(q, "until", until)
			add(q, "limit", limit)
			add(q, "before", before)
			return c.history(cmd, "/watchdog/history?"+q.Encode())
		})
	return withFlags(c, func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&kind, "kind", "", "only this kind: decision, command, visible, drill or home")
		cmd.Flags().StringVar(&since, "since", "", "a time, or how long ago, like 2h")
		cmd.Flags().StringVar(&until, "until", "", "a time, or how long ago")
		cmd.Flags().StringVar(&limit, "limit", "", "how many, up to 1000 (default: 100)")
		cmd.Flags().StringVar(&before, "before", "", "go on where a page ended")
	})
}

func withFlags(c caddycmd.Command, more func(*cobra.Command)) caddycmd.Command {
	make := c.CobraFunc
	c.CobraFunc = func(cmd *cobra.Command) {
		make(cmd)
		more(cmd)
	}
	return c
}

func notifyCommand() caddycmd.Command {
	return caddycmd.Command{
		Name: "notify", Usage: "test", Short: "Tries whether people are told",
		Long: "\nSends a test message to every channel of the watchdog that runs.\n" + exits,
		CobraFunc: func(root *cobra.Command) {
			c := newClient()
			test := &cobra.Command{Use: "test", Short: "Sends a test message to every channel"}
			c.addFlags(test)
			ours(test, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return c.testNotice(cmd) })
			root.AddCommand(test)
		},
	}
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func add(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// act posts, and says what came of it.
func (c *client) act(cmd *cobra.Command, path string, answer any, say func()) error {
	printed, err := c.call(cmd, http.MethodPost, path, answer)
	if err == nil && !printed {
		say()
	}
	return err
}
