package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Set asks several resolvers at the same time.
type Set struct {
	// Resolvers are those to ask. Default: the first two of Defaults.
	Resolvers []*Resolver
	// Timeout is for the whole lookup. Default: 5s; a ctx that ends earlier wins.
	Timeout time.Duration
	// Grace is how long to wait for the others once one has said where the name is.
	// Default: 500ms, uncalibrated: a public resolver answers within 100 ms, or not
	// at all. Negative: not at all.
	Grace time.Duration
}

const (
	defaultTimeout = 5 * time.Second
	defaultGrace   = 500 * time.Millisecond
)

// Reply is how one resolver answered.
type Reply struct {
	Resolver string
	Answer   Answer // without addresses if Err is set
	Err      *Error
	Took     time.Duration
}

// Found is what all resolvers together say.
type Found struct {
	// Addrs are the addresses that at least one resolver knows, in order.
	Addrs []netip.Addr
	// TTL is the shortest of all.
	TTL time.Duration
	// Replies is how each resolver answered, in the order of the Set.
	Replies []Reply
	// Disagree says that two resolvers gave different answers. For a minute or so
	// after a change that is as it should be.
	Disagree bool
}

// Lookup asks for the addresses of a name. One resolver that fails is no failure.
// The error is of type *Error: NoName or NoAddress if every resolver says so, and
// otherwise one for which Answered is false. Replies are there in either case.
func (s *Set) Lookup(ctx context.Context, name string, family Family) (Found, error) {
	resolvers := s.Resolvers
	if len(resolvers) == 0 {
		resolvers = Defaults()[:2]
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(s.Timeout, 0), defaultTimeout))
	defer cancel()
	found := Found{Replies: s.askAll(ctx, resolvers, name, family)}
	found.merge()
	if len(found.Addrs) > 0 {
		return found, nil
	}
	return found, found.failure()
}

// errLate ends the wait for resolvers that are slower than another by more than
// the grace.
var errLate = fmt.Errorf("another resolver has answered: %w", context.DeadlineExceeded)

// askAll returns when all have answered, or one has and the grace is over.
func (s *Set) askAll(ctx context.Context, resolvers []*Resolver, name string, family Family) []Reply {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	replies := make([]Reply, len(resolvers))
	first := make(chan struct{}, len(resolvers))
	var wg sync.WaitGroup
	for i, r := range resolvers {
		wg.Go(func() {
			replies[i] = r.reply(ctx, name, family)
			if replies[i].Err == nil {
				first <- struct{}{}
			}
		})
	}
	all := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { s.hurry(all, first, stop) })
	wg.Wait()
	close(all)
	watch.Wait()
	return replies
}

// hurry stops the lookups that are left when the grace after the first answer is
// over.
func (s *Set) hurry(all, first <-chan struct{}, stop context.CancelCauseFunc) {
	select {
	case <-all:
		return
	case <-first:
	}
	grace := time.NewTimer(max(cmp.Or(s.Grace, defaultGrace), 0))
	defer grace.Stop()
	select {
	case <-all:
	case <-grace.C:
		stop(errLate)
	}
}

func (r *Resolver) reply(ctx context.Context, name string, family Family) Reply {
	start := time.Now()
	answer, err := r.Lookup(ctx, name, family)
	reply := Reply{Resolver: r.String(), Answer: answer, Took: time.Since(start)}
	if e, ok := errors.AsType[*Error](err); ok {
		reply.Err = e
	}
	return reply
}

// merge puts the replies together.
func (f *Found) merge() {
	var said []string // one for each different answer
	for _, r := range f.Replies {
		if r.Err != nil && !Answered(r.Err) {
			continue
		}
		said = append(said, fmt.Sprint(r.Answer.Addrs))
		if r.Err != nil {
			continue
		}
		if len(f.Addrs) == 0 || r.Answer.TTL < f.TTL {
			f.TTL = r.Answer.TTL
		}
		f.Addrs = append(f.Addrs, r.Answer.Addrs...)
	}
	f.Disagree = len(slices.Compact(said)) > 1
	slices.SortFunc(f.Addrs, netip.Addr.Compare)
	f.Addrs = slices.Compact(f.Addrs)
}

// failure is the error of a lookup that gave no address. What only some of the
// resolvers say is not enough to say that there is none.
func (f *Found) failure() *Error {
	kinds := make(map[Kind]int)
	texts := make([]string, len(f.Replies))
	for i, r := range f.Replies {
		kinds[r.Err.Kind]++
		texts[i] = r.Err.Error()
	}
	e := &Error{Kind: Failed, Err: errors.New(strings.Join(texts, "; "))}
	answers := kinds[NoName] + kinds[NoAddress]
	switch n := len(f.Replies); {
	case answers == n && kinds[NoAddress] == 0:
		e.Kind = NoName
	case answers == n:
		e.Kind = NoAddress
	case kinds[Cancelled] > 0:
		e.Kind = Cancelled
	case kinds[Refused] > 0:
		e.Kind = Refused
	case kinds[Timeout] == n:
		e.Kind = Timeout
	}
	return e
}
