package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/store"
)

// Authenticate finds the gateway that a token belongs to. It implements
// link.Relay.
func (f *Fleet) Authenticate(token string) (gateway string, err error) {
	hash := link.Hash(token)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.declared); n > 0 {
		for name, declared := range f.declared[n-1].Tokens {
			if declared == hash {
				return name, nil
			}
		}
	}
	gateway, ok := f.tokens[hash]
	if !ok || f.fileToken(gateway) {
		return "", link.ErrForbidden
	}
	if _, known := f.merged.Gateways[gateway]; !known {
		return "", link.ErrForbidden
	}
	return gateway, nil
}

// fileToken tells whether the file has a gateway's token. The caller holds mu.
func (f *Fleet) fileToken(gateway string) bool {
	n := len(f.declared)
	if n == 0 {
		return false
	}
	_, found := f.declared[n-1].Tokens[gateway]
	return found
}

// mayEnrol tells why a gateway's token cannot be changed here.
func (f *Fleet) mayEnrol(gateway string) error {
	if f.o.Store == nil {
		return errors.Join(ErrNoStore, f.o.NoStore)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, found := f.merged.Gateways[gateway]; !found {
		return &catalog.Error{
			Class: catalog.NotFound, Code: catalog.GatewayNotFound, Field: "gateway", Detail: fmt.Sprintf("gateway %s is not there", gateway),
		}
	}
	if f.fileToken(gateway) {
		return &catalog.Error{
			Class: catalog.Conflict, Code: catalog.OwnedByFile, Field: "token",
			Detail: fmt.Sprintf("the token of gateway %s is in the file: change it there", gateway),
		}
	}
	return nil
}

// MakeCode returns a code with which one agent can enrol as the gateway, once and
// soon. Codes given before stay good until they expire.
func (f *Fleet) MakeCode(ctx context.Context, gateway, actor string) (code string, expires time.Time, err error) {
	if err := f.mayEnrol(gateway); err != nil {
		return "", expires, err
	}
	code, expires = link.NewCode(), f.o.Now().Add(link.CodeTTL)
	if err := f.o.Store.AddCode(ctx, link.Hash(link.NormalizeCode(code)), gateway, expires); err != nil {
		return "", expires, fmt.Errorf("keeping the code: %w", err)
	}
	f.did(actor, event.Event{Kind: event.CodeMade, Gateway: gateway})
	return code, expires, nil
}

// Pair trades a code for a token. The gateway's old one is void at once. It
// implements link.Relay.
func (f *Fleet) Pair(ctx context.Context, code string, from netip.Addr) (link.PairAnswer, error) {
	if f.o.Store == nil {
		return link.PairAnswer{}, errors.Join(ErrNoStore, f.o.NoStore)
	}
	gateway, err := f.o.Store.TakeCode(ctx, link.Hash(link.NormalizeCode(code)), f.o.Now())
	if errors.Is(err, store.ErrNotFound) {
		return link.PairAnswer{}, link.ErrForbidden
	}
	if err != nil {
		return link.PairAnswer{}, fmt.Errorf("looking up the code: %w", err)
	}
	if err := f.mayEnrol(gateway); err != nil {
		return link.PairAnswer{}, link.ErrForbidden // it has gone since
	}
	token, err := f.newToken(ctx, gateway)
	if err != nil {
		return link.PairAnswer{}, err
	}
	f.expect(gateway)
	f.did(from.String(), event.Event{Kind: event.GatewayPaired, Gateway: gateway})
	return link.PairAnswer{Gateway: gateway, Token: token}, nil
}

// expect notes that an agent begins, which has confirmed nothing yet.
func (f *Fleet) expect(gateway string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, err := f.agentOf(gateway); err == nil && !a.heard {
		a.heard = true
		f.planAvoidOf(gateway)
	}
}

// newToken makes a token, and voids the one before it.
func (f *Fleet) newToken(ctx context.Context, gateway string) (string, error) {
	token := link.NewToken()
	hash := link.Hash(token)
	f.enrolling.Lock()
	defer f.enrolling.Unlock()
	if err := f.o.Store.SetGatewayToken(ctx, gateway, hash); err != nil {
		return "", fmt.Errorf("keeping the token: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropToken(gateway)
	f.tokens[hash] = gateway
	return token, nil
}

// dropToken forgets a gateway's token. The caller holds mu.
func (f *Fleet) dropToken(gateway string) {
	for hash, name := range f.tokens {
		if name == gateway {
			delete(f.tokens, hash)
		}
	}
}

// Rotate is RotateToken for the agent itself. It implements link.Relay.
func (f *Fleet) Rotate(ctx context.Context, gateway string) (link.RotateAnswer, error) {
	token, err := f.RotateToken(ctx, gateway, "gateway "+gateway)
	return link.RotateAnswer{Token: token}, err
}

// RotateToken returns a new token for a gateway; the old one is void at once.
func (f *Fleet) RotateToken(ctx context.Context, gateway, actor string) (token string, err error) {
	if err := f.mayEnrol(gateway); err != nil {
		return "", err
	}
	if token, err = f.newToken(ctx, gateway); err != nil {
		return "", err
	}
	f.did(actor, event.Event{Kind: event.TokenRotated, Gateway: gateway})
	return token, nil
}

// RevokeToken makes a gateway's token void at once.
func (f *Fleet) RevokeToken(ctx context.Context, gateway, actor string) error {
	if err := f.mayEnrol(gateway); err != nil {
		return err
	}
	f.enrolling.Lock()
	defer f.enrolling.Unlock()
	if err := f.o.Store.RevokeGatewayToken(ctx, gateway); err != nil {
		return fmt.Errorf("voiding the token: %w", err)
	}
	f.mu.Lock()
	f.dropToken(gateway)
	f.mu.Unlock()
	f.did(actor, event.Event{Kind: event.TokenRevoked, Gateway: gateway})
	return nil
}

// did tells of what a person has done.
func (f *Fleet) did(actor string, ev event.Event) { f.news.add(f.sign(actor, []event.Event{ev})...) }

// APITokens returns the tokens of the admin API, without their secrets.
func (f *Fleet) APITokens(ctx context.Context) ([]store.APIToken, error) {
	if f.o.Store == nil {
		return nil, errors.Join(ErrNoStore, f.o.NoStore)
	}
	return f.o.Store.APITokens(ctx)
}

// AddAPIToken keeps one.
func (f *Fleet) AddAPIToken(ctx context.Context, t store.APIToken) error {
	if f.o.Store == nil {
		return errors.Join(ErrNoStore, f.o.NoStore)
	}
	return f.o.Store.AddAPIToken(ctx, t)
}

// DeleteAPIToken makes one void at once.
func (f *Fleet) DeleteAPIToken(ctx context.Context, name string) error {
	if f.o.Store == nil {
		return errors.Join(ErrNoStore, f.o.NoStore)
	}
	return f.o.Store.DeleteAPIToken(ctx, name)
}
