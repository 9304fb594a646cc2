package fallback

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// client is the command line's way to the admin API.
type client struct {
	address string
	config  string
	adapter string
	json    bool
}

func (c *client) addFlags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&c.address, "address", "", "address of the admin API (default: localhost:2019, or the one in --config)")
	cmd.PersistentFlags().StringVarP(&c.config, "config", "c", "", "config file to find the admin address in")
	cmd.PersistentFlags().StringVar(&c.adapter, "adapter", "", "how to read the config file (default: by its name)")
	cmd.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
}

const (
	// patience bounds a request that only looks, or says something.
	patience = time.Minute
	// peerPatience is for what another home asks: a start waits until the item is well.
	peerPatience = 20 * time.Minute
	// maxAnswerBytes is as much as is read of an answer.
	maxAnswerBytes = 64 << 20
)

// call asks the admin API and decodes the answer into v. With --json it prints the
// answer instead, and printed is true.
func (c *client) call(cmd *cobra.Command, method, path string, v any) (printed bool, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	body, err := c.request(ctx, method, path, nil)
	if err != nil {
		return false, err
	}
	if c.json {
		_, err := cmd.OutOrStdout().Write(body)
		return true, err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	return false, nil
}

func (c *client) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	resp, done, err := c.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return text, nil
}

// open sends a request. An answer that is an error is one.
func (c *client) open(ctx context.Context, method, path string, body []byte) (resp *http.Response, done func(), err error) {
	address, err := caddycmd.DetermineAdminAPIAddress(c.address, nil, c.config, c.adapter)
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
		return nil, nil, fmt.Errorf("asking the admin API at %s: %w: is it running?", address, err)
	}
	done = func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}
	if resp.StatusCode != http.StatusOK {
		defer done()
		return nil, nil, answerError(resp)
	}
	return resp, done, nil
}

// answerError is the error in an answer.
func answerError(resp *http.Response) error {
	p := &problem{status: resp.StatusCode}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil || json.Unmarshal(text, p) != nil || p.Text == "" {
		p.Text = http.StatusText(resp.StatusCode)
	}
	return p
}

// follow calls f with the data of each event, until it ends.
func (c *client) follow(ctx context.Context, path string, f func(data []byte) error) error {
	resp, done, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer done()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := f([]byte(data)); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil // somebody has seen enough
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return fmt.Errorf("watching: the other side has ended it")
}
