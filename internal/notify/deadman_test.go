package notify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/notify"
)

// pings is a RoundTripper that notes what it carries.
type pings struct {
	mu     sync.Mutex
	list   []string
	at     []time.Time
	status int
	hang   bool
	flying int
	most   int
}

func (p *pings) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	p.mu.Lock()
	p.list = append(p.list, strings.TrimSpace(r.URL.Path+"?"+r.URL.RawQuery+" "+string(body)))
	p.at = append(p.at, time.Now())
	p.flying++
	p.most = max(p.most, p.flying)
	hang, status := p.hang, p.status
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.flying--; p.mu.Unlock() }()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: max(status, 200), Body: io.NopCloser(strings.NewReader("OK")), Request: r}, nil
}

func (p *pings) set(status int, hang bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.hang = status, hang
}

func (p *pings) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.list...)
}

func deadMan(t *testing.T, url string, p *pings, log *buffer) *notify.DeadMan {
	t.Helper()
	d, err := notify.NewDeadMan(notify.DeadManConfig{URL: hidden(url), Transport: p, Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPings(t *testing.T) {
	p := &pings{}
	d := deadMan(t, "https://hc.example.com/T0ken/?x=hunter2", p, new(buffer))
	for _, err := range []error{d.Start(t.Context()), d.Ping(t.Context()), d.Fail(t.Context(), "no path\x00works")} {
		if err != nil {
			t.Error(err)
		}
	}
	if got, want := fmt.Sprint(p.all()), "[/T0ken/start?x=hunter2 /T0ken?x=hunter2 /T0ken/fail?x=hunter2 no path works]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, status := range []int{301, 404, 500} {
		p.set(status, false)
		if err := d.Ping(t.Context()); err == nil || leaks(err.Error()) || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, url := range []string{"", "hunter2", "ftp://host/hunter2", "https:///hunter2", "https://%zz/hunter2"} {
		if _, err := notify.NewDeadMan(notify.DeadManConfig{URL: hidden(url)}); err == nil || leaks(err.Error()) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := &pings{}, new(buffer)
		d := deadMan(t, "https://hc.example.com/T0ken", p, log)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx) })
		for i := range 121 { // a loop of 5 s, for 10 minutes
			d.Beat(i%7 != 0, fmt.Sprint(i))
			time.Sleep(5 * time.Second)
		}
		if n := len(p.all()); n < 10 || n > 12 {
			t.Errorf("%d pings in 10 minutes", n)
		}
		for i := range p.at[1:] {
			if gap := p.at[i+1].Sub(p.at[i]); gap < time.Minute {
				t.Errorf("a gap of %s", gap)
			}
		}
		if got := p.all()[1]; got != "/T0ken? 11" && got != "/T0ken? 12" {
			t.Errorf("not the latest beat: %s", got)
		}
		// A loop that hangs falls silent.
		time.Sleep(2 * time.Minute)
		before := len(p.all())
		time.Sleep(time.Hour)
		if n := len(p.all()); n != before {
			t.Errorf("%d pings without a beat", n-before)
		}
		d.Beat(false, "no path works")
		synctest.Wait()
		if got := p.all()[before]; got != "/T0ken/fail? no path works" {
			t.Errorf("failing: %s", got)
		}
		if s := d.Status(); s.LastOK.IsZero() || s.Failures != 0 {
			t.Errorf("status is %+v", s)
		}
		// A service that hangs holds up nobody, and gets one ping at a time.
		p.set(0, true)
		start := time.Now()
		for range 1000 {
			d.Beat(true, "")
		}
		if time.Since(start) != 0 {
			t.Errorf("beats took %s", time.Since(start))
		}
		for range 60 {
			d.Beat(true, "")
			time.Sleep(5 * time.Second)
		}
		if s := d.Status(); s.Failures < 3 || s.LastError == "" || leaks(s.LastError+log.String()) || p.most != 1 {
			t.Errorf("status is %+v, at most %d at a time", s, p.most)
		}
		cancel()
		wg.Wait()
	})
}
