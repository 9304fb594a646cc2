package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
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
	was, is := f.made(), made(after)
	kept, err := f.o.Store.Commit(ctx, was, is, did)
	if err != nil {
		return fmt.Errorf("writing the database: %w", err)
	}
	if err := f.enforce(after); err != nil {
		if _, back := f.o.Store.Commit(context.WithoutCancel(ctx), is, was, nil); back != nil {
			f.log.Error("taking back a change that the relay refused", "error", back)
		}
		return fmt.Errorf("giving the relay its config: %w", err)
	}
	f.forget(context.WithoutCancel(ctx), was, is)
	f.news.kept(kept)
	return nil
}

// forget voids the tokens of gateways that are gone.
func (f *Fleet) forget(ctx context.Context, was, is *catalog.Catalog) {
	for name := range was.Gateways {
		if _, still := is.Gateways[name]; still {
			continue
		}
		if err := f.o.Store.RevokeGatewayToken(ctx, name); err != nil {
			f.log.Error("voiding the token of a gateway that is gone", "gateway", name, "error", err)
		}
		f.mu.Lock()
		f.dropToken(name)
		delete(f.agents, name)
		delete(f.lans, name)
		f.mu.Unlock()
	}
}
