package catalog

import "strings"

// PinPool is the name of the pool that is derived from a pin.
func PinPool(gateway string) string { return pinned + gateway }

// PinOf returns the pinned gateway of a derived pool.
func PinOf(pool string) (gateway string, ok bool) { return strings.CutPrefix(pool, pinned) }
