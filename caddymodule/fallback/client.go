package fallback

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/caddymodule/settings"
)

// client is the command line's way to the admin API.
type client struct {
	settings.Admin
	json bool
}

func newClient() *client { return &client{Admin: settings.Admin{Running: "is it running?"}} }

func (c *client) addFlags(cmd *cobra.Command) {
	c.AddFlags(cmd, true)
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
func (c *client) open(ctx context.Context, method, path string, body []byte) (*http.Response, func(), error) {
	resp, done, err := c.Open(ctx, method, path, body)
	if err != nil {
		return nil, nil, err
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

// follow calls f with the data of each event, for as long as somebody wants to see.
func (c *client) follow(ctx context.Context, path string, f func(data []byte) error) error {
	err := c.listen(ctx, http.MethodGet, path, f)
	if err == nil && ctx.Err() == nil {
		return fmt.Errorf("watching: the other side has ended it")
	}
	return err
}

// listen calls f with the data of each event, until there are no more. It is no error
// if ctx ends.
func (c *client) listen(ctx context.Context, method, path string, f func(data []byte) error) error {
	resp, done, err := c.open(ctx, method, path, nil)
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
	return nil
}
