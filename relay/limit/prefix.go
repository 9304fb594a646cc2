package limit

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// mappedHigh is bits 64 to 95 of an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
const mappedHigh = 0xffff

// key is an address without its host bits. IPv4 is kept as IPv4-mapped IPv6,
// which no IPv6 source can be, as those count as IPv4. It holds no pointers, so
// that the garbage collector need not look into tables of it.
type key struct{ high, low uint64 }

func (k key) is4() bool { return k.high == 0 && k.low>>32 == mappedHigh }

// mask keeps the first bits, counted from 0 to 128.
func (k key) mask(bits int) key {
	if bits <= 64 {
		return key{high: k.high &^ (^uint64(0) >> bits)}
	}
	return key{high: k.high, low: k.low &^ (^uint64(0) >> (bits - 64))}
}

// addr returns the address, of IPv4 again where it was.
func (k key) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.high)
	binary.BigEndian.PutUint64(b[8:], k.low)
	return netip.AddrFrom16(b).Unmap()
}

func keyOf(a netip.Addr) key {
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// source returns the key of the source that an address belongs to.
func (r *rules) source(k key) key {
	if k.is4() {
		return k.mask(96 + r.prefixV4)
	}
	return k.mask(r.prefixV6)
}

// prefix returns a source in the form people know.
func (r *rules) prefix(k key) netip.Prefix {
	if k.is4() {
		return netip.PrefixFrom(k.addr(), r.prefixV4)
	}
	return netip.PrefixFrom(k.addr(), r.prefixV6)
}

// prefixSet is a list of prefixes. A look-up costs one map access for each
// different length in it, however long the list is.
type prefixSet struct {
	lengths4 []int // in bits of the key, so from 96 to 128
	lengths6 []int
	members  map[lengthKey]struct{}
}

type lengthKey struct {
	key
	bits int
}

func newPrefixSet(prefixes []netip.Prefix) prefixSet {
	set := prefixSet{members: make(map[lengthKey]struct{}, len(prefixes))}
	for _, p := range prefixes {
		k, bits := keyOf(p.Addr()), p.Bits()
		if p.Addr().Is4() {
			bits += 96
		}
		k = k.mask(bits)
		lengths := &set.lengths6
		if k.is4() {
			lengths = &set.lengths4
		}
		if !slices.Contains(*lengths, bits) {
			*lengths = append(*lengths, bits)
		}
		set.members[lengthKey{k, bits}] = struct{}{}
	}
	return set
}

func (s *prefixSet) contains(k key) bool {
	lengths := s.lengths6
	if k.is4() {
		lengths = s.lengths4
	}
	for _, bits := range lengths {
		if _, ok := s.members[lengthKey{k.mask(bits), bits}]; ok {
			return true
		}
	}
	return false
}
