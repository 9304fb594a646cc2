package edge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/api"
)

// client is the command line's way to the admin API.
type client struct {
	address string
	config  string
	json    bool
}

const (
	// patience bounds a request: an edit is a write to a disk.
	patience = time.Minute
	// maxAnswerBytes is as much as is read of an answer.
	maxAnswerBytes = 256 << 20
)

// call asks the admin API and decodes the answer into v, if there is one. Body is
// sent as JSON unless it is nil. With --json it prints the answer instead and
// returns errPrinted.
func (c *client) call(cmd *cobra.Command, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if c.json {
		_, err := cmd.OutOrStdout().Write(answer)
		return errors.Join(err, errPrinted)
	}
	if len(answer) == 0 || v == nil {
		return nil
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

var errPrinted = errors.New("printed")

func quiet(err error) error {
	if errors.Is(err, errPrinted) {
		return nil
	}
	return err
}

// send asks the admin API. An answer that says no is an error.
func (c *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(c.address, nil, c.config, "")
	if err != nil {
		return nil, fmt.Errorf("finding the admin API: %w", err)
	}
	na, err := caddy.ParseNetworkAddress(address)
	if err != nil || na.PortRangeSize() > 1 || na.IsFdNetwork() {
		return nil, fmt.Errorf("the admin API cannot be reached at %q: set --address", address)
	}
	req, err := request(ctx, na, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	resp, err := transport(na).RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("asking the admin API at %s: %w: is the relay running?", address, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return nil, refusal(resp.StatusCode, text)
}

func request(ctx context.Context, na caddy.NetworkAddress, method, path string, body any) (*http.Request, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(data)
	}
	host := na.JoinHostPort(0)
	if na.IsUnixNetwork() {
		host = "127.0.0.1" // Caddy wants some host
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !na.IsUnixNetwork() {
		req.Header.Set("Origin", "http://"+host)
	}
	return req, nil
}

// transport dials the admin endpoint, once.
func transport(na caddy.NetworkAddress) *http.Transport {
	target := na.JoinHostPort(0)
	if na.IsUnixNetwork() {
		target, _, _ = strings.Cut(na.Host, "|") // behind it are the socket's permissions
	}
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, na.Network, target)
	}}
}

// refusal is the error in an answer: what, where, how many, and what to do.
func refusal(status int, body []byte) error {
	var p api.Problem
	if json.Unmarshal(body, &p) != nil || cmp.Or(p.Detail, p.Message) == "" {
		return fmt.Errorf("the admin API answered %d %s", status, http.StatusText(status))
	}
	text := cmp.Or(p.Detail, p.Message)
	if p.Field != "" && !strings.HasPrefix(text, p.Field) {
		text = p.Field + ": " + text
	}
	if p.Suggest != 0 {
		text += fmt.Sprintf(" (free: %d)", p.Suggest)
	}
	if p.Code != "" {
		text += fmt.Sprintf(" [%s]", p.Code)
	}
	return errors.New(text)
}
