package cloudflare_test

import (
	"context"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

func TestBackoffSequence(t *testing.T) {
	now := time.Unix(1e9, 0)
	var b cloudflare.Backoff
	if ok, _ := b.Ready(now); !ok {
		t.Error("the zero value is not ready")
	}
	var got []time.Duration
	for range 9 {
		b = b.Failed(now, cloudflare.Failure{})
		_, until := b.Ready(now)
		got = append(got, until.Sub(now)/time.Second)
		if ok, _ := b.Ready(until.Add(-1)); ok {
			t.Error("ready too early")
		}
		if ok, _ := b.Ready(until); !ok {
			t.Error("not ready in time")
		}
		now = until
	}
	if diff := cmp.Diff([]time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBackoffFailures(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tc := range []struct {
		name string
		f    cloudflare.Failure
		want time.Duration
	}{
		{"flat", cloudflare.Failure{Flat: true}, 30 * time.Second},
		{"jitter", cloudflare.Failure{Jitter: 1500 * time.Millisecond}, 6500 * time.Millisecond},
		{"flat with jitter", cloudflare.Failure{Flat: true, Jitter: 2 * time.Second}, 32 * time.Second},
		{"longer Retry-After", cloudflare.Failure{RetryAfter: time.Minute}, time.Minute},
		{"shorter Retry-After", cloudflare.Failure{RetryAfter: time.Second}, 5 * time.Second},
	} {
		_, until := cloudflare.Backoff{}.Failed(now, tc.f).Ready(now)
		if got := until.Sub(now); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	// A second failure never shortens what the first one bound.
	long := cloudflare.Backoff{}.Failed(now, cloudflare.Failure{RetryAfter: time.Hour})
	if _, until := long.Failed(now, cloudflare.Failure{}).Ready(now); until.Sub(now) != time.Hour {
		t.Error("shortened to", until.Sub(now))
	}
}

// TestOutage: while the API is down the waits grow, nothing is sent in between,
// and the first success resets them.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Page, Status: 503})
		var waits []time.Duration
		last := time.Now()
		for len(waits) < 8 {
			sent := r.fake.Count()
			_, err := r.client.Owned(t.Context(), r.zone)
			if r.fake.Count() > sent {
				waits = append(waits, time.Since(last)/time.Second)
				last = time.Now()
				want(t, err, cloudflare.KindServer)
			} else if e := want(t, err, cloudflare.KindHeld); !e.Until.After(time.Now()) {
				t.Fatal("held until", e.Until)
			}
			time.Sleep(time.Second)
		}
		if diff := cmp.Diff([]time.Duration{0, 5, 10, 20, 40, 80, 160, 300}, waits); diff != "" {
			t.Error(diff)
		}
		r.fake.Heal()
		ready, at := r.client.Ready(time.Now())
		if ready {
			t.Error("ready in the middle of a backoff")
		}
		// Neither may a write go, urgent or not.
		_, err := r.client.Apply(cloudflare.Urgent(t.Context()), r.zone, records.Batch{Deletes: []records.Record{{ID: r.fake.Records(zoneName)[0].ID}}})
		want(t, err, cloudflare.KindHeld)
		time.Sleep(time.Until(at))
		if _, err := r.client.Owned(t.Context(), r.zone); err != nil {
			t.Fatal(err)
		}
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Reset, Times: 1})
		_, err = r.client.Owned(t.Context(), r.zone)
		if e := want(t, err, cloudflare.KindNetwork); time.Until(e.Until) != 5*time.Second {
			t.Error("after a success, the wait is", time.Until(e.Until))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name, header string
		cap          time.Duration
		want         time.Duration
	}{
		{"seconds", "120", 0, 120 * time.Second},
		{"none", "", 0, 5 * time.Second},
		{"shorter than ours", "1", 0, 5 * time.Second},
		{"a day", "86400", 0, 300 * time.Second},
		{"a day, with a lower cap", "86400", time.Minute, time.Minute},
		{"a day, with a higher cap", "86400", time.Hour, time.Hour},
		{"date", "date", 0, 90 * time.Second},
		{"nonsense", "soon", 0, 5 * time.Second},
		{"negative", "-5", 0, 5 * time.Second},
		{"overflow", "99999999999999999999", 0, 5 * time.Second},
		{"past date", "Sat, 01 Jan 1999 00:00:00 GMT", 0, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *cloudflare.Config) { c.MaxRetryAfter = tc.cap })
				header := tc.header
				if header == "date" {
					header = time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
				}
				r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Throttle, RetryAfter: header})
				_, err := r.client.Owned(t.Context(), r.zone)
				e := want(t, err, cloudflare.KindRateLimited)
				if got := time.Until(e.Until); got != tc.want {
					t.Errorf("held for %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestScopeOfAFailure: what is refused for itself holds back nothing else.
func TestScopeOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		toRelay, toHome := r.plan(t, 0), r.plan(t, 1)
		if toRelay.Len() != 0 {
			t.Fatal("not on the relay path")
		}
		r.fake.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Refuse, Status: 400, Code: 9003, Times: 1})
		_, err := r.client.Apply(ctx, r.zone, toHome)
		if e := want(t, err, cloudflare.KindInvalid); time.Until(e.Until) != 30*time.Second {
			t.Error("held for", time.Until(e.Until))
		}
		if _, err := r.client.Owned(ctx, r.zone); err != nil {
			t.Error("reads are held back by a refused write:", err)
		}
		_, err = r.client.Apply(ctx, r.zone, toHome)
		want(t, err, cloudflare.KindHeld)
		other := toHome
		other.Deletes = nil
		if _, err := r.client.Apply(ctx, r.zone, other); err != nil {
			t.Error("another write is held back:", err)
		}
		_, err = r.client.Owned(ctx, "00000000000000000000000000000000")
		want(t, err, cloudflare.KindForbidden)
		if _, err := r.client.Owned(ctx, r.zone); err != nil {
			t.Error("a zone is held back by another:", err)
		}
		if ok, _ := r.client.Ready(time.Now()); !ok {
			t.Error("not ready")
		}
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, Status: 401, Code: 10000, Times: 1})
		_, err = r.client.Owned(ctx, r.zone)
		want(t, err, cloudflare.KindAuth)
		if ok, at := r.client.Ready(time.Now()); ok || time.Until(at) != 30*time.Second {
			t.Error("a bad token holds nothing back")
		}
		time.Sleep(30 * time.Second)
		if _, err := r.client.Apply(ctx, r.zone, toHome); err != nil {
			t.Error("still held back:", err)
		}
	})
}

// TestCancelled: that the caller gives up says nothing about the provider.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		batch := r.plan(t, 1)
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Hang})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := r.client.Apply(ctx, r.zone, batch)
		if e := want(t, err, cloudflare.KindAmbiguous); e.Cause != cloudflare.KindTimeout || !e.Until.IsZero() {
			t.Errorf("%+v", e)
		}
		if took := time.Since(start); took != time.Second {
			t.Error("ended after", took)
		}
		if ok, _ := r.client.Ready(time.Now()); !ok {
			t.Error("backs off because the caller gave up")
		}
	})
}

// TestStaleSuccess: an answer to an older request does not end a newer backoff.
func TestStaleSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Slow, Delay: 3 * time.Second, Times: 1})
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Throttle, RetryAfter: "100", Times: 1})
		slow := make(chan error)
		go func() {
			_, err := r.client.Owned(t.Context(), r.zone)
			slow <- err
		}()
		time.Sleep(time.Second)
		_, err := r.client.Owned(t.Context(), r.zone)
		want(t, err, cloudflare.KindRateLimited)
		if err := <-slow; err != nil {
			t.Error(err)
		}
		if ok, at := r.client.Ready(time.Now()); ok || time.Until(at) != 98*time.Second {
			t.Error("ready", ok, time.Until(at))
		}
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *cloudflare.Config) { c.Budget = cloudflare.NewBudget(40) })
		ctx := t.Context()
		for range 10 {
			if _, err := r.client.Owned(ctx, r.zone); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		_, err := r.client.Owned(ctx, r.zone)
		if e := want(t, err, cloudflare.KindHeld); time.Until(e.Until) != 290*time.Second {
			t.Error("held for", time.Until(e.Until))
		}
		if s := r.client.Stats(); s.Remaining != 30 || s.RemainingSteady != 0 || s.Requests != 10 || s.ProviderRemaining != 1190 {
			t.Errorf("%+v", s)
		}
		b := records.Batch{Deletes: []records.Record{{ID: r.fake.Records(zoneName)[0].ID}}}
		if _, err := r.client.Apply(ctx, r.zone, b); err != nil { // a switch never waits for them
			t.Fatal(err)
		}
		for range 29 {
			if _, err := r.client.Owned(cloudflare.Urgent(ctx), r.zone); err != nil {
				t.Fatal(err)
			}
		}
		b.Deletes[0].ID = r.fake.Records(zoneName)[0].ID
		_, err = r.client.Apply(ctx, r.zone, b)
		want(t, err, cloudflare.KindHeld)
		if ok, _ := r.client.Ready(time.Now()); !ok {
			t.Error("a spent budget is no backoff")
		}
		time.Sleep(290 * time.Second)
		if _, err := r.client.Owned(ctx, r.zone); err != nil {
			t.Error(err)
		}
		_, err = r.client.Owned(ctx, r.zone)
		want(t, err, cloudflare.KindHeld) // only one of the ten has come free
	})
}

// TestBudgetBound: however calls come, no window holds more than the limit.
func TestBudgetBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *cloudflare.Config) { c.Budget = cloudflare.NewBudget(0) })
		for range 900 {
			for range 4 {
				_, _ = r.client.Owned(cloudflare.Urgent(t.Context()), r.zone)
			}
			time.Sleep(time.Second)
		}
		log := r.fake.Requests()
		most := 0
		for i, j := 0, 0; j < len(log); j++ {
			for log[j].At.Sub(log[i].At) >= 300*time.Second {
				i++
			}
			most = max(most, j-i+1)
		}
		if most != 1000 {
			t.Errorf("%d requests in five minutes, want 1000", most)
		}
	})
}

// TestSteadyCost: criterion 23. A zone of 10,000 records, asked every 5 s for 5 min.
func TestSteadyCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 10_000 {
			r.fake.Put(zoneName, fakecloudflare.Record{Name: "host" + string(rune('a'+i%26)) + digits(i), Type: "A", Content: "192.0.2.1"})
		}
		start := time.Now()
		for time.Since(start) < 5*time.Minute {
			owned, err := r.client.Owned(t.Context(), r.zone)
			if err != nil {
				t.Fatal(err)
			}
			if len(owned) != 4 {
				t.Fatalf("%d records are ours", len(owned))
			}
			time.Sleep(5 * time.Second)
		}
		if n := r.fake.Count(); n != 60 {
			t.Errorf("%d requests, want 60, and never 300", n)
		}
	})
}

func digits(n int) string {
	var b []byte
	for range int(math.Log10(1e5)) {
		b = append(b, byte('0'+n%10))
		n /= 10
	}
	return string(b)
}
