//go:build linux

package firewall_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/firewall"
)

// TestMain lets this program be the processes that the tests start and kill.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "rollback":
			os.Exit(exit(guardMain(os.Args[2:])))
		case "apply":
			os.Exit(exit(applyMain(os.Args[2:])))
		}
	}
	os.Exit(m.Run())
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// guardMain is what the command does for the hidden flags of "rollback".
func guardMain(args []string) error {
	flags := flag.NewFlagSet("rollback", flag.ContinueOnError)
	id := flags.String("armed", "", "")
	dir := flags.String("state-dir", "", "")
	after := flags.Duration("after", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fw, err := firewall.New(firewall.Config{Dir: *dir, System: new(system())})
	if err != nil {
		return err
	}
	return fw.Guard(ctx, *id, *after, func() { fmt.Println("armed") })
}

// system is the real one, on a machine without systemd and other firewalls.
func system() firewall.System {
	sys := firewall.Host()
	sys.Systemd = func() bool { return false }
	find := sys.Find
	sys.Find = func(name string) (string, bool) {
		switch name {
		case "nft", "iptables-save", "ip6tables-save":
			return find(name)
		}
		return "", false
	}
	sys.ReadFile = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	return sys
}

// config is that of a test, with this program as the command.
func config(dir string) firewall.Config {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return firewall.Config{
		Dir: dir, Persist: filepath.Join(dir, "persist", "edgeward.nft"),
		Self: []string{self, "rollback"}, Learn: 100 * time.Millisecond, System: new(system()),
	}
}

func rules() firewall.Rules {
	return firewall.Rules{Admin: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("2001:db8::2/128")}}
}

// applyMain applies rules, and has an accident: "apply <dir> <window> <accident>
// <step>". A step is a call of the system, and the moment before or after it.
func applyMain(args []string) error {
	window, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	accident := args[2]
	step, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cfg := config(args[0])
	moment := 0
	happen := func() error {
		moment++
		if moment != step {
			return nil
		}
		fmt.Println("accident")
		switch accident {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "stop":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case "term", "int", "hup":
			_ = syscall.Kill(os.Getpid(), map[string]syscall.Signal{"term": syscall.SIGTERM, "int": syscall.SIGINT, "hup": syscall.SIGHUP}[accident])
			<-ctx.Done()
		case "fail":
			return errors.New("injected")
		}
		return nil
	}
	run, detach := cfg.System.Run, cfg.System.Detach
	cfg.System.Run = func(ctx context.Context, input, path string, args ...string) (string, string, error) {
		if err := happen(); err != nil {
			return "", "", err
		}
		out, said, err := run(ctx, input, path, args...)
		return out, said, errors.Join(err, happen())
	}
	cfg.System.Detach = func(ctx context.Context, log *os.File, path string, args ...string) error {
		if err := happen(); err != nil {
			return err
		}
		err := detach(ctx, log, path, args...)
		return errors.Join(err, happen())
	}
	fw, err := firewall.New(cfg)
	if err != nil {
		return err
	}
	_, err = fw.Apply(ctx, rules(), firewall.Options{Window: window, Console: true})
	return err
}

// namespace gives this test a network of its own; it skips without the right to. The
// thread is given up with the test's goroutine.
func namespace(t testing.TB) {
	t.Helper()
	for _, name := range []string{"nft", "iptables-save", "ip6tables-save", "ip"} {
		if _, ok := firewall.Host().Find(name); !ok {
			missing(t, name)
		}
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		missing(t, "the right to make a network namespace: "+err.Error())
	}
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks", what)
	}
	t.Skip("this machine lacks", what)
}

func newFirewall(t testing.TB, cfg firewall.Config) *firewall.Firewall {
	t.Helper()
	fw, err := firewall.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return fw
}

// do runs a program in the namespace of this test.
func do(t testing.TB, input string, name string, args ...string) string {
	t.Helper()
	path, ok := firewall.Host().Find(name)
	if !ok {
		missing(t, name)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, errs.String())
	}
	return string(out)
}

// everything is all rules there are, without the time they were printed at.
func everything(t testing.TB) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(do(t, "", "nft", "list", "ruleset"))
	for _, name := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(do(t, "", name)) {
			if !strings.HasPrefix(line, "#") {
				text.WriteString(line)
			}
		}
	}
	return text.String()
}

// furnish makes tables that iptables could have made, with one of ours among them if
// previous is set, and returns all rules.
func furnish(t testing.TB, previous string) string {
	t.Helper()
	do(t, "", "iptables", "-A", "INPUT", "-p", "tcp", "--dport", "9", "-j", "ACCEPT")
	do(t, previous, "nft", "-f", "-")
	do(t, "", "ip6tables", "-A", "INPUT", "-p", "tcp", "--dport", "9", "-j", "ACCEPT")
	do(t, "", "iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "none0", "-j", "MASQUERADE")
	return everything(t)
}

// eventually waits until ok says yes.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	over := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
