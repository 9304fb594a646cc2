package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
)

// Channel is a way to people.
type Channel interface {
	// Name is how settings, logs and statistics call it.
	Name() string
	// Send delivers one message, or returns why not: a *PermanentError if trying
	// again would not help, a *RetryError if the other side said when it would. It
	// returns soon after ctx ends. Its errors hold no secret.
	Send(ctx context.Context, m Message) error
	// Close waits for what Send left running.
	Close() error
}

// Config says where a channel leads.
type Config struct {
	// Name must be unique among the channels and should stay the same: messages
	// that wait are for a name. Default: the kind of the channel.
	Name string
	// URL chooses the kind of channel:
	//
	//	https://discord.com/api/webhooks/...  Discord; in its Slack-compatible form if it ends in /slack
	//	https://hooks.slack.com/services/...  Slack
	//	discord+https://...                   the same at another host, discord+http:// too
	//	slack+https://...                     the same at another host (Mattermost, Rocket.Chat)
	//	https://... and http://...            a webhook: the event as JSON, signed if there is a Secret
	//	smtp://user:password@host:587/?from=a@example.com&to=b@example.com
	//	telegram://, ntfy://, gotify:// ...   any other service of shoutrrr, see its documentation
	URL secret.String
	// Secret signs the requests of a webhook: X-Edge-Signature is t=<unix
	// time>,v1=<HMAC-SHA256 in hex of "<unix time>.<body>">. Refused elsewhere.
	Secret secret.String
	// Timeout of one attempt. Default: 15s.
	Timeout time.Duration
	// Transport carries the requests of the HTTP channels of this package. Default:
	// one without proxies.
	Transport http.RoundTripper
	Log       *slog.Logger
}

const defaultTimeout = 15 * time.Second

// New makes a channel. Nothing is sent and nothing looked up yet.
func New(c Config) (Channel, error) {
	if c.Timeout < 0 {
		return nil, errors.New("notify: timeout is negative")
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	u, err := url.Parse(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("notify: the URL of a channel cannot be read") // the cause repeats it
	}
	ch, err := c.choose(u)
	if err != nil {
		return nil, fmt.Errorf("notify: channel %s: %w", c.name(safeScheme(u)), err)
	}
	if _, signs := ch.(*webhook); !signs && !c.Secret.IsZero() {
		return nil, fmt.Errorf("notify: channel %s: only a webhook is signed, remove the secret", ch.Name())
	}
	return ch, nil
}

func (c Config) choose(u *url.URL) (Channel, error) {
	kind, scheme, forced := strings.Cut(u.Scheme, "+")
	if forced && (scheme == "https" || scheme == "http") && (kind == "discord" || kind == "slack" || kind == "webhook") {
		plain := *u
		plain.Scheme = scheme
		return c.overHTTP(kind, &plain)
	}
	switch {
	case u.Scheme == "":
		return nil, errors.New("the URL has no scheme, such as https:// or telegram://")
	case u.Scheme == "https" && isDiscord(u):
		return c.overHTTP("discord", u)
	case u.Scheme == "https" && strings.EqualFold(u.Hostname(), "hooks.slack.com"):
		return c.overHTTP("slack", u)
	case u.Scheme == "https" || u.Scheme == "http":
		return c.overHTTP("webhook", u)
	case u.Scheme == "discord" && u.RawQuery == "" && u.User != nil:
		return c.overHTTP("discord", &url.URL{Scheme: "https", Host: "discord.com", Path: "/api/webhooks/" + u.Host + "/" + u.User.Username()})
	case u.Scheme == "smtp":
		return newMail(c, u)
	}
	return newShout(c, u)
}

func (c Config) overHTTP(kind string, u *url.URL) (Channel, error) {
	if u.Hostname() == "" {
		return nil, errors.New("the URL has no host")
	}
	p := newPoster(c, kind, u)
	switch {
	case kind == "webhook":
		return &webhook{p, c.Secret}, nil
	case kind == "slack":
		return &slack{p, slackLimit}, nil
	case strings.HasSuffix(u.Path, "/github"):
		return nil, errors.New("the URL ends in /github, that is not how messages are sent: leave that out")
	}
	query := u.Query()
	query.Set("wait", "true") // else a message that is refused looks like one that is not
	u.RawQuery = query.Encode()
	if strings.HasSuffix(u.Path, "/slack") {
		return &slack{p, discordContent}, nil
	}
	return &discord{p}, nil
}

func (c Config) name(kind string) string {
	if c.Name != "" {
		return c.Name
	}
	return kind
}

func isDiscord(u *url.URL) bool {
	switch strings.ToLower(u.Hostname()) {
	case "discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com":
		return discordPath.MatchString(u.Path)
	}
	return false
}

var discordPath = regexp.MustCompile(`^/api/(v[0-9]+/)?webhooks/`)

// safeScheme is the part of a URL that holds no secret. One without "://" may be a
// bare token.
func safeScheme(u *url.URL) string {
	if u.Scheme == "" || u.Opaque != "" {
		return "without a name"
	}
	return u.Scheme
}
