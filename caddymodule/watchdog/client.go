package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/watchdog"
)

// client is the command line's way to the admin API.
type client struct {
	settings.Admin
	json bool
}

func newClient() *client { return &client{Admin: settings.Admin{Running: "is the watchdog running?"}} }

func (c *client) addFlags(cmd *cobra.Command) {
	c.AddFlags(cmd, false)
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
}

// patience bounds a request: a switch looks, writes, and reads back.
const patience = 2 * time.Minute

// maxAnswerBytes is as much as is read of an answer.
const maxAnswerBytes = 64 << 20

// call asks the admin API and decodes the answer into v. With --json it prints the
// answer instead, and printed is true.
func (c *client) call(cmd *cobra.Command, method, path string, v any) (printed bool, err error) {
	body, err := c.request(method, path)
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

func (c *client) request(method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.requestWithin(ctx, method, path)
}

func (c *client) requestWithin(ctx context.Context, method, path string) ([]byte, error) {
	resp, done, err := c.Open(ctx, method, path, nil)
	if err != nil {
		return nil, err
	}
	defer done()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, answerError(resp.StatusCode, body)
	}
	return body, nil
}

// answerError is the error in an answer.
func answerError(status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == "" {
		answer.Error = http.StatusText(status)
	}
	if status == http.StatusBadGateway {
		return fmt.Errorf("%w: %s", errProvider, answer.Error)
	}
	return errors.New(answer.Error)
}

func (c *client) status(cmd *cobra.Command, _ []string) error {
	var st watchdog.Status
	printed, err := c.call(cmd, http.MethodGet, "/watchdog/status", &st)
	if err == nil && !printed {
		printStatus(cmd.OutOrStdout(), st)
	}
	return err
}

// explain asks for one site, or for each.
func (c *client) explain(cmd *cobra.Command, args []string) error {
	names := args
	if len(names) == 0 {
		body, err := c.request(http.MethodGet, "/watchdog/status")
		if err != nil {
			return err
		}
		var st watchdog.Status
		if err := json.Unmarshal(body, &st); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		for _, s := range st.Sites {
			names = append(names, s.Site)
		}
	}
	for _, name := range names {
		var e explanation
		printed, err := c.call(cmd, http.MethodGet, sitePath(name, "explain"), &e)
		if err != nil {
			return err
		}
		if !printed {
			printExplanation(cmd.OutOrStdout(), e)
		}
	}
	return nil
}

func sitePath(site, what string) string {
	return "/watchdog/sites/" + url.PathEscape(site) + "/" + what
}

func (c *client) plan(cmd *cobra.Command, args []string) error {
	var plans []watchdog.PlanStatus
	printed, err := c.call(cmd, http.MethodGet, sitePath(args[0], "plan"), &plans)
	if err == nil && !printed {
		printPlans(cmd.OutOrStdout(), plans)
	}
	return err
}

func (c *client) probe(cmd *cobra.Command, args []string) error {
	var s watchdog.SiteStatus
	return c.act(cmd, sitePath(args[0], "probe"), &s, func() { printProbes(cmd.OutOrStdout(), []watchdog.SiteStatus{s}) })
}

// move is switch and pin: what to do is the command's name.
func (c *client) move(cmd *cobra.Command, args []string) error {
	var s watchdog.SiteStatus
	path := sitePath(args[0], cmd.Name()) + "?path=" + url.QueryEscape(args[1])
	return c.act(cmd, path, &s, func() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is on %s: %s\n", s.Site, s.On, s.Why)
	})
}

func (c *client) unpin(cmd *cobra.Command, args []string) error {
	var s watchdog.SiteStatus
	return c.act(cmd, sitePath(args[0], "unpin"), &s, func() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is on %s, and the rules decide again\n", s.Site, s.On)
	})
}

func (c *client) adopt(cmd *cobra.Command, args []string) error {
	var a watchdog.Adopted
	return c.act(cmd, sitePath(args[0], "adopt"), &a, func() {
		fmt.Fprintf(cmd.OutOrStdout(), "%d records are marked as ours\n", a.Marked)
		for _, text := range a.Refused {
			fmt.Fprintln(cmd.OutOrStdout(), "refused: "+text)
		}
	})
}

func (c *client) resume(cmd *cobra.Command, args []string) error {
	q := url.Values{}
	add(q, "site", first(args))
	var a pauseAnswer
	return c.act(cmd, "/watchdog/resume?"+q.Encode(), &a, func() { fmt.Fprintln(cmd.OutOrStdout(), a.sentence()) })
}

func (c *client) testNotice(cmd *cobra.Command) error {
	var a testAnswer
	return c.act(cmd, "/watchdog/notify/test", &a, func() {
		fmt.Fprintln(cmd.OutOrStdout(), "a test message is on its way to "+strings.Join(a.Channels, ", "))
	})
}
