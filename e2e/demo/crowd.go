package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// visitor asks DNS where the site is, goes there, and asks for a page.
type visitor struct{ cloud *cloud }

const patience = 10 * time.Second

// visit is how it went once.
type visit struct {
	began, ended time.Time
	gateway      string
	err          error
}

func (v visit) took() time.Duration { return v.ended.Sub(v.began) }

func (v visitor) visit(ctx context.Context) visit {
	began := time.Now()
	by, err := v.get(ctx)
	return visit{began, time.Now(), by, err}
}

// get fetches the page over a new connection, and says who served it.
func (v visitor) get(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addr, proxied, err := v.cloud.lookup(ctx)
	if err != nil {
		return "", err
	}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: site, RootCAs: v.cloud.pool}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	by, err := fetch(ctx, conn)
	if err == nil && proxied {
		by = edge
	}
	return by, err
}

func fetch(ctx context.Context, conn net.Conn) (string, error) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", site); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status) // a page of the edge's own
	}
	return string(body), err
}

// crowd is a steady stream of visitors.
type crowd struct {
	mu     sync.Mutex
	visits []visit
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// atOnce bounds how many visitors are under way together.
const atOnce = 500

func startCrowd(ctx context.Context, v visitor, perSecond float64) *crowd {
	c := &crowd{}
	come, stop := context.WithCancel(ctx)
	c.stop = stop
	c.wg.Go(func() { c.come(come, ctx, v, time.Duration(float64(time.Second)/perSecond)) })
	return c
}

// come starts a visit at each tick until come is over; visits go on until ctx is.
func (c *crowd) come(come, ctx context.Context, v visitor, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	room := make(chan struct{}, atOnce)
	for {
		select {
		case <-come.Done():
			return
		case <-tick.C:
		}
		room <- struct{}{}
		c.wg.Go(func() {
			one := v.visit(ctx)
			<-room
			c.mu.Lock()
			defer c.mu.Unlock()
			c.visits = append(c.visits, one)
		})
	}
}

// end sends no more visitors and waits for the last.
func (c *crowd) end() {
	c.stop()
	c.wg.Wait()
}

func (c *crowd) all() visits { return c.since(0) }

// since are the visits from number n on, in the order they ended.
func (c *crowd) since(n int) visits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.visits[n:])
}

type visits []visit

func (vs visits) failed() (n int) {
	for _, v := range vs {
		if v.err != nil {
			n++
		}
	}
	return n
}

// by counts the visits that a gateway served.
func (vs visits) by(gateway string) (n int) {
	for _, v := range vs {
		if v.err == nil && v.gateway == gateway {
			n++
		}
	}
	return n
}

// latency is what a share q of those served waited at most.
func (vs visits) latency(q float64) time.Duration {
	var served []time.Duration
	for _, v := range vs {
		if v.err == nil {
			served = append(served, v.took())
		}
	}
	if len(served) == 0 {
		return 0
	}
	slices.Sort(served)
	return served[min(int(q*float64(len(served))), len(served)-1)]
}
