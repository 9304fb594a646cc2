package fallback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "fallback",
		Usage: "<command>",
		Short: "Shows which home runs what, and tells them what to do",
		Long: `
Talks to the admin API of the process with edge_fallback on this machine, or at
--address.

The exit code is 0 if all went well, 1 if the command failed, and 2 if what was asked is
refused: a home that is not known, an argument that cannot be read. For "fallback status"
it is 3 if a home is not as it should be, or waits for a person.`,
		CobraFunc: func(root *cobra.Command) {
			c := newClient()
			c.addFlags(root)
			root.AddCommand(c.commands()...)
		},
	})
}

func (c *client) commands() []*cobra.Command {
	return []*cobra.Command{
		command("status [<home>]", "Shows each home, its items, and why it is as it is", "", cobra.MaximumNArgs(1), c.status),
		command("plan [<home>]", "Shows what would be done next, in order", " It does nothing.", cobra.MaximumNArgs(1), c.plan),
		c.holdCommand(),
		c.wordCommand("resume", "Ends a hold", ""),
		c.wordCommand("go", "Has it act now", `

It skips what is waited for, and starts items that are held for the age of their data. It
does not skip what is safe: whoever else holds the lease keeps it.`),
		c.wordCommand("handback", "Gives everything back to the home now", " It skips the strikes, and not the preflight."),
		c.historyCommand(),
		c.drillCommand(),
		command("undo [<id>]", "Lists what writebacks have replaced here, or puts it back", `

Only what is of an item that is stopped here is put back. What it replaces is kept in
turn.`, cobra.MaximumNArgs(1), c.undo),
		command("test-notice", "Sends a test message to every channel", "", cobra.NoArgs, c.testNotice),
		c.peerCommand(),
		rshCommand(),
	}
}

// command makes one with our exit codes, for its own mistakes as well.
func command(use, short, long string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: short + "." + long, SilenceUsage: true}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return finish(cmd, usage(err)) })
	cmd.Args = func(cmd *cobra.Command, list []string) error { return finish(cmd, usage(args(cmd, list))) }
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		cmd.SetContext(ctx)
		return finish(cmd, run(cmd, list))
	}
	return cmd
}

// errNotWell says that a home is not as it should be.
var errNotWell = errors.New("not every home is as it should be")

// usageError is a mistake in the command line.
type usageError struct{ error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func exitCode(err error) int {
	if errors.Is(err, errNotWell) {
		return 3
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	if p, ok := errors.AsType[*problem](err); ok && p.status >= 400 && p.status < 500 {
		return 2
	}
	return 1
}

// finish prints an error, and has Caddy end with its exit code.
func finish(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
	return exit(cmd, exitCode(err))
}

var errExit = errors.New("exit code 1")

// exit has Caddy end with a code, which is 1 for any error.
func exit(cmd *cobra.Command, code int) error {
	cmd.SilenceErrors = true
	if code == 1 {
		return errExit
	}
	// The only way to another one.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, nil)
}

func (c *client) holdCommand() *cobra.Command {
	var length, why string
	cmd := command("hold [<home>]", "Keeps a home as it is: no new covers, handbacks and tiers", " What runs goes on. Without a home it is for all.", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			add(q, "for", length)
			add(q, "why", why)
			return c.say(cmd, "hold", args, q)
		})
	cmd.Flags().StringVar(&length, "for", "", "how long, like 2h or 1d (default: until resume)")
	cmd.Flags().StringVar(&why, "why", "", "a word for the others")
	return cmd
}

// wordCommand makes a command that says one word for a home, or for all.
func (c *client) wordCommand(word, short, long string) *cobra.Command {
	var why string
	use, args := word+" <home>", cobra.ExactArgs(1)
	if word == "resume" {
		use, args = word+" [<home>]", cobra.MaximumNArgs(1)
	}
	cmd := command(use, short, long, args, func(cmd *cobra.Command, args []string) error {
		q := url.Values{}
		add(q, "why", why)
		return c.say(cmd, word, args, q)
	})
	cmd.Flags().StringVar(&why, "why", "", "a word for the others")
	return cmd
}

func add(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func homePath(home, what string) string {
	return "/fallback/homes/" + url.PathEscape(home) + "/" + what
}

// say says a word for one home, or for each.
func (c *client) say(cmd *cobra.Command, word string, args []string, q url.Values) error {
	homes, err := c.names(cmd, args)
	if err != nil {
		return err
	}
	for _, home := range homes {
		var h control.HomeStatus
		printed, err := c.call(cmd, http.MethodPost, homePath(home, word)+"?"+q.Encode(), &h)
		if err != nil {
			return err
		}
		if !printed {
			printHome(cmd.OutOrStdout(), h)
		}
	}
	return nil
}

// names are the home that is named, or all.
func (c *client) names(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 {
		return args, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	body, err := c.request(ctx, http.MethodGet, "/fallback/status", nil)
	if err != nil {
		return nil, err
	}
	var st control.Status
	if err := json.Unmarshal(body, &st); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	var list []string
	for _, h := range st.Homes {
		list = append(list, h.Home)
	}
	return list, nil
}

func (c *client) status(cmd *cobra.Command, args []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	path, st := "/fallback/status", control.Status{}
	if len(args) > 0 {
		path, st.Homes = "/fallback/homes/"+url.PathEscape(args[0]), make([]control.HomeStatus, 1)
	}
	body, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		err = json.Unmarshal(body, &st.Homes[0])
	} else {
		err = json.Unmarshal(body, &st)
	}
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case c.json:
		_, err = cmd.OutOrStdout().Write(body)
	default:
		printStatus(cmd.OutOrStdout(), st)
	}
	if err == nil && !well(st.Homes) {
		err = errNotWell
	}
	return err
}

// well reports whether each home serves itself, and nothing waits for a person.
func well(homes []control.HomeStatus) bool {
	for _, h := range homes {
		if h.Stage != fallback.Normal && h.Stage != fallback.Serving || h.Seat.Phase == fallback.PhaseCover {
			return false
		}
		for _, i := range h.Items {
			if i.Held || i.Stale != "" {
				return false
			}
		}
	}
	return true
}

func (c *client) plan(cmd *cobra.Command, args []string) error {
	homes, err := c.names(cmd, args)
	if err != nil {
		return err
	}
	for _, home := range homes {
		var a planAnswer
		printed, err := c.call(cmd, http.MethodGet, homePath(home, "plan"), &a)
		if err != nil {
			return err
		}
		if !printed {
			printPlan(cmd.OutOrStdout(), a)
		}
	}
	return nil
}

func (c *client) historyCommand() *cobra.Command {
	var limit string
	var follow bool
	cmd := command("history [<home>]", "Shows what happened, newest first", "", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			if len(args) > 0 {
				add(q, "home", args[0])
			}
			if follow {
				return c.watch(cmd, q)
			}
			add(q, "limit", limit)
			var a historyAnswer
			printed, err := c.call(cmd, http.MethodGet, "/fallback/history?"+q.Encode(), &a)
			if err == nil && !printed {
				printRecords(cmd.OutOrStdout(), a.Records)
			}
			return err
		})
	cmd.Flags().StringVar(&limit, "limit", "", "how many, up to 1000 (default: 100)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print what happens from now on")
	return cmd
}

// watch prints records as they come, one a line.
func (c *client) watch(cmd *cobra.Command, q url.Values) error {
	return c.follow(cmd.Context(), "/fallback/watch?"+q.Encode(), func(data []byte) error {
		if c.json {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", data)
			return err
		}
		var r fallback.Record
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("reading a record: %w", err)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), recordLine(r))
		return err
	})
}

func (c *client) undo(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		var a undoAnswer
		printed, err := c.call(cmd, http.MethodGet, "/fallback/undo", &a)
		if err == nil && !printed {
			printUndos(cmd.OutOrStdout(), a.Undos)
		}
		return err
	}
	body, err := c.request(cmd.Context(), http.MethodPost, "/fallback/undo/"+url.PathEscape(args[0]), nil)
	if err != nil {
		return err
	}
	if c.json {
		_, err := cmd.OutOrStdout().Write(body)
		return err
	}
	var u writeback.Undo
	if err := json.Unmarshal(body, &u); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s of %s is as it was before; what it replaced is undo %s\n", u.Path, u.Item, u.ID)
	return err
}

func (c *client) testNotice(cmd *cobra.Command, _ []string) error {
	var a testAnswer
	printed, err := c.call(cmd, http.MethodPost, "/fallback/notify/test", &a)
	if err == nil && !printed {
		fmt.Fprintln(cmd.OutOrStdout(), "a test message is on its way to", a.Channels)
	}
	return err
}

// originalCommand is where sshd says what a key with a forced command was to run; see
// sshd(8).
const originalCommand = "SSH_ORIGINAL_COMMAND"

func (c *client) peerCommand() *cobra.Command {
	var from string
	cmd := command("peer [<action>]", "Answers another home that asks by ssh", `

It is for a forced command, which says who that home is:

	restrict,command="edge-watchdog fallback peer --from attic" ssh-ed25519 AAAA...

The action is the one that ssh was asked for. The request is on the input, the answer on
the output.`, cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error { return c.answerPeer(cmd, from, args) })
	cmd.Flags().StringVar(&from, "from", "", "the home that asks")
	return cmd
}

func (c *client) answerPeer(cmd *cobra.Command, from string, args []string) error {
	if from == "" {
		return usage(errors.New("--from is missing: want the home that asks"))
	}
	var action peer.Action
	if original := os.Getenv(originalCommand); original != "" {
		forced, err := peer.Forced(original)
		if err != nil {
			return usage(err)
		}
		action = forced
	} else if len(args) == 1 {
		action = peer.Action(args[0])
	} else {
		return usage(errors.New("want an action"))
	}
	body, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), peer.MaxRequestBytes+1))
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), peerPatience)
	defer cancel()
	q := url.Values{"from": {from}}
	answer, err := c.request(ctx, http.MethodPost, "/fallback/peer/"+url.PathEscape(string(action))+"?"+q.Encode(), body)
	if err != nil {
		return err
	}
	_, err = io.Copy(cmd.OutOrStdout(), bytes.NewReader(answer))
	return err
}

// rshCommand is what rsync runs in the place of ssh. What follows is rsync's own.
func rshCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rsh", Short: "Is what rsync calls", Hidden: true, DisableFlagParsing: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := writeback.RSH(args, cmd.InOrStdin(), cmd.OutOrStdout()); code != 0 {
				return exit(cmd, code)
			}
			return nil
		},
	}
}
