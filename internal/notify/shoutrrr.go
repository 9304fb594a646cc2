package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
	"github.com/nicholas-fedor/shoutrrr/pkg/util/jsonclient"

	"github.com/edgeward/edgeward/internal/secret"
)

// shout sends through a service of shoutrrr. These services know no context, some
// keep state from one message to the next, and one panics when its host is down: each
// message gets a new one, in a goroutine of its own.
type shout struct {
	name    string
	scheme  string
	url     secret.String
	timeout time.Duration
	// running has a token for each Send that has not come back, also when nobody
	// waits for it any more.
	running chan struct{}
	wg      sync.WaitGroup
}

const (
	// maxHanging bounds what a service without a timeout can pile up.
	maxHanging = 3
	// shoutLimit is in bytes; the smallest limit of a service that is a chat is
	// 4096, Telegram's and ntfy's.
	shoutLimit = 3500
	// closeGrace is how long Close waits for what hangs. Most services give up by
	// themselves after 10 s.
	closeGrace = 12 * time.Second
)

// bounded gives Telegram, the only one that uses it, a client with a timeout.
var bounded = sync.OnceFunc(func() {
	jsonclient.DefaultClient = jsonclient.NewWithHTTPClient(newClient(defaultTimeout, nil))
})

func newShout(c Config, u *url.URL) (Channel, error) {
	bounded()
	s := &shout{
		name: c.name(safeScheme(u)), scheme: safeScheme(u), url: c.URL, timeout: c.Timeout,
		running: make(chan struct{}, maxHanging),
	}
	switch {
	case u.Opaque != "":
		return nil, errors.New("the URL has no // after its scheme")
	case u.Scheme == "logger":
		return nil, errors.New("logger:// tells nobody: leave the channel out")
	}
	_, err := s.service()
	return s, err
}

// service makes a new one. Its own errors repeat the URL; these do not.
func (s *shout) service() (service types.Service, err error) {
	defer func() {
		if recover() != nil {
			service, err = nil, fmt.Errorf("the URL cannot be used: see how shoutrrr wants %s:// to look", s.scheme)
		}
	}()
	r, err := router.New(log.New(io.Discard, "", 0))
	if err != nil {
		return nil, errors.New("shoutrrr cannot be used")
	}
	service, err = r.Locate(s.url.Reveal())
	switch {
	case errors.Is(err, router.ErrUnknownService):
		return nil, fmt.Errorf("there is no service %q", s.scheme)
	case err != nil:
		return nil, fmt.Errorf("the URL is not complete, or has a setting that is unknown: see how shoutrrr wants %s:// to look", s.scheme)
	}
	return service, nil
}

// Name implements Channel.
func (s *shout) Name() string { return s.name }

// Send implements Channel. A service cannot be stopped: after the timeout it is left
// to itself, and counted.
func (s *shout) Send(ctx context.Context, m Message) error {
	select {
	case s.running <- struct{}{}:
	default:
		return fmt.Errorf("%d earlier messages still hang in service %s", maxHanging, s.scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text := shorten(m.Title()+"\n"+m.Text(), shoutLimit)
	done := make(chan error, 1)
	s.wg.Go(func() {
		defer func() { <-s.running }()
		done <- s.deliver(text)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("sending: " + plain(ctx.Err()))
	}
}

func (s *shout) deliver(text string) error {
	service, err := s.service()
	if err != nil {
		return err
	}
	return judge(s.guard(func() error { return service.Send(text, &types.Params{}) }))
}

// guard turns a panic into an error.
func (s *shout) guard(send func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &faultError{s.scheme}
		}
	}()
	return send()
}

// faultError says that a service panicked. With what may hold anything.
type faultError struct{ scheme string }

func (e *faultError) Error() string { return "service " + e.scheme + " failed by a fault of its own" }

// statusIn finds the status of an answer in what services make of it.
var statusIn = regexp.MustCompile(`(?i)(?:status|HTTP|code)\D{0,20}\b([45][0-9]{2})\b`)

// judge keeps of an error what holds neither the URL nor the answer.
func judge(err error) error {
	if err == nil {
		return nil
	}
	var r reply
	if je, ok := errors.AsType[jsonclient.Error](err); ok {
		r.status = je.StatusCode
	} else if found := statusIn.FindStringSubmatch(err.Error()); found != nil {
		r.status, _ = strconv.Atoi(found[1])
	}
	if r.status >= 400 {
		return r.verdict(nil)
	}
	if _, ok := errors.AsType[*faultError](err); ok {
		return err
	}
	return errors.New("sending: " + plain(err))
}

// Close implements Channel.
func (s *shout) Close() error {
	done := make(chan struct{})
	go s.wait(done)
	select {
	case <-done:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("closing channel %s: %d messages still hang in service %s", s.name, len(s.running), s.scheme)
	}
}

func (s *shout) wait(done chan<- struct{}) {
	s.wg.Wait()
	close(done)
}
