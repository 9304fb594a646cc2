// Command edge-sidecar keeps an HAProxy doing what the relay does.
//
// It renders the relay's description of gateways, pools and routes as an HAProxy
// config, has it checked, puts it in place and reloads, and then keeps the running
// HAProxy in step with the health of the gateways. It needs no relay to run.
//
//	edge-sidecar render --config /etc/edgeward/sidecar.json
//	edge-sidecar apply --config /etc/edgeward/sidecar.json
//	edge-sidecar run --config /etc/edgeward/sidecar.json
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/follow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "edge-sidecar:", err)
	os.Exit(code(err))
}

// code is the exit code of an error.
func code(err error) int {
	_, owned := errors.AsType[*follow.Owned](err)
	switch {
	case errors.Is(err, errStops):
		return 2
	case errors.Is(err, daemon.ErrRunning):
		return 3
	case owned:
		return 4
	}
	return 1
}
