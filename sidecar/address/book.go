package address

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options of a Book.
type Options struct {
	Log *slog.Logger
	// Interval between questions. Default: 30s. A name whose gateway does not answer
	// is asked for every 5 s, if that is less.
	Interval time.Duration
	// Ask are the servers to ask. Default: the system's resolver.
	Ask []Asker
	// Allow are networks that are not public, and may be an answer all the same.
	Allow []netip.Prefix
	// File keeps what is believed. Default: nothing is kept.
	File string
	// Works reports whether the gateways at a name are known to be well where they
	// are. Default: never.
	Works func(host string) bool
	// Check looks whether the gateways of a name are at an address. Default: they
	// are.
	Check func(ctx context.Context, host string, addr netip.Addr) error
	// Changed is called with all that is believed, when that changes, and must not
	// block. Default: nobody is told.
	Changed func(map[string]netip.Addr)
}

const (
	urgent  = 5 * time.Second
	askTime = 10 * time.Second // for all servers, and as much again for the check
)

// Book is what is believed of names. Use Open.
type Book struct {
	o      Options
	again  chan struct{} // has room for one
	saving sync.Mutex    // one at a time writes the file

	mu    sync.Mutex
	hosts map[string]bool
	known map[string]Entry
}

// Entry is what is believed of a name.
type Entry struct {
	Addr netip.Addr `json:"addr,omitzero"`
	// Since is when it was first believed.
	Since time.Time `json:"since,omitzero"`
	// AskedAt is when it was asked for last, and Error why that changed nothing.
	AskedAt time.Time `json:"-"`
	Error   string    `json:"-"`
	// Candidate is what it may be now, and has not passed a check.
	Candidate netip.Addr `json:"-"`
}

// Open reads what was believed. A file that cannot be read is an error; one that is
// not there is none.
func Open(o Options) (*Book, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Ask) == 0 {
		o.Ask = []Asker{System}
	}
	o.Interval = cmp.Or(o.Interval, 30*time.Second)
	if o.Works == nil {
		o.Works = func(string) bool { return false }
	}
	if o.Check == nil {
		o.Check = func(context.Context, string, netip.Addr) error { return nil }
	}
	if o.Changed == nil {
		o.Changed = func(map[string]netip.Addr) {}
	}
	known, err := Load(o.File)
	if err != nil {
		return nil, err
	}
	return &Book{o: o, again: make(chan struct{}, 1), hosts: map[string]bool{}, known: known}, nil
}

// SetHosts says which names to follow. They are asked for at once.
func (b *Book) SetHosts(hosts []string) {
	b.mu.Lock()
	b.hosts = map[string]bool{}
	for _, host := range hosts {
		b.hosts[host] = true
	}
	b.mu.Unlock()
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// Known returns what is believed, by name.
func (b *Book) Known() map[string]netip.Addr {
	known := map[string]netip.Addr{}
	for host, e := range b.Entries() {
		if e.Addr.IsValid() {
			known[host] = e.Addr
		}
	}
	return known
}

// Entries returns all names that are followed.
func (b *Book) Entries() map[string]Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make(map[string]Entry, len(b.hosts))
	for host := range b.hosts {
		list[host] = b.known[host]
	}
	return list
}

// Lookup answers as a resolver would, with what is believed.
func (b *Book) Lookup(_ context.Context, host string) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.known[host]
	if !e.Addr.IsValid() {
		return nil, fmt.Errorf("%s has no address yet: %s", host, cmp.Or(e.Error, "it was not asked for"))
	}
	return []netip.Addr{e.Addr}, nil
}

// Run asks until ctx ends.
func (b *Book) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next := b.round(ctx)
		select {
		case <-ctx.Done():
		case <-b.again:
		case <-time.After(next):
		}
	}
}

// round asks for all names that are due, and returns how long to wait.
func (b *Book) round(ctx context.Context) time.Duration {
	next := b.o.Interval
	var asked sync.WaitGroup
	for _, host := range slices.Sorted(maps.Keys(b.Entries())) {
		every := b.o.Interval
		if !b.o.Works(host) {
			every = min(every, urgent)
		}
		if left := every - time.Since(b.entry(host).AskedAt); left > 0 {
			next = min(next, left)
			continue
		}
		next = min(next, every)
		asked.Go(func() { b.follow(ctx, host) })
	}
	asked.Wait()
	return max(next, 10*time.Millisecond)
}

func (b *Book) entry(host string) Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[host]
}

// follow asks for one name and decides.
func (b *Book) follow(ctx context.Context, host string) {
	e := b.entry(host)
	v := Decide(e.Addr, b.ask(ctx, host), b.o.Allow)
	if ctx.Err() != nil {
		return
	}
	switch {
	case !v.Addr.IsValid():
		b.stay(host, v.Why, netip.Addr{})
	case v.Addr == e.Addr:
		b.stay(host, "", netip.Addr{})
	case e.Addr.IsValid() && b.o.Works(host):
		if err := b.check(ctx, host, v.Addr); err != nil {
			b.stay(host, fmt.Sprintf("%s works, and %s does not yet: %v", e.Addr, v.Addr, err), v.Addr)
			return
		}
		b.believe(host, v.Addr)
	default:
		b.believe(host, v.Addr)
	}
}

func (b *Book) check(ctx context.Context, host string, addr netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return b.o.Check(ctx, host, addr)
}

// ask asks all servers at once.
func (b *Book) ask(ctx context.Context, host string) []Answer {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answers := make([]Answer, len(b.o.Ask))
	var asked sync.WaitGroup
	for i, ask := range b.o.Ask {
		asked.Go(func() { answers[i].Addrs, answers[i].Err = ask(ctx, host) })
	}
	asked.Wait()
	return answers
}

// stay notes that nothing has changed, and why. It is logged when it is news.
func (b *Book) stay(host, why string, candidate netip.Addr) {
	b.mu.Lock()
	e := b.known[host]
	news := e.Error != why
	e.AskedAt, e.Error, e.Candidate = time.Now(), why, candidate
	b.known[host] = e
	b.mu.Unlock()
	if news && why != "" {
		b.o.Log.Warn("a name's address stays as it is", "host", host, "address", e.Addr, "why", why)
	}
}

// believe takes an address. It is told to others even if it cannot be kept: the old
// one is of no use to anybody.
func (b *Book) believe(host string, addr netip.Addr) {
	now := time.Now()
	b.mu.Lock()
	was := b.known[host].Addr
	b.known[host] = Entry{Addr: addr, Since: now, AskedAt: now}
	b.mu.Unlock()
	err := b.save()
	b.o.Log.Info("a name has another address", "host", host, "address", addr, "was", was)
	if err != nil {
		b.o.Log.Error("the address is not kept for the next start", "host", host, "error", err)
	}
	b.o.Changed(b.Known())
}

// save keeps what is believed of the names that are followed.
func (b *Book) save() error {
	b.saving.Lock()
	defer b.saving.Unlock()
	keep := b.Entries()
	maps.DeleteFunc(keep, func(_ string, e Entry) bool { return !e.Addr.IsValid() })
	return save(b.o.File, keep)
}
