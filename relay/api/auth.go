package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/store"
)

// The scopes of a token. Write includes read.
const (
	ScopeRead  = "read"
	ScopeWrite = "write"
)

// Auth says who may use the API. A request shows a token as "Authorization:
// Bearer <token>". Tokens made through the API are good at once and void at once.
type Auth struct {
	// Static tokens are those of the configuration.
	Static []StaticToken
	// Refused is told of each request that is turned away, with one of the
	// reasons below. It is never told what was shown. Default: nobody is.
	Refused func(source netip.Addr, reason string)

	failures failures
	refused  atomic.Uint64
}

// Why a request is turned away.
const (
	RefusedNoToken = "no token"
	RefusedWrong   = "wrong token"
	RefusedTooMany = "too many wrong tokens" // and it was not looked at
)

// StaticToken is one that the configuration names. Use NewStaticToken.
type StaticToken struct {
	Name  string
	Scope string
	hash  [sha256.Size]byte
}

// MinSecret is how many characters a token of the configuration must have: it is
// guessed at over the network.
const MinSecret = 24

// NewStaticToken keeps the hash of a secret. Its errors do not hold it.
func NewStaticToken(name, secret, scope string) (StaticToken, error) {
	switch {
	case !validName(name):
		return StaticToken{}, fmt.Errorf("token name %q: want lower case letters, digits, dots, dashes", name)
	case scope != ScopeRead && scope != ScopeWrite:
		return StaticToken{}, fmt.Errorf("token %s: scope %q: want read or write", name, scope)
	case len(secret) < MinSecret:
		return StaticToken{}, fmt.Errorf("token %s: its secret has %d characters: want at least %d", name, len(secret), MinSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return StaticToken{}, fmt.Errorf("token %s: its secret has a space or a character that no header can carry", name)
	}
	return StaticToken{name, scope, sha256.Sum256([]byte(secret))}, nil
}

// Failures returns how many requests were turned away.
func (a *Auth) Failures() uint64 { return a.refused.Load() }

// static tells whether the configuration has a token of that name.
func (a *Auth) static(name string) bool {
	return a != nil && slices.ContainsFunc(a.Static, func(t StaticToken) bool { return t.Name == name })
}

// identity is who shows a token.
type identity struct {
	name  string
	write bool
}

type identityKey struct{}

// challenge is what a client without a good token is told (RFC 6750, section 3).
const challenge = `Bearer realm="edgeward"`

// admit finds who makes a request. A source that was wrong too often waits, and
// is not even looked at meanwhile.
func (a *api) admit(r *http.Request) (identity, error) {
	auth, source, now := a.o.Auth, a.o.Source(r), time.Now()
	if wait := auth.failures.wait(source, now); wait > 0 {
		auth.refuse(source, RefusedTooMany)
		return identity{}, problem(http.StatusTooManyRequests, tooManyFailures, "too many requests with a wrong token came from your address").
			with("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
	}
	text := r.Header.Get("Authorization")
	if text == "" {
		auth.refuse(source, RefusedNoToken)
		return identity{}, problem(http.StatusUnauthorized, tokenRequired, `want the header "Authorization: Bearer <token>"`).
			with("WWW-Authenticate", challenge)
	}
	who, err := a.identify(r.Context(), text, now)
	if err != nil && errors.Is(err, errBadToken) {
		auth.failures.add(source, now)
		auth.refuse(source, RefusedWrong)
		return identity{}, problem(http.StatusUnauthorized, tokenInvalid, "the token is not known, revoked or expired").
			with("WWW-Authenticate", challenge+`, error="invalid_token"`)
	}
	if err != nil {
		a.o.Log.Error("admin API", "doing", "reading tokens", "error", err)
		return identity{}, internal()
	}
	return who, nil
}

func (a *Auth) refuse(source netip.Addr, reason string) {
	a.refused.Add(1)
	if a.Refused != nil {
		a.Refused(source, reason)
	}
}

var errBadToken = errors.New("bad token")

// identify looks a token up. All tokens are compared, in constant time.
func (a *api) identify(ctx context.Context, header string, now time.Time) (who identity, err error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return who, errBadToken
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	found := false
	for _, t := range a.o.Auth.Static {
		if subtle.ConstantTimeCompare(t.hash[:], hash[:]) == 1 {
			who, found = identity{t.Name, t.Scope == ScopeWrite}, true
		}
	}
	kept, err := a.kept(ctx)
	if err != nil && !found && !errors.Is(err, fleet.ErrNoStore) {
		return who, err
	}
	for _, t := range kept {
		if subtle.ConstantTimeCompare(t.Hash[:], hash[:]) == 1 && (t.Expires.IsZero() || now.Before(t.Expires)) {
			who, found = identity{t.Name, t.Scope == ScopeWrite}, true
		}
	}
	if !found {
		return who, errBadToken
	}
	return who, nil
}

// kept returns the tokens of the database. They are read for each request, so
// that a revoked one is void at once.
func (a *api) kept(ctx context.Context) ([]store.APIToken, error) {
	if a.o.Fleet == nil {
		return nil, nil
	}
	f := a.o.Fleet()
	if f == nil {
		return nil, nil
	}
	return f.APITokens(ctx)
}

// mayCall holds a token to its scope.
func (c *call) mayCall() error {
	who, ok := c.r.Context().Value(identityKey{}).(identity)
	if ok && c.op.writes() && !who.write {
		return problem(http.StatusForbidden, scopeInsufficient, "the token %s has the scope read: this needs write", who.name).
			with("WWW-Authenticate", challenge+`, error="insufficient_scope", scope="write"`)
	}
	return nil
}

// stillIn reports whether the token of a stream is still good.
func (c *call) stillIn() bool {
	if c.api.o.Auth == nil {
		return true
	}
	_, err := c.api.identify(c.ctx(), c.r.Header.Get("Authorization"), time.Now())
	return err == nil
}
