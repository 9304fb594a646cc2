package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/api"
)

const (
	cookieName = "edge_session"
	// longest is how long a session lasts, idle how long one that is not used.
	longest = 12 * time.Hour
	idle    = time.Hour
	// maxSessions bounds the memory; the one that was not used for longest goes.
	maxSessions = 256
)

// session is who has logged in. It knows the token, so that the API decides for
// each request: one that is revoked is void at once.
type session struct {
	key    [sha256.Size]byte // the hash of what the cookie holds
	secret secret.String
	write  bool
	begun  time.Time
	over   context.Context // ends with it
	end    context.CancelFunc

	seen time.Time // guarded by sessions.mu
}

// within ends with the session.
func (s *session) within(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(s.over, cancel)
	return ctx, func() { stop(); cancel() }
}

// sessions are all of them, by the hash of their cookie: looking one up tells
// nothing about the others.
type sessions struct {
	mu   sync.Mutex
	held map[[sha256.Size]byte]*session
}

// of finds the session of a request, or nil.
func (s *sessions) of(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.held[sha256.Sum256([]byte(c.Value))]
	if one == nil {
		return nil
	}
	if now.Sub(one.begun) >= longest || now.Sub(one.seen) >= idle {
		s.drop(one)
		return nil
	}
	one.seen = now
	return one
}

// begin makes a session, and returns what its cookie holds.
func (s *sessions) begin(token string, write bool) (id string) {
	id = rand.Text()
	now := time.Now()
	one := &session{key: sha256.Sum256([]byte(id)), secret: secret.New(token), write: write, begun: now, seen: now}
	one.over, one.end = context.WithDeadline(context.Background(), now.Add(longest))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[[sha256.Size]byte]*session{}
	}
	if len(s.held) >= maxSessions {
		s.drop(s.oldest())
	}
	s.held[one.key] = one
	return id
}

// end ends a session, if there is one.
func (s *sessions) end(one *session) {
	if one == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(one)
}

// drop forgets a session. The caller holds mu.
func (s *sessions) drop(one *session) {
	if s.held[one.key] == one {
		delete(s.held, one.key)
		one.end()
	}
}

func (s *sessions) oldest() (first *session) {
	for _, one := range s.held {
		if first == nil || one.seen.Before(first.seen) {
			first = one
		}
	}
	return first
}

// setCookie gives the browser a session, or takes it.
func (v *visit) setCookie(id string, age time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/edge/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// toLogin asks who it is, and leads back.
func (v *visit) toLogin() error {
	if v.r.PathValue("stream") != "" { // a script asks, and cannot type
		http.Error(v.w, "log in first", http.StatusUnauthorized)
		return nil
	}
	next := url.Values{}
	if v.r.Method == http.MethodGet && v.r.URL.Path != Root {
		next.Set("next", v.r.URL.RequestURI())
	}
	return v.redirect(strings.TrimSuffix(link("login")+"?"+next.Encode(), "?"))
}

func showLogin(v *visit) error {
	if !v.ui.o.Login {
		return v.redirect(Root)
	}
	return v.render(http.StatusOK, "login", &screen{Title: "Log in", Bare: true, Data: v.r.URL.Query().Get("next")})
}

// login trades a token for a session.
func login(v *visit) error {
	if !v.ui.o.Login {
		return v.redirect(Root)
	}
	next := v.r.PostForm.Get("next")
	token := strings.TrimSpace(v.r.PostForm.Get("secret"))
	write, err := v.scope(token)
	if p, ok := errors.AsType[*api.Problem](err); ok {
		p.Field = "secret"
		return v.render(p.Status, "login", &screen{Title: "Log in", Bare: true, Problem: p, Data: next})
	}
	if err != nil {
		return err
	}
	v.ui.sessions.end(v.ui.sessions.of(v.r)) // whoever was here before
	v.setCookie(v.ui.sessions.begin(token, write), longest)
	return v.redirect(here(next))
}

// scope finds out what a token is good for, by asking for a change that has no
// body: one that may only read is refused before the missing body is.
func (v *visit) scope(token string) (write bool, err error) {
	if err := v.checkToken(); err != nil {
		return false, err
	}
	r, err := v.request(http.MethodPost, "/edge/tokens", nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	_, err = v.answer(r)
	p, ok := errors.AsType[*api.Problem](err)
	switch {
	case err == nil || !ok:
		return false, errors.Join(errors.New("the API did not say what the token is good for"), err)
	case p.Code == "scope_insufficient":
		return false, nil
	case p.Code == "media_type_unsupported", p.Code == "not_running":
		return true, nil
	}
	return false, p
}

// here is where to go after the login: a page of ours, whatever was asked for.
// Nothing but a path and a query is taken from it.
func here(next string) string {
	u, err := url.Parse(next)
	if err != nil || !strings.HasPrefix(u.Path, Root) || strings.ContainsAny(next, "\\\r\n") {
		return Root
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

func logout(v *visit) error {
	if err := v.checkToken(); err != nil {
		return err
	}
	v.ui.sessions.end(v.session)
	v.setCookie("", -time.Second)
	return v.redirect(link("login"))
}
