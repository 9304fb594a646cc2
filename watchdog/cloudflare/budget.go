package cloudflare

import (
	"cmp"
	"sync"
	"time"
)

// The limit of the provider is 1200 requests in five minutes for one user, and the
// dashboard counts as well. The share of this program leaves some of it.
// https://developers.cloudflare.com/fundamentals/api/reference/limits
const (
	window       = 300 * time.Second
	defaultShare = 1000
)

// Budget counts the requests of one token, so that no five minutes hold more than
// its limit. Clients that use the same token share one. Of the limit, steady reads
// may use a quarter: the rest waits for a switch.
type Budget struct {
	limit int

	mu   sync.Mutex
	used []use // oldest first; only those of the last window
}

type use struct {
	at     time.Time
	steady bool
}

// NewBudget returns a Budget of that many requests in five minutes. 0 means 1000,
// and there are always at least 4.
func NewBudget(limit int) *Budget {
	return &Budget{limit: max(4, cmp.Or(limit, defaultShare))}
}

// take counts one request if there is room for it, and else says when there will be.
func (b *Budget) take(now time.Time, urgent bool) (ok bool, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	if len(b.used) >= b.limit {
		return false, b.used[0].at.Add(window)
	}
	if steady, first := b.steady(); !urgent && steady >= b.limit/4 {
		return false, first.Add(window)
	}
	b.used = append(b.used, use{now, !urgent})
	return true, time.Time{}
}

// Remaining returns how many requests an urgent call, and a steady one, still have.
func (b *Budget) Remaining(now time.Time) (urgent, steady int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	urgent = b.limit - len(b.used)
	n, _ := b.steady()
	return urgent, min(urgent, b.limit/4-n)
}

func (b *Budget) forget(now time.Time) {
	old := 0
	for old < len(b.used) && now.Sub(b.used[old].at) >= window {
		old++
	}
	b.used = b.used[:copy(b.used, b.used[old:])]
}

// steady returns the number of steady reads, and when the first was.
func (b *Budget) steady() (n int, first time.Time) {
	for _, u := range b.used {
		if u.steady && n == 0 {
			first = u.at
		}
		if u.steady {
			n++
		}
	}
	return n, first
}
