package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/firewall"
)

// wall holds the flags of "firewall".
type wall struct {
	o       *options
	config  firewall.Config
	options firewall.Options
	admin   []string
	tcp     []uint
	udp     []uint
	ssh     uint16
	armed   string
	after   time.Duration
}

func (o *options) firewallCommand() *cobra.Command {
	w := &wall{o: o}
	root := &cobra.Command{
		Use:   "firewall",
		Short: "Closes this machine to all but visitors and administrators",
		Long: `
Keeps one nftables table of its own, "inet edgeward", and touches no other. It is the relay's
firewall, for those who run HAProxy.

"install" puts the rules in force for a few minutes: unless "confirm" is called over a new
connection in that time, all is again as it was, whatever becomes of the session.`,
	}
	root.PersistentFlags().StringVar(&w.config.Dir, "state-dir", firewall.DefaultDir, "folder for the state and the backup")
	root.AddCommand(w.check(), w.print(), w.install(), w.confirm(), w.remove(), w.status())
	return root
}

// command makes one that a signal interrupts in an orderly way.
func (w *wall) command(name, short string, run func(context.Context, *cobra.Command, *firewall.Firewall) error) *cobra.Command {
	return leaf(name, short, func(cmd *cobra.Command) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		fw, err := firewall.New(w.config)
		if err != nil {
			return err
		}
		return run(ctx, cmd, fw)
	})
}

func (w *wall) check() *cobra.Command {
	return w.command("check", "Finds what would fight with the rules; changes nothing", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		return w.o.report(cmd, fw.Check(ctx))
	})
}

// print shows the rules, and needs neither root nor a session.
func (w *wall) print() *cobra.Command {
	cmd := leaf("print", "Writes the rules, for nft -f; changes nothing", func(cmd *cobra.Command) error {
		rules, err := w.rules()
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), rules.Script())
		return err
	})
	w.ruleFlags(cmd)
	return cmd
}

func (w *wall) ruleFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&w.admin, "admin", nil, "address or network that may reach SSH; can be repeated")
	f.UintSliceVar(&w.tcp, "port", []uint{443}, "TCP port that is open to everybody; can be repeated")
	f.UintSliceVar(&w.udp, "udp-port", nil, "UDP port that is open to everybody; can be repeated")
	f.Uint16Var(&w.ssh, "ssh-port", 22, "port of SSH")
}

func (w *wall) install() *cobra.Command {
	cmd := w.command("install", "Puts the rules in force until they are confirmed, or taken back", w.runInstall)
	w.ruleFlags(cmd)
	cmd.Flags().DurationVar(&w.options.Window, "window", firewall.DefaultWindow, "how long to wait for \"confirm\", from 1s to 1h")
	cmd.Flags().BoolVar(&w.options.Console, "console", false, "you sit at a console and cannot be locked out")
	return cmd
}

func (w *wall) runInstall(ctx context.Context, cmd *cobra.Command, _ *firewall.Firewall) error {
	rules, err := w.rules()
	if err != nil {
		return err
	}
	if !w.options.Console {
		if w.options.Session, err = firewall.FindSession(os.ReadFile, os.Getpid()); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which the rollback calls: %w", err)
	}
	w.config.Self = []string{self, "firewall", "remove"}
	fw, err := firewall.New(w.config)
	if err != nil {
		return err
	}
	state, err := fw.Apply(ctx, rules, w.options)
	if refused, ok := errors.AsType[*firewall.Refused](err); ok {
		if err := w.o.report(cmd, refused.Findings); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return w.say(cmd, state, func(out io.Writer) {
		fmt.Fprintf(out, "The rules are in force. At %s they are taken back, by %s.\n", state.Deadline.Format(time.TimeOnly), state.Guard)
		fmt.Fprintf(out, "To keep them, log in anew, which shows that one can, and say there:\n\n\t%s firewall confirm\n", self)
	})
}

// rules reads the flags.
func (w *wall) rules() (r firewall.Rules, err error) {
	r.SSH = w.ssh
	for _, text := range w.admin {
		p, err := firewall.ParseAdmin(text)
		if err != nil {
			return r, err
		}
		r.Admin = append(r.Admin, p)
	}
	if r.TCP, err = ports("port", w.tcp); err != nil {
		return r, err
	}
	if r.UDP, err = ports("udp-port", w.udp); err != nil {
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

func (w *wall) confirm() *cobra.Command {
	console := false
	cmd := w.command("confirm", "Keeps the rules, now and after a reboot", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
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
		return w.say(cmd, state, func(out io.Writer) {
			fmt.Fprintf(out, "The rules stay, and are in %s for the next boot.\n", w.config.Persist)
			fmt.Fprintf(out, "Something has to load that file then, like edge-firewall.service in configs/systemd, or by hand:\n\n\tnft -f %s\n", w.config.Persist)
		})
	})
	cmd.Flags().StringVar(&w.config.Persist, "persist", firewall.DefaultPersist, "file with the rules for the next boot")
	cmd.Flags().BoolVar(&console, "console", false, "you sit at a console: do not ask for a new connection")
	return cmd
}

func (w *wall) remove() *cobra.Command {
	cmd := w.command("remove", "Takes rules back at once that are not confirmed", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		if w.armed != "" {
			return w.guard(cmd, fw)
		}
		state, err := fw.Rollback(ctx)
		if err != nil {
			return err
		}
		return w.say(cmd, state, func(out io.Writer) { fmt.Fprintln(out, "The rules are as they were.") })
	})
	// How install has itself called at the end of the window.
	cmd.Flags().StringVar(&w.armed, "armed", "", "")
	cmd.Flags().DurationVar(&w.after, "after", 0, "")
	_ = cmd.Flags().MarkHidden("armed")
	_ = cmd.Flags().MarkHidden("after")
	return cmd
}

// guard waits for the end of the window. The session that it came from may end; to be
// told to stop means to take the rules back at once.
func (w *wall) guard(cmd *cobra.Command, fw *firewall.Firewall) error {
	signal.Reset()
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), syscall.SIGTERM)
	defer stop()
	return fw.Guard(ctx, w.armed, w.after, func() { fmt.Fprintln(cmd.OutOrStdout(), "armed") })
}

func (w *wall) status() *cobra.Command {
	cmd := w.command("status", "Whether rules are in force, confirmed, and there after a reboot", func(ctx context.Context, cmd *cobra.Command, fw *firewall.Firewall) error {
		s, err := fw.Status(ctx)
		if err != nil {
			return err
		}
		return w.say(cmd, s, func(out io.Writer) { printWall(out, s) })
	})
	cmd.Flags().StringVar(&w.config.Persist, "persist", firewall.DefaultPersist, "file with the rules for the next boot")
	return cmd
}

func printWall(out io.Writer, s firewall.Status) {
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(out, "phase      %s\nin force   %s\npersisted  %s\n", s.Phase, yes[s.InForce], yes[s.Persisted])
	if s.Guard != "" {
		left := time.Duration(s.Left * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(out, "left       %s, then taken back by %s\n", left, s.Guard)
		if !s.Guarded {
			fmt.Fprintln(out, "attention  that is gone: say \"edge-sidecar firewall remove\" or \"edge-sidecar firewall confirm\" yourself")
		}
	}
	for _, extra := range [][2]string{{"reason", s.Reason}, {"backup", s.Backup}} {
		if extra[1] != "" {
			fmt.Fprintf(out, "%-10s %q\n", extra[0], extra[1])
		}
	}
}

// say writes v as JSON with --json, else what text writes.
func (w *wall) say(cmd *cobra.Command, v any, text func(io.Writer)) error {
	if !w.o.json {
		text(cmd.OutOrStdout())
		return nil
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
}
