package follow_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

func report(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(took[min(len(took)*q/100, len(took)-1)].Microseconds()), fmt.Sprintf("%s-p%d-us", name, q))
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkState is from a picture that is offered to its change in HAProxy, written
// and read back.
func BenchmarkState(b *testing.B) {
	r := newRig(b, nil)
	changed := make(chan struct{}, 1)
	r.follow(b, func(c *follow.Config) {
		c.Log, c.Watch = slog.New(slog.DiscardHandler), 250*time.Millisecond
		c.Changed = func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	r.offer(nil)
	r.settled(b)
	var took []time.Duration
	tiers := []map[string]int8{{"a": pool.TierDown}, nil}
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		r.offer(tiers[i%2])
		for {
			s := r.f.Status()
			if s.Picture == r.version && s.Members[0].Done {
				break
			}
			<-changed
		}
		took = append(took, time.Since(began))
	}
	report(b, "state", took)
}

// BenchmarkAccept is from a picture that is offered to the first visitor who gets to
// the other gateway. Visitors come one after the other.
func BenchmarkAccept(b *testing.B) {
	r := newRig(b, nil)
	r.follow(b, func(c *follow.Config) { c.Log, c.Watch = slog.New(slog.DiscardHandler), 250*time.Millisecond })
	r.offer(nil)
	r.settled(b)
	hello := haproxytest.RawHello("home.example.com", 0)
	at := fmt.Sprintf("127.0.0.1:%d", r.port)
	var took []time.Duration
	tiers := []map[string]int8{{"a": pool.TierDown}, nil}
	for i := 0; b.Loop(); i++ {
		want := []string{"b", "a"}[i%2]
		began := time.Now()
		r.offer(tiers[i%2])
		for {
			dialled := time.Now()
			if haproxytest.Visit(b, at, hello) == want {
				took = append(took, dialled.Sub(began)) // of the first that is accepted after it
				break
			}
		}
	}
	report(b, "accept", took)
}

// BenchmarkReload is from the signal to the new worker, seen and told all, with eight
// visitors after each other at any time. None may be lost, nor get to who is down.
func BenchmarkReload(b *testing.B) {
	r := newRig(b, nil)
	r.follow(b, func(c *follow.Config) { c.Log, c.Watch = slog.New(slog.DiscardHandler), 250*time.Millisecond })
	r.offer(map[string]int8{"a": pool.TierCooldown})
	r.settled(b)
	hello := haproxytest.RawHello("home.example.com", 0)
	at := fmt.Sprintf("127.0.0.1:%d", r.port)
	var visits, lost, astray atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				visits.Add(1)
				switch haproxytest.Visit(b, at, hello) {
				case "b":
				case "":
					lost.Add(1)
				default:
					astray.Add(1)
				}
			}
		})
	}
	b.Cleanup(func() {
		if b.Failed() {
			b.Log(r.p.Said())
		}
	})
	var took []time.Duration
	for b.Loop() {
		// The states go along, as apply does it.
		list, err := r.p.Stats.States(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		text, _ := haproxy.StateFile(list, r.out.Servers)
		r.writeState(b, text)
		before := r.f.Status().Worker
		r.p.Settle(b)
		began := time.Now()
		r.p.Reload(b)
		haproxytest.Eventually(b, "the new worker is followed", func() bool { s := r.f.Status(); return s.Worker != before && s.Worker != 0 && s.Members[0].Done })
		took = append(took, time.Since(began))
	}
	close(stop)
	wg.Wait()
	report(b, "reload", took)
	b.ReportMetric(float64(visits.Load()), "visits")
	b.ReportMetric(float64(lost.Load()), "lost")
	b.ReportMetric(float64(astray.Load()), "astray")
}
