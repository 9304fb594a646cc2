package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

// remoteCommand makes this program the other home's, as a forced command runs it.
const remoteCommand = "as-the-other-home"

func remote(original string) int {
	action, err := peer.Forced(original)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s := &service{id: "b", seen: control.Seen{Running: control.RunningIll, Detail: "starting"}, do: func(_ context.Context, c call) error {
		switch {
		case c.epoch == 7:
			return fmt.Errorf("%w: epoch 9 is known", control.ErrRefused)
		case c.item == "asked":
			return fmt.Errorf("%+v", c)
		}
		return nil
	}}
	if peer.Answer(context.Background(), s, "a", action, os.Stdin, os.Stdout) != nil {
		return 3
	}
	return 0
}

// standIn is an ssh that writes down its arguments and runs the forced command here.
func standIn(t *testing.T, text string) (program, log string) {
	t.Helper()
	dir := t.TempDir()
	program, log = dir+"/ssh", dir+"/log"
	self := must(os.Executable())
	text = strings.NewReplacer("LOG", log, "SELF", self+" "+remoteCommand).Replace(text)
	// Written by another process: one that another test starts just now would inherit the
	// open file, and the kernel runs no program that somebody writes.
	write := exec.Command("sh", "-c", `cat >"$0" && chmod +x "$0"`, program)
	write.Stdin = strings.NewReader("#!/bin/sh\n" + text)
	if err := write.Run(); err != nil {
		t.Fatal(err)
	}
	return program, log
}

// wholeCommand is what sshd gives to a forced command: all words after the host.
const wholeCommand = `
printf '%s\n' "$@" >LOG
while [ "$1" != -- ]; do shift; done
shift 2
exec SELF "$*"
`

func TestSSH(t *testing.T) {
	program, log := standIn(t, wholeCommand)
	s := &peer.SSH{Home: "b", Host: "edge@b.example.net", Program: program, Options: []string{"-i", "/etc/edgeward/key"}}
	status, err := s.Status(t.Context())
	if err != nil || status.ID != "b" || status.Version != "v1.2.3" {
		t.Errorf("%+v, %v", status, err)
	}
	want := "-T\n-o\nBatchMode=yes\n-o\nConnectTimeout=10\n-o\nClearAllForwardings=yes\n-i\n/etc/edgeward/key\n--\nedge@b.example.net\nedge-watchdog\nfallback\npeer\nstatus\n"
	if diff := cmp.Diff(want, string(must(os.ReadFile(log)))); diff != "" {
		t.Error(diff)
	}
	if seen, err := s.Prove(t.Context(), "b", "web"); err != nil || seen.Running != control.RunningIll {
		t.Errorf("%v, %v", seen, err)
	}
	if list, err := s.Preflight(t.Context(), "b"); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.StopItem(t.Context(), "b", "web", 7); !errors.Is(err, control.ErrRefused) || !strings.Contains(err.Error(), "epoch 9 is known") {
		t.Error(err)
	}
	if err := s.StartItem(t.Context(), "b", "asked", 8); err == nil || !strings.Contains(err.Error(), "{action:start from:a home:b item:asked epoch:8}") {
		t.Error(err)
	}
}

func TestSSHFailures(t *testing.T) {
	for _, tt := range []struct{ name, script, host, want string }{
		{"no way there", "echo 'No route to host' >&2; exit 255", "b", "exit code 255: No route to host"},
		{"a banner for an answer", "echo Welcome!", "b", "no JSON object"},
		{"another command is forced", "exec SELF 'rm -rf /'", "b", "exit code 2: the command"},
		{"a host that is an option", "exit 0", "-oProxyCommand=evil", "can't be a host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, _ := standIn(t, tt.script)
			s := &peer.SSH{Home: "b", Host: tt.host, Program: program}
			if err := s.StopItem(t.Context(), "b", "web", 1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	program, _ := standIn(t, "sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- (&peer.SSH{Home: "b", Host: "b", Program: program}).StopItem(ctx, "b", "web", 1) }()
	cancel()
	if err := <-failed; err == nil {
		t.Error("it did not notice")
	}
}

func TestForced(t *testing.T) {
	for original, want := range map[string]peer.Action{
		"edge-watchdog fallback peer status":          peer.ActionStatus,
		"/usr/bin/edge-watchdog fallback peer  stop":  peer.ActionStop,
		"fallback peer status; rm -rf /":              "",
		"edge-watchdog fallback peer exec":            "",
		"edge-watchdog fallback peer":                 "",
		"status":                                      "",
		"":                                            "",
		"edge-watchdog fallback peer status extra":    "",
		"edge-watchdog fallback peer status\nstop":    "",
		"edge-watchdog fallback peer $(touch /x)stop": "",
	} {
		if got, err := peer.Forced(original); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", original, got, err, want)
		}
	}
}

// TestAnswerIsBounded: what comes on the input is read up to a bound.
func TestAnswerIsBounded(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader(`{"home":"` + strings.Repeat("x", peer.MaxRequestBytes))
	if err := peer.Answer(t.Context(), &service{}, "a", peer.ActionStop, in, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"code":"too_large"`) {
		t.Error(out.String())
	}
}
