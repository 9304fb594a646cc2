package session

import (
	"math"
	"sort"
	"sync/atomic"
)

// Histogram counts observations in fixed buckets. It is safe for concurrent use
// and never blocks. Make one with NewHistogram.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds: the last is +Inf
	sum    atomic.Uint64   // float64 bits
}

// NewHistogram has a bucket up to and including each bound, in ascending order.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts v.
func (h *Histogram) Observe(v float64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Read returns the count, the sum, and the cumulative count for each bound, as
// Prometheus wants them.
func (h *Histogram) Read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.bounds))
	for i, b := range h.bounds {
		count += h.counts[i].Load()
		buckets[b] = count
	}
	count += h.counts[len(h.bounds)].Load()
	return count, math.Float64frombits(h.sum.Load()), buckets
}
