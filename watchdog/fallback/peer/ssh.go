package peer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload/program"
)

// SSH asks another home by running "edge-watchdog fallback peer <action>" there, with the
// request on its input and the answer on its output. It implements [control.Peer]; it has
// no streams. At the other end a forced command keeps the key to that:
//
//	restrict,command="edge-watchdog fallback peer --from a" ssh-ed25519 AAAA...
type SSH struct {
	// Home is the one that is asked, and Host what ssh calls it: user@host.
	Home, Host string
	// Program is ssh. Default: ssh. Options come before the host.
	Program string
	Options []string
	// Remote is the command there. Default: edge-watchdog fallback peer.
	Remote []string
}

// ask does an action at the other home.
func (s *SSH) ask(ctx context.Context, action Action, r request, result any) error {
	if err := s.run(ctx, action, r, result); err != nil {
		return fmt.Errorf("asking home %s for %s by ssh: %w", s.Home, action, err)
	}
	return nil
}

func (s *SSH) run(ctx context.Context, action Action, r request, result any) error {
	if s.Host == "" || strings.HasPrefix(s.Host, "-") {
		return fmt.Errorf("%q can't be a host", s.Host)
	}
	within := rules[action].within + wayTime
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	out, err := program.Run(ctx, program.Command{Argv: s.argv(action), Stdin: bytes.NewReader(body)})
	if err != nil {
		return err
	}
	if out.Code != 0 { // 255 is ssh's own; see ssh(1)
		return fmt.Errorf("exit code %d: %.300s", out.Code, strings.TrimSpace(out.Stderr))
	}
	return decodeReply([]byte(out.Stdout), result)
}

// argv is ssh's: it asks nobody for a password, and forwards nothing.
func (s *SSH) argv(action Action) []string {
	argv := []string{cmp.Or(s.Program, "ssh"), "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ClearAllForwardings=yes"}
	argv = append(argv, s.Options...)
	argv = append(argv, "--", s.Host)
	remote := s.Remote
	if len(remote) == 0 {
		remote = []string{"edge-watchdog", "fallback", "peer"}
	}
	return append(append(argv, remote...), string(action))
}

// Status implements [control.Peer].
func (s *SSH) Status(ctx context.Context) (control.PeerStatus, error) { return status(ctx, s, s.Home) }

// Preflight implements [control.Peer].
func (s *SSH) Preflight(ctx context.Context, home string) ([]control.Finding, error) {
	return preflight(ctx, s, home)
}

// Prove implements [control.Peer].
func (s *SSH) Prove(ctx context.Context, home, item string) (control.Seen, error) {
	return prove(ctx, s, home, item)
}

// StartItem implements [control.Peer].
func (s *SSH) StartItem(ctx context.Context, home, item string, epoch uint64) error {
	return s.ask(ctx, ActionStart, request{home, item, epoch}, new(struct{}))
}

// StopItem implements [control.Peer].
func (s *SSH) StopItem(ctx context.Context, home, item string, epoch uint64) error {
	return s.ask(ctx, ActionStop, request{home, item, epoch}, new(struct{}))
}

// Both ways to ask are the same to their callers.
var (
	_ control.Peer = (*Client)(nil)
	_ control.Peer = (*SSH)(nil)
)
