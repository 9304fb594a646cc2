// Command demofallback shows, in less than 90 seconds, on loopback and without root or
// Docker, how one home covers another one and hands everything back: it starts two
// homes, the relay as the third vote, and a fake Cloudflare, cuts the power of one
// home, and lets it come back. Services are processes that write data all the time, and
// visitors look the home up in DNS and ask them.
//
//	go run ./e2e/demofallback -bin bin
//
// It exits with 0 if the services moved as they should, no line of data was lost on the
// way back, and at no time two homes ran the same service or wrote the same record; else
// with 1. NO_COLOR and output that is no terminal give plain lines.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

func main() {
	stage.Main()
	c := config{out: os.Stdout, colour: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == ""}
	flag.StringVar(&c.bin, "bin", cmp.Or(os.Getenv("EDGE_BIN_DIR"), "bin"), "the folder with edge-relay and edge-watchdog")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := play(ctx, c)
	stop()
	os.Exit(code)
}

// config is what the demo is told.
type config struct {
	bin    string
	out    io.Writer
	colour bool
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
	dir, err := os.MkdirTemp("", "edgefb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, err := stage.New(stage.Config{Dir: dir, Bin: c.bin, Homes: []string{home, other}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	s := newShow(w, newView(c.out, c.colour))
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	v = s.judge()
	s.view.verdict(v)
	return v, nil
}
