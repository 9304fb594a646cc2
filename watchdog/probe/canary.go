package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Canary is a probe that goes where public DNS sends visitors: to one of the
// addresses of its name, as resolvers on the Internet know them.
//
// Its timeout is 25s by default. Cloudflare's edge tries for 19s to reach an origin
// that does not answer before it says so with 522, and a probe with less patience
// cannot tell that from an edge that is slow.
type Canary struct {
	// HTTPS is the request. Of its Addr only the port counts. Default: 443.
	HTTPS
	// Resolve finds the address, within Timeout. Default: a zero Set, which asks
	// Cloudflare and Google.
	Resolve *resolve.Set
	// Family is the kind of address to look for. Default: IPv4.
	Family resolve.Family
	// Pick chooses one of n addresses, by its index. Default: at random.
	Pick func(n int) int
	// Keep is how long addresses that have led to a good answer are used again, if
	// their TTL is not shorter. Default: they are looked up for each probe.
	Keep time.Duration

	mu    sync.Mutex
	kept  resolve.Found // of the last good probe
	until time.Time
}

const canaryTimeout = 25 * time.Second

// Validate is like that of HTTPS.
func (c *Canary) Validate() error {
	h := c.at(netip.IPv6Unspecified())
	return h.Validate()
}

// at is the request to one address.
func (c *Canary) at(addr netip.Addr) HTTPS {
	h := c.HTTPS
	h.Addr = netip.AddrPortFrom(addr, cmp.Or(h.Addr.Port(), 443))
	return h
}

// Run looks the name up and makes one probe. That no resolver answers is unknown;
// that all answer there is no such name is bad.
func (c *Canary) Run(ctx context.Context) Result {
	r := Result{Started: time.Now()}
	if err := c.Validate(); err != nil {
		r.conclude(Local, "settings: "+err.Error())
		return r
	}
	b, cancel := newBudget(ctx, r.Started, cmp.Or(c.Timeout, canaryTimeout))
	defer cancel()
	addr, again, f := c.find(b, &r)
	if f != nil {
		r.Took = time.Since(r.Started)
		return r
	}
	h := c.at(addr)
	r.Addr = h.Addr
	h.run(b, &r)
	c.keep(&r, again)
	return r
}

// keep remembers what led to a good answer, and forgets what did not. Addresses that
// were used again are not kept for longer: only a lookup is worth that.
func (c *Canary) keep(r *Result, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case r.Value != evidence.Good:
		c.until = time.Time{}
	case !again && c.Keep > 0:
		c.kept, c.until = *r.Lookup, now.Add(min(c.Keep, r.Lookup.TTL))
	}
}

// lookup finds the name, or remembers it: then it is used again.
func (c *Canary) lookup(b budget) (found resolve.Found, again bool, err error) {
	c.mu.Lock()
	kept, fresh := c.kept, time.Now().Before(c.until)
	c.mu.Unlock()
	if fresh {
		return kept, true, nil
	}
	set := cmp.Or(c.Resolve, &resolve.Set{})
	found, err = set.Lookup(b, c.Name, c.Family)
	return found, false, err
}

// find chooses an address, or concludes.
func (c *Canary) find(b budget, r *Result) (addr netip.Addr, again bool, f *fault) {
	found, again, err := c.lookup(b)
	r.Resolve, r.Lookup = time.Since(r.Started), &found
	if err == nil {
		pick := c.Pick
		if pick == nil {
			pick = rand.IntN
		}
		return found.Addrs[pick(len(found.Addrs))], again, nil
	}
	f = &fault{DNS, err.Error()}
	if b.caller.Err() != nil {
		f = &fault{Cancelled, "cancelled looking up the name"}
	}
	r.conclude(f.reason, f.detail)
	if f.reason == DNS && resolve.Answered(err) {
		r.Value = evidence.Bad
	}
	return netip.Addr{}, false, f
}
