package api

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/store"
)

// TokenPrefix begins every token made here, so that one is known when seen.
const TokenPrefix = "edge_api_"

// newSecret makes a token: 256 random bits.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return TokenPrefix + hex.EncodeToString(b[:])
}

// Token is a token of this API, without its secret.
type Token struct {
	Name    string    `json:"name"`
	Scope   string    `json:"scope"`
	Owner   string    `json:"owner"` // file or api
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // missing: never
	Expired bool      `json:"expired,omitzero"`
}

// NewToken is a token with its secret, shown once.
type NewToken struct {
	Token
	Secret string `json:"token"`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name  string `json:"name"`
	Scope string `json:"scope"` // read or write
	// Expires is when it is void. Default: never.
	Expires time.Time `json:"expires,omitzero"`
}

func (c *call) tokens() ([]Token, error) {
	kept, err := c.fleet.APITokens(c.ctx())
	if err != nil && !errors.Is(err, fleet.ErrNoStore) {
		return nil, err
	}
	list := []Token{}
	for _, t := range kept {
		expired := !t.Expires.IsZero() && !time.Now().Before(t.Expires)
		list = append(list, Token{t.Name, t.Scope, catalog.API.String(), t.Created, t.Expires, expired})
	}
	if auth := c.api.o.Auth; auth != nil {
		for _, t := range auth.Static {
			list = append(list, Token{Name: t.Name, Scope: t.Scope, Owner: catalog.File.String()})
		}
	}
	slices.SortFunc(list, func(a, b Token) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func listTokens(c *call) error {
	list, err := c.tokens()
	if err != nil {
		return err
	}
	return page(c, list, func(t Token) string { return t.Name })
}

func getToken(c *call) error {
	list, err := c.tokens()
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Name == c.name() {
			return c.answer(t)
		}
	}
	return noToken(c.name())
}

func noToken(name string) *Problem {
	return problem(http.StatusNotFound, tokenNotFound, "token %s: not found", name)
}

func createToken(c *call) error {
	var sent TokenRequest
	if err := body(c, &sent); err != nil {
		return err
	}
	now := time.Now()
	if err := sent.check(now); err != nil {
		return err
	}
	secret := newSecret()
	t := store.APIToken{Name: sent.Name, Scope: sent.Scope, Created: now, Expires: sent.Expires, Hash: sha256.Sum256([]byte(secret))}
	if c.api.o.Auth.static(sent.Name) {
		return tokenTaken(sent.Name)
	}
	if err := c.fleet.AddAPIToken(c.ctx(), t); err != nil {
		if errors.Is(err, store.ErrExists) {
			return tokenTaken(sent.Name)
		}
		return err
	}
	c.w.Header().Set("Location", "/edge/tokens/"+url.PathEscape(sent.Name))
	return c.once(NewToken{Token{t.Name, t.Scope, catalog.API.String(), t.Created, t.Expires, false}, secret})
}

func tokenTaken(name string) *Problem {
	return problem(http.StatusConflict, catalog.NameTaken, "there is a token %s already", name).at("name")
}

func (t TokenRequest) check(now time.Time) error {
	switch {
	case t.Name == "":
		return problem(http.StatusBadRequest, catalog.NameRequired, "want a name").at("name")
	case !validName(t.Name):
		return problem(http.StatusBadRequest, catalog.NameInvalid, "name %q: want up to 63 lower case letters, digits, dots, dashes", t.Name).at("name")
	case t.Scope != ScopeRead && t.Scope != ScopeWrite:
		return problem(http.StatusBadRequest, invalidScope, "scope %q: want read or write", t.Scope).at("scope")
	case !t.Expires.IsZero() && !t.Expires.After(now):
		return problem(http.StatusBadRequest, invalidExpiry, "it would have expired already").at("expires")
	case t.Expires.Year() > lastYear:
		return problem(http.StatusBadRequest, invalidExpiry, "it is too far away: leave it out for never").at("expires")
	}
	return nil
}

// lastYear is well within what the store can keep.
const lastYear = 2200

func deleteToken(c *call) error {
	if c.api.o.Auth.static(c.name()) {
		return problem(http.StatusConflict, catalog.OwnedByFile, "the token %s is in the configuration file: remove it there", c.name())
	}
	err := c.fleet.DeleteAPIToken(c.ctx(), c.name())
	if errors.Is(err, store.ErrNotFound) {
		return noToken(c.name())
	}
	if err != nil {
		return err
	}
	return c.done()
}
