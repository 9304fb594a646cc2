// Command edge-sidecar keeps an HAProxy doing what the relay does.
//
// It renders the relay's description of gateways, pools and routes as an HAProxy
// config, has it checked, puts it in place and reloads. It needs no relay to run.
//
//	edge-sidecar render --config /etc/edgeward/sidecar.json
//	edge-sidecar apply --config /etc/edgeward/sidecar.json
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "edge-sidecar:", err)
	if errors.Is(err, errStops) {
		os.Exit(2)
	}
	os.Exit(1)
}
