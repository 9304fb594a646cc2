package edge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
)

// Notify is somewhere that people are told of what happens: a gateway that is down
// or back, a pool that another member serves or nobody does, an agent that is
// silent, a server behind a gateway that cannot be reached.
type Notify struct {
	// Where to: a Discord or Slack webhook, any other https:// URL for a signed
	// webhook, smtp://, or a shoutrrr URL such as telegram://, ntfy:// or gotify://.
	// It holds a secret: better a placeholder.
	URL string `json:"url"`
	// What logs call it; messages that wait are for a name. Default: the kind of the
	// channel. Two channels of one kind need names.
	Name string `json:"name,omitempty"`
	// Signs the requests of a webhook, in X-Edge-Signature. Refused elsewhere.
	Secret string `json:"secret,omitempty"`
	// How long one attempt may take. Default: 15s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

func (a *App) parseNotify(d *caddyfile.Dispenser) error {
	n := &Notify{}
	if !d.Args(&n.URL) {
		return d.Err("notify needs a URL")
	}
	a.Notify = append(a.Notify, n)
	return options.Table{
		"name": options.Text(&n.Name), "secret": options.Text(&n.Secret), "timeout": options.Duration(&n.Timeout),
	}.Line(d)
}

// config is the channel's, with its secrets in place.
func (n *Notify) config(expand expander) (c notify.Config, err error) {
	url, err := expand(n.URL)
	if err != nil {
		return c, err
	}
	key, err := expand(n.Secret)
	if err != nil {
		return c, err
	}
	c = notify.Config{Name: n.Name, URL: secret.New(url), Timeout: time.Duration(n.Timeout)}
	if key != "" {
		c.Secret = secret.New(key)
	}
	return c, nil
}

// channels makes all channels, which sends nothing. The caller closes them.
func channels(list []*Notify, expand expander) (made []notify.Channel, err error) {
	defer func() {
		if err != nil {
			closeAll(made)
			made = nil
		}
	}()
	taken := map[string]bool{}
	for i, n := range list {
		if n == nil || n.URL == "" {
			return made, fmt.Errorf("notify %d: the URL is missing", i+1)
		}
		c, err := n.config(expand)
		if err != nil {
			return made, fmt.Errorf("notify %d: %w", i+1, err)
		}
		ch, err := notify.New(c)
		if err != nil {
			return made, fmt.Errorf("notify %d: %w", i+1, err)
		}
		made = append(made, ch)
		if taken[ch.Name()] {
			return made, fmt.Errorf("notify %d: channel %s is there twice: give each a name of its own", i+1, ch.Name())
		}
		taken[ch.Name()] = true
	}
	return made, nil
}

func closeAll(list []notify.Channel) {
	for _, ch := range list {
		_ = ch.Close()
	}
}

// teller tells people what happens. It outlives configs: what waits to be delivered
// waits through a reload, and through a restart too.
type teller struct {
	log *slog.Logger

	mu      sync.Mutex
	config  [sha256.Size]byte // of the channels in force
	journal *journal.Journal
	outbox  *notify.Outbox
	stop    func()
}

// fingerprint tells the channels of two configs apart, what their placeholders
// stand for included: a secret in a file may have changed. It is zero for none.
func fingerprint(list []*Notify) (sum [sha256.Size]byte, err error) {
	if len(list) == 0 {
		return sum, nil
	}
	h := sha256.New()
	for _, n := range list {
		c, err := n.config(expand)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(h, "%q %q %q %d\n", c.Name, c.URL.Reveal(), c.Secret.Reveal(), c.Timeout)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// use takes over the channels of a config. If they are those in force, nothing
// changes.
func (t *teller) use(list []*Notify) error {
	print, err := fingerprint(list)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if print == t.config {
		return nil
	}
	made, err := channels(list, expand)
	if err != nil {
		return err
	}
	t.end()
	if len(made) == 0 {
		return nil
	}
	if t.journal == nil {
		dir := filepath.Join(caddy.AppDataDir(), "edge", "notices")
		if t.journal, err = journal.Open(dir, journal.Options{Log: t.log}); err != nil {
			t.log.Error("notices that wait do not outlive a restart", "error", err)
		}
	}
	if t.outbox, err = notify.NewOutbox(t.journal, made, notify.Options{Log: t.log}); err != nil {
		closeAll(made)
		return err
	}
	t.config = print
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func(outbox *notify.Outbox) {
		defer close(over)
		outbox.Run(ctx)
	}(t.outbox)
	t.stop = func() {
		cancel()
		<-over
	}
	return nil
}

// tell posts what people are to know of an event.
func (t *teller) tell(ev event.Event) {
	about, ok := fleet.Notice(ev)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outbox == nil {
		return
	}
	if err := t.outbox.Post(about); err != nil {
		t.log.Error("posting a notice", "error", err)
	}
}

// end stops the channels in force. The caller holds mu.
func (t *teller) end() {
	if t.outbox == nil {
		return
	}
	t.stop()
	if err := t.outbox.Close(); err != nil {
		t.log.Error("closing the outbox of notices", "error", err)
	}
	t.outbox, t.config = nil, [sha256.Size]byte{}
}

// close ends all of it.
func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	if t.journal != nil {
		_ = t.journal.Close()
		t.journal = nil
	}
}
