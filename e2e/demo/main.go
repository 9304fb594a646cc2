// Command demo shows, in less than a minute and on loopback only, what Edgeward
// does when gateways die, and when the relay itself does: it starts the relay, two
// gateways, the watchdog and a fake Cloudflare, lets visitors come all the time, and
// plays acts. In one of them a third gateway joins, whose agent enrols with a pairing
// code. Every visitor asks DNS, makes a full TLS handshake, verifies the
// certificate and fetches a page.
//
//	go run ./e2e/demo -bin bin
//
// It exits with 0 if nobody failed while there was a way to a gateway, and each act
// ended as it should; else with 1. NO_COLOR and output that is no terminal give plain
// lines.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	c := config{out: os.Stdout, tty: isTerminal(os.Stdout)}
	bin := flag.String("bin", cmp.Or(os.Getenv("EDGE_BIN_DIR"), "bin"), "the folder with edge-relay and edge-watchdog")
	flag.Float64Var(&c.rate, "rate", 40, "visitors a second")
	flag.Float64Var(&c.pace, "pace", 1, "how long acts last, as a share of their usual time")
	flag.DurationVar(&c.failback, "failback", 3*time.Second, "how long a gateway that came back waits before it serves again")
	flag.Parse()
	c.relay, c.watchdog = filepath.Join(*bin, "edge-relay"), filepath.Join(*bin, "edge-watchdog")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := play(ctx, c)
	stop()
	os.Exit(code)
}

// config is what the demo is told.
type config struct {
	relay    string // the programs
	watchdog string
	rate     float64
	pace     float64
	failback time.Duration
	out      io.Writer
	tty      bool
}

// play runs the whole demo and returns the exit code.
func play(ctx context.Context, c config) int {
	v, err := perform(ctx, c)
	if err != nil {
		fmt.Fprintln(c.out, "FAIL:", err)
		return 1
	}
	if !v.passed() {
		return 1
	}
	return 0
}

// perform sets the stage, plays the acts and clears up.
func perform(ctx context.Context, c config) (v *verdict, err error) {
	s, err := setStage(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	s.view.intro("The relay's Caddyfile:", s.relay.caddyfile)
	s.view.intro("The watchdog's:", s.watchdog.caddyfile)
	crowd := startCrowd(ctx, s.visitor, c.rate)
	s.view.begin(crowd)
	s.follow()
	var played []playedAct
	for _, a := range acts {
		played = append(played, s.play(ctx, a, c.pace))
	}
	crowd.end()
	s.view.end()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	v = judge(played, crowd.all(), s.deaths, s.moves)
	s.view.verdict(v)
	return v, nil
}

// scaled is a duration at the demo's pace.
func scaled(d time.Duration, pace float64) time.Duration { return time.Duration(float64(d) * pace) }
