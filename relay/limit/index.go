package limit

import (
	"hash/maphash"
	"math/bits"
)

// index finds the first entry of a chain by its key. Unlike a map it never
// grows, however long new keys replace old ones, and its seed is secret, so
// that nobody can choose addresses that share a chain.
type index struct {
	heads []int32 // a power of two of them
	seed  maphash.Seed
}

// newIndex makes an index with at least one chain for each of n entries.
func newIndex(n int) index {
	return index{
		heads: make([]int32, 1<<bits.Len(uint(n))),
		seed:  maphash.MakeSeed(),
	}
}

// head returns where the chain for a key begins.
func (x *index) head(k key) *int32 {
	return &x.heads[maphash.Comparable(x.seed, k)&uint64(len(x.heads)-1)]
}
