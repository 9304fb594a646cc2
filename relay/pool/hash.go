package pool

import "net/netip"

// HashAddr turns a client's address into a [Query.Key]. It takes an IPv6
// address by its /64, which is what one customer holds, and an IPv4 address
// mapped into IPv6 as IPv4. The same address has the same key everywhere and
// always; do not use it where an attacker must not foresee the result.
func HashAddr(a netip.Addr) uint64 {
	a = a.Unmap()
	switch {
	case a.Is4():
		b := a.As4()
		return mix(1<<40 | bigEndian(b[:]))
	case a.Is6():
		b := a.As16()
		return mix(mix(2<<40) ^ bigEndian(b[:8]))
	}
	return mix(0)
}

func bigEndian(b []byte) (x uint64) {
	for _, c := range b {
		x = x<<8 | uint64(c)
	}
	return x
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, OOPSLA 2014; constants of Stafford's Mix13).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashName is FNV-1a with 64 bits (draft-eastlake-fnv), mixed.
func hashName(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h)
}

// unit maps a hash to the open interval (0, 1).
func unit(h uint64) float64 { return (float64(h>>11) + 0.5) / (1 << 53) }
