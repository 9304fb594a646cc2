// Package command is the command line of package firewall, as a tree for cobra. Several
// programs have it: the relay's, and the sidecar's.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/internal/table"
	"github.com/edgeward/edgeward/relay/firewall"
)

// Options say where the commands are, and how they answer.
type Options struct {
	// Path are the words between the program and the commands' names: "firewall", with
	// what stands before it.
	Path []string
	// JSON is the flag that asks for JSON. It is read when a command runs.
	JSON *bool
	// Found ends "check" if something was found that must be dealt with first.
	Found func() error
}

// New returns "firewall" with its commands. It works on this machine and asks no API, so
// that it can be used before anything else runs.
func New(o Options) *cobra.Command {
	c := &client{o: o}
	root := &cobra.Command{
		Use:   "firewall",
		Short: "Closes this machine to all but visitors and administrators",
		Long: `
Keeps one nftables table of its own, "inet edgeward", and touches no other.

"apply" puts the rules in force for a few minutes: unless "confirm" is called over a new
connection in that time, all is again as it was, whatever becomes of the session.

The exit code is 0 if all is well, 1 if the command failed, and for "check" 2 if
something was found that must be dealt with first.`,
	}
	root.PersistentFlags().StringVar(&c.config.Dir, "state-dir", firewall.DefaultDir, "folder for the state and the backup")
	root.AddCommand(c.check(), c.print(), c.apply(), c.confirm(), c.rollback(), c.status())
	return root
}

// client holds the flags of the command line.
type client struct {
	o       Options
	config  firewall.Config
	options firewall.Options
	admin   []string
	tcp     []uint
	udp     []uint
	ssh     uint16
	dryRun  bool
	armed   string
	after   time.Duration
}

// command makes one that a signal interrupts in an orderly way.
func (c *client) command(name, short string, run func(context.Context, *cobra.Command, *firewall.Firewall) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			fw, err := firewall.New(c.config)
			if err != nil {
				return err
			}
			return run(ctx, cmd, fw)
		},
	}
}

func (c *client) check() *cobra.Command {
	return c.command("check", "Finds what would fight with the rules; changes nothing", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		findings := fw.Check(ctx)
		if findings == nil {
			findings = []firewall.Finding{} // [] rather than null in JSON
		}
		if err := c.say(cmd, findings, func(w io.Writer) { printFindings(w, findings) }); err != nil {
			return err
		}
		if len(firewall.Stops(findings)) > 0 {
			return c.o.Found()
		}
		return nil
	})
}

// print shows the rules, and needs neither root nor a session.
func (c *client) print() *cobra.Command {
	cmd := c.command("print", "Writes the rules, for nft -f; changes nothing", func(_ context.Context, cmd *cobra.Command, _ *firewall.Firewall) error {
		rules, err := c.rules()
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), rules.Script())
		return err
	})
	c.ruleFlags(cmd)
	return cmd
}

func (c *client) ruleFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.admin, "admin", nil, "address or network that may reach SSH; can be repeated")
	f.UintSliceVar(&c.tcp, "port", []uint{443}, "TCP port that is open to everybody; can be repeated")
	f.UintSliceVar(&c.udp, "udp-port", nil, "UDP port that is open to everybody; can be repeated")
	f.Uint16Var(&c.ssh, "ssh-port", 22, "port of SSH")
}

func (c *client) apply() *cobra.Command {
	cmd := c.command("apply", "Puts the rules in force until they are confirmed, or taken back", c.runApply)
	c.ruleFlags(cmd)
	f := cmd.Flags()
	f.DurationVar(&c.options.Window, "window", firewall.DefaultWindow, "how long to wait for \"confirm\", from 1s to 1h")
	f.BoolVar(&c.options.Console, "console", false, "you sit at a console and cannot be locked out")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the rules and what keeps them from being applied; change nothing")
	return cmd
}

func (c *client) runApply(ctx context.Context, cmd *cobra.Command, _ *firewall.Firewall) error {
	rules, err := c.rules()
	if err != nil {
		return err
	}
	if !c.options.Console {
		if c.options.Session, err = firewall.FindSession(os.ReadFile, os.Getpid()); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which the rollback calls: %w", err)
	}
	c.config.Self = slices.Concat([]string{self}, c.o.Path, []string{"rollback"})
	fw, err := firewall.New(c.config)
	if err != nil {
		return err
	}
	if c.dryRun {
		script, findings, err := fw.Plan(ctx, rules, c.options)
		fmt.Fprint(cmd.OutOrStdout(), script)
		printFindings(cmd.ErrOrStderr(), findings)
		return err
	}
	state, err := fw.Apply(ctx, rules, c.options)
	if refused, ok := errors.AsType[*firewall.Refused](err); ok {
		printFindings(cmd.ErrOrStderr(), refused.Findings)
	}
	if err != nil {
		return err
	}
	return c.say(cmd, state, func(w io.Writer) {
		fmt.Fprintf(w, "The rules are in force. At %s they are taken back, by %s.\n", state.Deadline.Format(time.TimeOnly), state.Guard)
		fmt.Fprintf(w, "To keep them, log in anew, which shows that one can, and say there:\n\n\t%s %s confirm\n", self, strings.Join(c.o.Path, " "))
	})
}

// rules reads the flags.
func (c *client) rules() (r firewall.Rules, err error) {
	r.SSH = c.ssh
	for _, text := range c.admin {
		p, err := firewall.ParseAdmin(text)
		if err != nil {
			return r, err
		}
		r.Admin = append(r.Admin, p)
	}
	if r.TCP, err = ports("port", c.tcp); err != nil {
		return r, err
	}
	if r.UDP, err = ports("udp-port", c.udp); err != nil {
		return r, err
	}
	return r, r.Validate()
}

func ports(flag string, numbers []uint) (list []uint16, err error) {
	for _, n := range numbers {
		if n < 1 || n > 65535 {
			return nil, fmt.Errorf("--%s %d: want 1 to 65535", flag, n)
		}
		list = append(list, uint16(n))
	}
	return list, nil
}

func (c *client) confirm() *cobra.Command {
	console := false
	cmd := c.command("confirm", "Keeps the rules, now and after a reboot", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		var session firewall.Session
		if !console {
			var err error
			if session, err = firewall.FindSession(os.ReadFile, os.Getpid()); err != nil {
				return err
			}
		}
		state, err := fw.Confirm(ctx, session)
		if err != nil {
			return err
		}
		return c.say(cmd, state, func(w io.Writer) {
			fmt.Fprintf(w, "The rules stay, and are in %s for the next boot.\n", c.config.Persist)
			fmt.Fprintf(w, "Something has to load that file then, like edge-firewall.service in configs/systemd, or by hand:\n\n\tnft -f %s\n", c.config.Persist)
		})
	})
	cmd.Flags().StringVar(&c.config.Persist, "persist", firewall.DefaultPersist, "file with the rules for the next boot")
	cmd.Flags().BoolVar(&console, "console", false, "you sit at a console: do not ask for a new connection")
	return cmd
}

func (c *client) rollback() *cobra.Command {
	cmd := c.command("rollback", "Takes rules back at once that are not confirmed", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		if c.armed != "" {
			return c.guard(ctx, cmd, fw)
		}
		state, err := fw.Rollback(ctx)
		if err != nil {
			return err
		}
		return c.say(cmd, state, func(w io.Writer) { fmt.Fprintln(w, "The rules are as they were.") })
	})
	// How apply has itself called at the end of the window.
	cmd.Flags().StringVar(&c.armed, "armed", "", "")
	cmd.Flags().DurationVar(&c.after, "after", 0, "")
	_ = cmd.Flags().MarkHidden("armed")
	_ = cmd.Flags().MarkHidden("after")
	return cmd
}

// guard waits for the end of the window. The session that it came from may end; to
// be told to stop means to roll back at once.
func (c *client) guard(_ context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
	signal.Reset()
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
	defer stop()
	return fw.Guard(ctx, c.armed, c.after, func() { fmt.Fprintln(cmd.OutOrStdout(), "armed") })
}

func (c *client) status() *cobra.Command {
	cmd := c.command("status", "Whether rules are in force, confirmed, and there after a reboot", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		s, err := fw.Status(ctx)
		if err != nil {
			return err
		}
		return c.say(cmd, s, func(w io.Writer) { c.printStatus(w, s) })
	})
	cmd.Flags().StringVar(&c.config.Persist, "persist", firewall.DefaultPersist, "file with the rules for the next boot")
	return cmd
}

// say writes v as JSON with --json, else what text writes.
func (c *client) say(cmd *cobra.Command, v any, text func(io.Writer)) error {
	if !*c.o.JSON {
		text(cmd.OutOrStdout())
		return nil
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
}

func printFindings(w io.Writer, findings []firewall.Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "%s  %s\n      why: %s\n      do:  %s\n", f.Severity, table.OneLine(f.What), f.Why, f.Do)
	}
	if len(findings) == 0 {
		fmt.Fprintln(w, "nothing found that would fight with the rules")
	}
}

func (c *client) printStatus(w io.Writer, s firewall.Status) {
	yes := map[bool]string{true: "yes", false: "no"}
	line := func(name, value string) { fmt.Fprintf(w, "%-10s %s\n", name, value) }
	line("phase", string(s.Phase))
	line("in force", yes[s.InForce])
	line("persisted", yes[s.Persisted])
	if s.Guard != "" {
		left := time.Duration(s.Left * float64(time.Second)).Round(time.Second)
		line("left", fmt.Sprintf("%s, then taken back by %s", left, s.Guard))
		if !s.Guarded {
			path := strings.Join(c.o.Path, " ")
			line("attention", fmt.Sprintf("that is gone: say \"%s rollback\" or \"%s confirm\" yourself", path, path))
		}
	}
	for _, extra := range [][2]string{{"reason", s.Reason}, {"backup", s.Backup}} {
		if extra[1] != "" {
			line(extra[0], table.OneLine(extra[1]))
		}
	}
}
