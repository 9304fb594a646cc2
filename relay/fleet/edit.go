package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

// Edit changes what the database has. Change gets all that is configured and
// returns what it should be, and what was done. It is kept, then given to the
// relay, then told; if one of them fails all is as it was. Errors: those of
// change, *catalog.Error for a port that is taken, ErrNoStore, ErrIdle.
func (f *Fleet) Edit(ctx context.Context, actor string,
	change func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error),
) (*catalog.Catalog, error) {
	if f.o.Store == nil {
		return nil, errors.Join(ErrNoStore, f.o.NoStore)
	}
	f.editing.Lock()
	defer f.editing.Unlock()
	if len(f.declared) == 0 {
		return nil, ErrIdle
	}
	before := f.Catalog()
	after, did, err := change(before)
	if err != nil {
		return nil, err
	}
	if err := f.declared[len(f.declared)-1].probe(before, after); err != nil {
		return nil, err
	}
	if err := f.keep(ctx, after, f.sign(actor, did)); err != nil {
		return nil, err
	}
	return f.Catalog(), nil
}

// sign says when events happened, and who asked.
func (f *Fleet) sign(actor string, did []event.Event) []event.Event {
	for i := range did {
		did[i].At, did[i].Actor = f.o.Now(), actor
	}
	return did
}

// keep commits what after has of the database's, and puts it in force.
func (f *Fleet) keep(ctx context.Context, after *catalog.Catalog, did []event.Event) error {
	// What the relay would refuse is found before it is written.
	config, err := f.declared[len(f.declared)-1].Declared.config(after)
	if err != nil {
		return fmt.Errorf("making the relay's config: %w", err)
	}
	was, is := f.made(), made(after)
	kept, err := f.o.Store.Commit(ctx, was, is, did)
	if errors.Is(err, store.ErrStale) {
		f.reread(ctx)
	}
	if err != nil {
		return fmt.Errorf("writing the database: %w", err)
	}
	if err := f.put(after, config); err != nil {
		if _, back := f.o.Store.Commit(context.WithoutCancel(ctx), is, was, nil); back != nil {
			f.log.Error("taking back a change that the relay refused", "error", back)
		}
		return fmt.Errorf("giving the relay its config: %w", err)
	}
	f.forget(was, is)
	f.news.kept(kept)
	return nil
}

// reread puts in force what somebody else has written to the database: without it
// no change would be taken any more. The caller holds editing.
func (f *Fleet) reread(ctx context.Context) {
	made, err := f.o.Store.Load(ctx)
	if err == nil {
		made, err = catalog.Merge(f.declared[len(f.declared)-1].Catalog, made)
	}
	if err == nil {
		err = f.enforce(made)
	}
	if err != nil {
		f.log.Error("taking what somebody else has written to the database", "error", err)
		return
	}
	f.log.Warn("somebody else has written to the database: it is in force now")
}

// forget drops what belongs to gateways and routes that are gone. The database has
// done so with the commit, and to what a new gateway's name had before it.
func (f *Fleet) forget(was, is *catalog.Catalog) {
	f.mu.Lock()
	for _, name := range slices.Concat(gone(was.Gateways, is.Gateways), gone(is.Gateways, was.Gateways)) {
		f.dropToken(name)
		delete(f.lans, name)
	}
	f.mu.Unlock()
	for _, name := range gone(was.Routes, is.Routes) {
		f.o.Relay.ForgetRoute(name)
	}
	gateways, pools := gone(was.Gateways, is.Gateways), gone(was.Pools, is.Pools)
	for _, name := range gateways {
		pools = append(pools, catalog.PinPool(name))
	}
	f.o.Relay.Monitor.Forget(gateways, pools)
}

// gone are the names that are no more.
func gone[T any](was, is map[string]T) (names []string) {
	for name := range was {
		if _, still := is[name]; !still {
			names = append(names, name)
		}
	}
	return names
}
