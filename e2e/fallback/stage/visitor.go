package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Visit is one attempt to see a page of a service.
type Visit struct {
	Began, Ended time.Time
	Home         string // who served. Empty: nobody did
	Seq          int64  // how far the data was
	Err          error
}

// Visitors look a home's name up, again and again, and go where it leads.
type Visitors struct {
	world *World
	home  string
	port  int
	mu    sync.Mutex
	all   []Visit
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// Visit begins to visit the n-th service of a home, every so often, until End.
func (w *World) Visit(ctx context.Context, home string, n int, every time.Duration) *Visitors {
	v := &Visitors{world: w, home: home, port: w.port(home, n)}
	ctx, v.stop = context.WithCancel(ctx)
	v.wg.Go(func() { v.run(ctx, every) })
	return v
}

func (v *Visitors) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		one := v.once(ctx)
		v.mu.Lock()
		v.all = append(v.all, one)
		v.mu.Unlock()
	}
}

// once is one visit.
func (v *Visitors) once(ctx context.Context) (one Visit) {
	one.Began = time.Now()
	defer func() { one.Ended = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addr, err := v.world.behind(v.world.Cloud.Lookup(v.home))
	if err != nil {
		one.Err = err
		return one
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/", netip.AddrPortFrom(addr, uint16(v.port))), nil)
	if err != nil {
		one.Err = err
		return one
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: new(net.Dialer).DialContext}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		one.Err = err
		return one
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err == nil {
		_, err = fmt.Sscanf(strings.TrimSpace(string(text)), "%s %d", &one.Home, &one.Seq)
	}
	one.Err = err
	return one
}

// behind is where an address out of DNS is in this world.
func (w *World) behind(public netip.Addr) (netip.Addr, error) {
	for _, h := range w.homes {
		if h.Public() == public {
			return h.Addr(), nil
		}
	}
	return public, fmt.Errorf("DNS leads to %s, where nobody is", public)
}

// All are the visits so far.
func (v *Visitors) All() []Visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]Visit(nil), v.all...)
}

// End waits for the last one.
func (v *Visitors) End() []Visit {
	v.stop()
	v.wg.Wait()
	return v.All()
}

// Gap is the longest time, after one moment, between two visitors that were served.
func Gap(all []Visit, after time.Time) (gap time.Duration) {
	last := after
	for _, v := range all {
		if v.Err != nil || v.Ended.Before(after) {
			continue
		}
		gap = max(gap, v.Ended.Sub(last))
		last = v.Ended
	}
	return gap
}
