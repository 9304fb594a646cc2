package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	native "github.com/haproxytech/client-native/v5/runtime"
	"github.com/haproxytech/client-native/v5/runtime/options"
)

// Options of a Client. The zero value works.
type Options struct {
	// Timeout is how long one call may take. Default: 2s.
	Timeout time.Duration
	// Execute passes commands to HAProxy and returns what it says. Default: what
	// client-native does.
	Execute func(command string) (string, error)
}

// maxAbandoned is how many calls that nobody waits for any more may be there. Each
// ends when client-native gives up, after 30 s.
const maxAbandoned = 4

// ErrHangs says that HAProxy took several calls and answers none of them.
var ErrHangs = errors.New("HAProxy's socket takes calls and does not answer")

// Client is for one stats socket. It is safe for concurrent use, and its calls are
// made one after the other.
type Client struct {
	path    string
	timeout time.Duration
	execute func(command string) (string, error)
	turn    chan struct{} // has one token: whose turn it is to call
	waiting atomic.Int32  // calls that are not over, abandoned ones too

	mu     sync.Mutex
	native *native.SingleRuntime
}

// New returns a client for a stats socket. It does not call yet.
func New(path string, o Options) *Client {
	c := &Client{path: path, timeout: cmp.Or(o.Timeout, 2*time.Second), execute: o.Execute, turn: make(chan struct{}, 1)}
	if c.execute == nil {
		c.execute = c.pass
	}
	return c
}

// ask passes commands and returns what HAProxy says, which may be anything.
func (c *Client) ask(ctx context.Context, commands string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", c.failed(context.Cause(ctx))
	}
	if c.waiting.Load() >= maxAbandoned {
		return "", c.failed(ErrHangs)
	}
	answers := make(chan answer, 1)
	c.waiting.Add(1)
	go c.call(commands, answers)
	select {
	case a := <-answers:
		if a.err != nil {
			return "", c.failed(a.err)
		}
		return a.text, nil
	case <-ctx.Done():
		c.forget()
		return "", c.failed(context.Cause(ctx))
	}
}

func (c *Client) failed(err error) error { return fmt.Errorf("asking HAProxy at %s: %w", c.path, err) }

type answer struct {
	text string
	err  error
}

// call makes one call. It may outlive who asked, and then nobody reads its answer.
func (c *Client) call(commands string, answers chan<- answer) {
	var a answer
	defer func() {
		if p := recover(); p != nil {
			a = answer{err: fmt.Errorf("the client panicked: %v: %.2000s", p, debug.Stack())}
		}
		c.waiting.Add(-1)
		answers <- a
	}()
	a.text, a.err = c.execute(commands)
}

// pass has client-native pass commands. It has no context, and answers with no error
// when HAProxy goes away in the middle.
func (c *Client) pass(commands string) (string, error) {
	n, err := c.client()
	if err != nil {
		return "", err
	}
	return n.ExecuteRaw(commands)
}

// client returns client-native's, made when it is first needed: for one socket, because
// that for several asks for HAProxy's version first, for all of the process together,
// and a socket that hangs would hold up the others. It has a lock that it holds while it
// calls: one whose call was abandoned is not used again.
func (c *Client) client() (*native.SingleRuntime, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.native == nil {
		n := &native.SingleRuntime{}
		if err := n.Init(c.path, 0, 0, options.RuntimeOptions{DoNotCheckRuntimeOnInit: true}); err != nil {
			return nil, err
		}
		c.native = n
	}
	return c.native, nil
}

func (c *Client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.native = nil
}
