package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/records"
)

// zone reads and writes the records of one zone, for all its sites. Its goroutine
// owns all fields but those with a lock of their own.
//
// What is ours is read in one request, by the marker in the comment. What stands
// beside it can only be found name by name: all names once at the start, then a few
// each cycle in turns, so that a cycle costs the same in a zone of any size.
type zone struct {
	cfg    Zone
	w      *watch
	client *cloudflare.Client
	log    *slog.Logger
	sites  []*site
	names  []string // of all sites, each once

	id       string
	name     string
	verified bool     // the token has been found good
	named    bool     // the name has been asked for, whatever came of it
	servers  []string // name servers, as far as the token may know them
	owned    []records.Record
	beside   map[string]beside
	turn     int          // into names
	odd      bool         // the turn of a name in conflict, if there is one
	alive    atomic.Int64 // the age of the watch when the loop last went on

	asks   chan ask
	jobs   chan func(context.Context)
	status atomic.Pointer[ZoneStatus]
}

// beside is what a name held when all its records were last read.
type beside struct {
	records []records.Record
	at      time.Time
}

// ask is a write that a site wants.
type ask struct {
	site   *site
	to     int
	bare   bool
	answer chan<- decide.Wrote // buffered
}

const (
	// gather is how long writes are collected, so that sites which move for one
	// reason move in one batch.
	gather = 20 * time.Millisecond
	// besideFresh is how old the knowledge of a name may be when it is written.
	besideFresh = 2 * time.Minute
	// besideMost is how many names are read again before a write: more would keep
	// visitors waiting for what is rare.
	besideMost = 8
	// quarantineEvery is how often a name in conflict is looked at: somebody may be
	// waiting for its end.
	quarantineEvery = 30 * time.Second
	// namesPerTurn is how many names a cycle looks at, for each hundred.
	namesPerTurn = 100
	writeTimeout = 30 * time.Second
)

func newZone(cfg Zone, w *watch, client *cloudflare.Client) *zone {
	z := &zone{
		cfg: cfg, w: w, client: client, id: cfg.ID, name: cfg.Name, beside: map[string]beside{},
		log:  w.cfg.Log.With("zone", cmp.Or(cfg.Name, cfg.ID)),
		asks: make(chan ask), jobs: make(chan func(context.Context)),
	}
	z.publish(nil)
	return z
}

// add makes the zone serve a site.
func (z *zone) add(s *site) {
	z.sites = append(z.sites, s)
	z.names = append(z.names, s.cfg.Names...)
}

// watch serves until ctx is over.
func (z *zone) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pulse := time.NewTicker(tick) // for the heart: there may be nothing to do for long
	defer pulse.Stop()
	for {
		z.lives()
		select {
		case <-ctx.Done():
			return
		case <-pulse.C:
		case a := <-z.asks:
			z.serve(ctx, z.gather(ctx, a))
		case job := <-z.jobs:
			job(ctx)
		case <-timer.C:
			_ = z.read(ctx)
			timer.Reset(z.next())
		}
	}
}

// lives says that the loop goes on. One request to the provider takes 10 s at most.
func (z *zone) lives() { z.alive.Store(int64(z.w.age())) }

// next is when to read again: after ReadEvery, or when the provider may be asked.
func (z *zone) next() time.Duration {
	wait := z.w.cfg.ReadEvery
	if slices.ContainsFunc(z.sites, func(s *site) bool { return len(z.conflicts(s)) > 0 }) {
		wait = min(wait, quarantineEvery)
	}
	if ready, at := z.client.Ready(time.Now()); !ready {
		wait = max(wait, time.Until(at))
	} else if z.owned == nil {
		wait = min(wait, leastReadEvery) // the first read is waited for
	}
	return wait
}

// read reads what is ours, and a few names in turn, and tells the sites.
func (z *zone) read(ctx context.Context) error {
	err := z.verify(ctx)
	if err == nil {
		err = z.reread(ctx)
	}
	for range 1 + len(z.names)/namesPerTurn {
		if err == nil && len(z.names) > 0 {
			err = z.look(ctx, z.whoseTurn())
		}
	}
	for _, name := range z.names { // at the start: all of them
		if err == nil && z.beside[name].at.IsZero() {
			err = z.look(ctx, name)
		}
	}
	if err == nil {
		err = z.lookAgain(ctx, z.sites, quarantineEvery, int(min(z.w.cfg.ReadEvery, quarantineEvery)/leastReadEvery)-1)
	}
	z.publish(err)
	if err != nil {
		z.log.Warn("the records could not be read", "error", err)
		return err
	}
	z.tellSites(ctx, nil)
	return nil
}

// whoseTurn is the name to look at next: of all in turns, but each second time one that
// is in conflict, if it was not looked at for a while. So a zone that is read as often
// as it may be costs no more for them.
func (z *zone) whoseTurn() string {
	if z.odd = !z.odd; z.odd {
		for _, s := range z.sites {
			if names := z.conflicts(s); len(names) > 0 && time.Since(z.beside[names[0]].at) >= quarantineEvery {
				return names[0]
			}
		}
	}
	z.turn = (z.turn + 1) % len(z.names)
	return z.names[z.turn]
}

// lookAgain looks at names of some sites that are in conflict, unless that is known
// fresh, and at so many at most. What keeps them from being managed may be gone.
func (z *zone) lookAgain(ctx context.Context, sites []*site, fresh time.Duration, most int) error {
	looks := 0
	for _, s := range sites {
		for _, name := range z.conflicts(s) {
			if time.Since(z.beside[name].at) < fresh || looks >= most {
				continue
			}
			looks++
			if err := z.look(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// conflicts lists the names of a site that may not be written, those that were looked at
// longest ago first.
func (z *zone) conflicts(s *site) []string {
	if !z.known(s) || s.homeless() {
		return nil
	}
	var names []string
	for _, c := range records.View(s.cfg.Names, s.targets(), z.actual(s)).Conflicts() {
		if name := records.Name(c.Record.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return z.beside[a].at.Compare(z.beside[b].at) })
	return names
}

// readFor is read for somebody who waits to see a site as it is now.
func (z *zone) readFor(ctx context.Context, s *site) error {
	if z.owned != nil {
		if err := z.lookAgain(ctx, []*site{s}, 0, besideMost); err != nil {
			z.publish(err)
			return err
		}
	}
	return z.read(ctx)
}

// verify checks the token, once, so that a wrong one is told by what is wrong with it.
// That the check cannot be made is no reason not to read.
func (z *zone) verify(ctx context.Context) error {
	if z.verified {
		return nil
	}
	if z.id == "" { // else the token is asked first: its own words are the clearest
		if err := z.find(ctx); err != nil {
			return err
		}
	}
	token, err := z.client.Verify(ctx, z.id)
	if e, ok := errors.AsType[*cloudflare.Error](err); ok {
		if e.Permanent() {
			return err
		}
		return nil // not now; the next read asks again
	}
	z.verified = true
	z.log.Info("the token may read the records", "event", "token_verified", "token", token.Status, "expires", token.Expires)
	return nil
}

// reread reads what is ours.
func (z *zone) reread(ctx context.Context) error {
	if err := z.find(ctx); err != nil {
		return err
	}
	z.lives()
	owned, err := z.client.Owned(ctx, z.id)
	if err != nil {
		return err
	}
	z.owned = owned
	if z.owned == nil {
		z.owned = []records.Record{}
	}
	return nil
}

// find looks the zone up, once. What the token may not know is done without: the
// permission to edit records is enough when the id is given.
func (z *zone) find(ctx context.Context) error {
	switch {
	case z.id == "":
		found, err := z.client.ZoneByName(ctx, z.cfg.Name)
		if err != nil {
			return err
		}
		z.id, z.name, z.servers = found.ID, found.Name, found.NameServers
	case !z.named:
		found, err := z.client.Zone(ctx, z.id)
		if e, ok := errors.AsType[*cloudflare.Error](err); ok && !e.Permanent() {
			return err
		}
		z.named = true
		if err == nil {
			z.name, z.servers = found.Name, found.NameServers
		}
	}
	return nil
}

// look reads all records of a name.
func (z *zone) look(ctx context.Context, name string) error {
	z.lives()
	list, err := z.client.ByName(ctx, z.id, name)
	if err != nil {
		return err
	}
	z.beside[name] = beside{list, time.Now()}
	return nil
}

// actual lists what a site's names hold: what is ours as it was last read, and what
// stood beside it.
func (z *zone) actual(s *site) []records.Record {
	var list []records.Record
	for _, r := range z.owned {
		if slices.Contains(s.cfg.Names, r.Name) {
			list = append(list, r)
		}
	}
	for _, name := range s.cfg.Names {
		for _, r := range z.beside[name].records {
			if !r.Owned() && !slices.ContainsFunc(list, func(o records.Record) bool { return o.ID == r.ID }) {
				list = append(list, r)
			}
		}
	}
	return list
}

// known reports whether all names of a site have been looked at.
func (z *zone) known(s *site) bool {
	return z.owned != nil && !slices.ContainsFunc(s.cfg.Names, func(name string) bool {
		_, ok := z.beside[name]
		return !ok
	})
}

// view is what the records of a site say, for the core.
func (z *zone) view(s *site) decide.Records {
	if !z.known(s) || s.homeless() {
		return decide.Records{On: decide.Nowhere}
	}
	v := records.View(s.cfg.Names, s.targets(), z.actual(s))
	r := decide.Records{Known: true, On: v.Path, Drift: v.State == records.Drifted, At: time.Now()}
	var why []string
	missing := false // and may be created
	for _, c := range v.Conflicts() {
		if s.cfg.Create && c.Reason == records.Nothing {
			missing = true
			continue
		}
		why = append(why, c.Error())
	}
	r.Drift = r.Drift || missing && r.On != decide.Nowhere
	switch {
	case v.State == records.Conflicted && !missing:
		r.Conflict = strings.Join(why, "; ")
	case len(why) > 0:
		r.LeftOut = strings.Join(why, "; ")
	}
	return r
}

// tellSites gives each site its view, but for those that get an answer of their own.
func (z *zone) tellSites(ctx context.Context, but []ask) {
	for _, s := range z.sites {
		if slices.ContainsFunc(but, func(a ask) bool { return a.site == s }) {
			continue
		}
		s.drifts.Store(new(z.drifts(s)))
		s.send(ctx, decide.Read{Records: z.view(s)})
	}
}

// drifts says what differs, for people.
func (z *zone) drifts(s *site) []string {
	var list []string
	for _, d := range records.View(s.cfg.Names, s.targets(), z.actual(s)).Drifts() {
		list = append(list, fmt.Sprintf("%s %s: %s is %s, want %s", d.Name, d.Type, d.What, cmp.Or(d.Got, "missing"), cmp.Or(d.Want, "none")))
	}
	return list
}

// do runs a job in the zone's goroutine and waits for it.
func (z *zone) do(ctx context.Context, job func(context.Context) error) error {
	done := make(chan error, 1)
	run := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(cloudflare.Urgent(ctx), writeTimeout)
		defer cancel()
		err := errors.New("the zone's loop broke down")
		defer func() { done <- err }()
		err = job(ctx)
	}
	select {
	case z.jobs <- run:
	case <-ctx.Done():
		return ctx.Err()
	case <-z.w.ctx.Done():
		return ErrStopped
	}
	select {
	case err := <-done:
		return err
	case <-z.w.ctx.Done():
		return ErrStopped
	}
}

// write has a write of a site done, and returns what became of it.
func (z *zone) write(ctx context.Context, s *site, a decide.Write) decide.Wrote {
	answer := make(chan decide.Wrote, 1)
	select {
	case z.asks <- ask{s, a.To, a.Bare, answer}:
	case <-ctx.Done():
		return decide.Wrote{Outcome: decide.Refused, Detail: "the watchdog is stopping"}
	}
	select {
	case wrote := <-answer:
		return wrote
	case <-ctx.Done():
		return decide.Wrote{Outcome: decide.Unsure, Detail: "the watchdog is stopping"}
	}
}

// gather takes what other sites want at the same moment.
func (z *zone) gather(ctx context.Context, first ask) []ask {
	list := []ask{first}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for {
		select {
		case a := <-z.asks:
			list = append(list, a)
		case <-timer.C:
			return list
		case <-ctx.Done():
			return list
		}
	}
}
