package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/lease"
)

// alone makes of this machine's own lease, and of what other homes say of theirs, a
// store for those who have none that all homes share. It cannot keep two homes from
// acting when they cannot hear each other: that is why a person is asked.
//
// If two hold the same lease and hear each other again, the one that took it first has
// lost it: a person has said go to the other one.
type alone struct {
	Local
	c *Control
}

// errSilent says that nobody could be asked who covers whom.
var errSilent = errors.New("not every home that could cover this one answers")

// Read returns the newest of what is known here and what the others say.
func (a *alone) Read(ctx context.Context, key string) (lease.Value, error) {
	v, err := a.Local.Read(ctx, key)
	if err != nil {
		return v, err
	}
	home, self := strings.TrimPrefix(key, "fallback/"), a.c.cfg.ID
	held := v.Holder == self
	if home == self {
		v, err = a.own(v, home)
	} else {
		v = a.others(v, home)
	}
	if held && v.Holder != self { // it is lost, also when the other one is not heard any more
		if failed := a.Release(ctx, a.c.homes[home].granted()); !errors.Is(failed, lease.ErrLost) {
			err = errors.Join(err, failed)
		}
	}
	return v, err
}

// own is the key of this home: those that cover it are asked.
func (a *alone) own(v lease.Value, home string) (lease.Value, error) {
	answers := 0
	coverers := a.coverers(home)
	for _, other := range coverers {
		st, ok := a.c.peers.last(other, a.fresh())
		if !ok {
			continue
		}
		answers++
		v = newer(v, st, home, other)
	}
	if answers < len(coverers) && v.Holder == "" {
		return v, errSilent
	}
	return v, nil
}

// others is the key of a home that this one covers.
func (a *alone) others(v lease.Value, home string) lease.Value {
	for _, other := range append([]string{home}, a.coverers(home)...) {
		if st, ok := a.c.peers.last(other, a.fresh()); ok && other != a.c.cfg.ID {
			v = newer(v, st, home, other)
		} else if st, known := a.c.peers.last(other, forever); known && other == home && !ok && v.Holder == "" {
			st.Holds = nil // it is not heard any more: what it served is what there is to cover
			v = newer(v, st, home, other)
		}
	}
	return v
}

const forever = 1<<63 - 1

// newer takes what a home says if that is newer, or if it holds the lease.
func newer(v lease.Value, st PeerStatus, home, other string) lease.Value {
	epoch, holds := st.Holds[home]
	seat, ok := st.Seats[home]
	// Two that took it by the same epoch: one of them has it, and both say which.
	holds = holds && (v.Holder == "" || cmp.Or(cmp.Compare(epoch, v.Epoch), cmp.Compare(v.Holder, other)) > 0)
	if holds {
		v.Holder, v.Epoch = other, max(v.Epoch, epoch)
	}
	mine, err := parseSeat(v.Data, home)
	later := cmp.Or(cmp.Compare(seat.Epoch, mine.Epoch), seat.Since.Compare(mine.Since)) > 0
	if !ok || seat.Phase == "" || err == nil && mine.Phase != "" && !later && !holds {
		return v
	}
	if data, err := json.Marshal(seat); err == nil {
		v.Data, v.Epoch = data, max(v.Epoch, seat.Epoch)
	}
	return v
}

// fresh is how long what a home says counts.
func (a *alone) fresh() time.Duration { return 4 * a.c.cfg.Policy.WithDefaults().Interval }

func (a *alone) coverers(home string) []string {
	for _, h := range a.c.cfg.Homes {
		if h.ID == home {
			return h.CoveredBy
		}
	}
	return nil
}

// Acquire takes this machine's own lease, unless another home says that it has it. Its
// epoch is higher than all that were heard of.
func (a *alone) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	v, err := a.Read(ctx, key)
	if err == nil && v.Holder != "" && v.Holder != holder {
		return lease.Grant{}, fmt.Errorf("could not take the lease: %w", &lease.HeldError{By: v.Holder})
	}
	if err := a.Above(ctx, key, v.Epoch); err != nil {
		return lease.Grant{}, err
	}
	return a.Local.Acquire(ctx, key, holder, ttl)
}
