package settings

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Admin is the command line's way to the admin API.
type Admin struct {
	// Address is where it is. Default: the one in Config, or localhost:2019.
	Address string
	Config  string // the file
	Adapter string // how that is read
	// Running asks whether that runs which answers: "is it running?".
	Running string
}

// AddFlags adds the flags that say where it is; persistent ones are for all commands
// below cmd.
func (a *Admin) AddFlags(cmd *cobra.Command, persistent bool) {
	flags := cmd.Flags()
	if persistent {
		flags = cmd.PersistentFlags()
	}
	flags.StringVar(&a.Address, "address", "", "address of the admin API (default: localhost:2019, or the one in --config)")
	flags.StringVarP(&a.Config, "config", "c", "", "config file to find the admin address in")
	flags.StringVar(&a.Adapter, "adapter", "", "how to read the config file (default: by its name)")
}

// Open sends a request, and returns the answer, whatever its status is. Call done when
// it is read.
func (a *Admin) Open(ctx context.Context, method, path string, body []byte) (resp *http.Response, done func(), err error) {
	address, err := caddycmd.DetermineAdminAPIAddress(a.Address, nil, a.Config, a.Adapter)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the admin API: %w", err)
	}
	na, err := caddy.ParseNetworkAddress(address)
	if err != nil || na.PortRangeSize() > 1 || na.IsFdNetwork() {
		return nil, nil, fmt.Errorf("the admin API cannot be reached at %q: set --address", address)
	}
	host, target := na.JoinHostPort(0), na.JoinHostPort(0)
	if na.IsUnixNetwork() {
		host = "127.0.0.1" // Caddy wants some host
		// Behind the bar are the socket's permissions.
		target, _, _ = strings.Cut(na.Host, "|")
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("making the request: %w", err)
	}
	if !na.IsUnixNetwork() {
		req.Header.Set("Origin", "http://"+host)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, na.Network, target)
	}}
	resp, err = transport.RoundTrip(req)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, nil, fmt.Errorf("asking the admin API at %s: %w: %s", address, err, a.Running)
	}
	return resp, func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}
