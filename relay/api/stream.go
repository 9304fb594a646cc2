package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// longestWait bounds a request that waits for news: shorter than the timeouts
	// of most proxies and clients.
	longestWait = 60 * time.Second
	// sendTime is how long a client may take to receive an event.
	sendTime = 30 * time.Second
	// maxWaiting is how many requests may wait at once; each holds a connection.
	maxWaiting = 1024
)

// wait takes a place among those that wait for news, to be given back.
func (c *call) wait() (leave func(), err error) {
	if c.api.waiting.Add(1) > maxWaiting {
		c.api.waiting.Add(-1)
		return nil, problem(http.StatusServiceUnavailable, tooManyWaiting, "%d requests wait for news already", maxWaiting).
			with("Retry-After", "10")
	}
	return func() { c.api.waiting.Add(-1) }, nil
}

func (c *call) shortly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.ctx(), longestWait)
}

// stream sends server-sent events until the client or the fleet is gone. Next
// waits for news and writes it; a comment goes out when there was none for long,
// so that a dead client is noticed.
func (c *call) stream(next func(ctx context.Context) (string, error)) error {
	leave, err := c.wait()
	if err != nil {
		return err
	}
	defer leave()
	control := http.NewResponseController(c.w)
	head := c.w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("X-Accel-Buffering", "no") // for a proxy in between
	c.w.WriteHeader(http.StatusOK)
	if control.Flush() != nil || c.r.Method == http.MethodHead {
		return nil
	}
	defer control.SetWriteDeadline(time.Time{}) // the connection may serve other requests
	for {
		ctx, cancel := c.shortly()
		text, err := next(ctx)
		cancel()
		switch {
		case c.ctx().Err() != nil || !c.stillIn():
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			text = ": nothing new\n\n"
		case err != nil:
			return nil // the relay has stopped
		}
		_ = control.SetWriteDeadline(time.Now().Add(sendTime)) // not every server can
		if _, err := fmt.Fprint(c.w, text); err != nil || control.Flush() != nil {
			return nil
		}
	}
}

// message is one server-sent event. Data is one line of JSON.
func message(id uint64, kind string, data []byte) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", id, kind, data)
}
