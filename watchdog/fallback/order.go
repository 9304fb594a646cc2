package fallback

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultReady is how long an item may take to be well, if it does not say.
const DefaultReady = 2 * time.Minute

// Items returns the items of all tiers, in the order of the config.
func (h Home) Items() []Item {
	var list []Item
	for _, t := range h.Tiers {
		list = append(list, t.Items...)
	}
	return list
}

// Item returns the item of that name and its tier. Warm items are in no tier.
func (h Home) Item(name string) (Item, Tier, bool) {
	for _, t := range h.Tiers {
		for _, i := range t.Items {
			if i.Name == name {
				return i, t, true
			}
		}
	}
	return Item{}, Tier{}, false
}

// first are the items of tier 1, later the tiers behind it.
func (h Home) first() []Item {
	if len(h.Tiers) == 0 {
		return nil
	}
	return h.Tiers[0].Items
}

func (h Home) later() []Tier { return h.Tiers[min(1, len(h.Tiers)):] }

// Validate says what of a home cannot work.
func (h Home) Validate() error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("home "+cmp.Or(h.ID, "?")+": "+format, args...))
	}
	if h.ID == "" {
		add("it has no id")
	}
	if slices.Contains(h.CoveredBy, h.ID) {
		add("covered_by names the home itself")
	}
	if sorted := slices.Sorted(slices.Values(h.CoveredBy)); len(slices.Compact(sorted)) != len(h.CoveredBy) {
		add("covered_by names a home twice")
	}
	if len(h.Tiers) == 0 {
		add("it has no tier 1")
	}
	updaters := 0
	seen := map[string]int{} // name to the number of its tier
	for _, w := range h.Warm {
		seen[w.Name] = 0
	}
	for i, t := range h.Tiers {
		if t.Number != i+1 {
			add("tier %d stands where tier %d should", t.Number, i+1)
		}
		if i > 0 && t.After < h.Tiers[i-1].After {
			add("tier %d: after %s is earlier than that of tier %d", t.Number, t.After, i)
		}
		for _, item := range t.Items {
			if _, twice := seen[item.Name]; twice || item.Name == "" {
				add("item %q: the name is empty or used twice", item.Name)
			}
			seen[item.Name] = t.Number
			if item.DNS {
				updaters++
			}
			if item.DNS && (t.Number != 1 || h.DNS != nil) {
				add("item %s: dns is for an item of tier 1 of a home without dns of its own", item.Name)
			}
		}
	}
	for _, t := range h.Tiers {
		for _, item := range t.Items {
			for _, dep := range item.After {
				if n, ok := seen[dep]; !ok || n > t.Number {
					add("item %s: after names %s, which is in no tier up to %d", item.Name, dep, t.Number)
				}
			}
		}
		if len(t.Ordered()) != len(t.Items) {
			add("tier %d: its items wait for each other in a circle", t.Number)
		}
	}
	if updaters > 1 {
		add("%d items have dns: one domain has one updater", updaters)
	}
	if len(h.Names) > 0 && updaters == 0 {
		add("names are for the records of an item with dns, and it has none")
	}
	return errors.Join(errs...)
}

// Ordered returns the items of the tier so that each comes behind those it waits for,
// else as the config has them. The item that is the DNS comes first. Items that wait
// for each other in a circle are left out. Do not change what it returns.
func (t Tier) Ordered() []Item {
	if t.inOrder() {
		return t.Items
	}
	var list []Item
	left := slices.Clone(t.Items)
	slices.SortStableFunc(left, func(a, b Item) int {
		switch {
		case a.DNS == b.DNS:
			return 0
		case a.DNS:
			return -1
		}
		return 1
	})
	waits := func(i Item) bool {
		return slices.ContainsFunc(left, func(o Item) bool { return slices.Contains(i.After, o.Name) })
	}
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(i Item) bool { return !waits(i) })
		if i < 0 {
			return list
		}
		list = append(list, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return list
}

// inOrder reports whether the items stand in order already.
func (t Tier) inOrder() bool {
	for n, i := range t.Items {
		if i.DNS && n > 0 {
			return false
		}
		for _, later := range t.Items[n:] {
			if slices.Contains(i.After, later.Name) {
				return false
			}
		}
	}
	return true
}

// carried reports whether an item has data that a handback carries.
func (i Item) carried() bool {
	return slices.ContainsFunc(i.Data, func(d Data) bool { return !d.Union })
}

// Writeback is how long an outage must have lasted for the tier's data to be carried
// back; negative: never.
func (t Tier) Writeback() time.Duration { return cmp.Or(t.WritebackAfter, t.After) }
