package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

// broker holds what outlives a config: the one plane of the process, and the control
// channel that feeds it. It sits in a caddy.UsagePool: each provisioned config holds a
// reference, and the last one to leave closes it.
//
// A reload starts the new config before it stops the old one. If both want the same
// control channel it goes on; else the new one takes over, with the same plane.
type broker struct {
	mu      sync.Mutex // held while configs change
	entries []*entry   // those started and not stopped; the last one is in force
	plane   *agent.Plane
	control *control
	drain   time.Duration
	live    atomic.Pointer[live]
}

// control is an agent that runs.
type control struct {
	*agent.Agent
	key    string
	client *link.Client
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// live is what the admin API and the metrics read.
type live struct {
	entry  *entry
	plane  *agent.Plane
	agent  *agent.Agent // nil while it is not known where the relay is
	client *link.Client
}

var brokers = caddy.NewUsagePool()

const brokerKey = "edge_gateway"

func takeBroker() (*broker, error) {
	b, _, err := brokers.LoadOrNew(brokerKey, func() (caddy.Destructor, error) { return new(broker), nil })
	if err != nil {
		return nil, err
	}
	return b.(*broker), nil
}

func giveBroker() error {
	_, err := brokers.Delete(brokerKey)
	return err
}

// current returns the broker of the running gateway, or nil. The admin API asks for it
// anew each time: an app it had kept could be a dead one.
func current() (b *broker, now *live) {
	brokers.Range(func(_, value any) bool {
		b = value.(*broker)
		now = b.live.Load()
		return false
	})
	return b, now
}

// start puts an entry in force. If that fails, the one before is in force again.
func (b *broker) start(e *entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enforce(e); err != nil {
		return errors.Join(err, b.back())
	}
	b.entries = append(b.entries, e)
	return nil
}

// stop withdraws an entry.
func (b *broker) stop(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drain = e.drain
	i := slices.Index(b.entries, e)
	if i < 0 {
		return
	}
	b.entries = slices.Delete(b.entries, i, i+1)
	if i < len(b.entries) {
		return // another one is in force
	}
	if err := b.back(); err != nil {
		e.log.Error("the config before cannot be put in force again", "error", err)
	}
}

// back puts the last entry in force, if there is one. Without one, all goes on until
// Destruct.
func (b *broker) back() error {
	if len(b.entries) == 0 {
		return nil
	}
	return b.enforce(b.entries[len(b.entries)-1])
}

// enforce makes the plane and the control channel what e wants.
func (b *broker) enforce(e *entry) (err error) {
	if b.plane == nil {
		if b.plane, err = agent.NewPlane(e.log); err != nil {
			return err
		}
	}
	if err := b.plane.Configure(e.settings); err != nil {
		return err
	}
	url, err := e.url()
	if err != nil {
		return err
	}
	if key := string(e.key[:]) + url; b.control == nil || b.control.key != key {
		b.halt(agent.ErrReplaced)
		if err := b.begin(e, key, url); err != nil {
			return err
		}
	}
	b.publish(e)
	return nil
}

// begin starts a control channel, if it is known where the relay is.
func (b *broker) begin(e *entry, key, url string) error {
	if url == "" {
		e.log.Warn("this gateway is not paired: ask the relay for a code, and run: gateway pair <url> <code>")
		b.await(e)
		return nil
	}
	client, err := link.NewClient(link.ClientConfig{URL: url, Token: e.tokens(), Roots: e.roots})
	if err != nil {
		return err
	}
	version, _ := caddy.Version()
	a, err := agent.New(agent.Config{
		Log: e.log, Client: client, Plane: b.plane, File: e.pairing.TableFile(),
		Interval: e.interval, Version: version, LAN: e.lan, TunnelAge: e.tunnel,
	})
	if err != nil {
		return err
	}
	c := &control{Agent: a, key: key, client: client, done: make(chan struct{})}
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.Background())
	go c.run(ctx)
	b.control = c
	return nil
}

// lookAgain is how often an unpaired gateway looks whether it has been paired.
const lookAgain = time.Second

// await looks for a pairing that is kept on disk alone: the command was faster than
// this gateway, which could not be asked yet.
func (b *broker) await(e *entry) {
	time.AfterFunc(lookAgain, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.entries); n == 0 || b.entries[n-1] != e || b.control != nil {
			return
		}
		url, err := e.url()
		if err == nil && url != "" {
			err = b.enforce(e)
		}
		if err != nil {
			e.log.Error("taking up a pairing", "error", err)
		}
		if b.control == nil {
			b.await(e)
		}
	})
}

func (c *control) run(ctx context.Context) {
	defer close(c.done)
	defer c.client.Close()
	c.Run(ctx)
}

// halt ends the control channel and waits for it.
func (b *broker) halt(cause error) {
	if b.control == nil {
		return
	}
	b.control.cancel(cause)
	<-b.control.done
	b.control = nil
}

func (b *broker) publish(e *entry) {
	now := &live{entry: e, plane: b.plane}
	if b.control != nil {
		now.agent, now.client = b.control.Agent, b.control.client
	}
	b.live.Store(now)
}

// Destruct implements caddy.Destructor. At exit it drains; when a reload took the app
// out of the config, the draining goes on behind Caddy's back.
func (b *broker) Destruct() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live.Store(nil)
	if b.plane == nil {
		return nil
	}
	if caddy.Exiting() {
		b.end()
		return nil
	}
	gone := &broker{plane: b.plane, control: b.control, drain: b.drain}
	b.plane, b.control = nil, nil
	go gone.end()
	return nil
}

// end says goodbye to the relay, and then drains: it sends nobody new.
func (b *broker) end() {
	b.halt(nil)
	b.plane.Close(b.drain)
}

var (
	errPaired   = errors.New("the token is in the config: change it there")
	errUnpaired = errors.New("this gateway is not paired")
)

// pair trades a code for a token, and goes on with it.
func (b *broker) pair(ctx context.Context, e *entry, url, code string) (gateway string, err error) {
	if !e.token.IsZero() {
		return "", errPaired
	}
	client, err := link.NewClient(link.ClientConfig{URL: url, Roots: e.roots})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errWrong, err)
	}
	if e.relay != "" && strings.TrimSuffix(e.relay, "/") != strings.TrimSuffix(url, "/") {
		return "", fmt.Errorf("the config says that the relay is %s: %w", e.relay, errElsewhere)
	}
	defer client.Close()
	if gateway, err = e.pairing.Pair(ctx, client, code); err != nil {
		return "", err
	}
	return gateway, b.again(func() error { return nil })
}

var (
	errElsewhere = errors.New("pair there, or change it")
	errWrong     = errors.New("wrong")
)

// unpair forgets the token, and all that came with it.
func (b *broker) unpair(e *entry) error {
	if !e.token.IsZero() {
		return errPaired
	}
	return b.again(func() error {
		b.halt(nil) // says goodbye, for which it needs the token
		return errors.Join(e.pairing.Remove(), b.plane.Apply(link.Table{}))
	})
}

// again changes something, and puts the entry in force anew.
func (b *broker) again(change func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.entries) == 0 {
		return errors.New("no edge_gateway app is running")
	}
	if err := change(); err != nil {
		return err
	}
	if err := b.back(); err != nil {
		return err
	}
	if b.control != nil {
		b.control.Wake()
	}
	return nil
}
