package api_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
)

const fileSecret = "a-secret-of-the-configuration-file"

// guarded is a rig that asks for tokens.
func guarded(t testing.TB, log *[]string) *rig {
	t.Helper()
	static, err := api.NewStaticToken("ops", fileSecret, api.ScopeWrite)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := api.NewStaticToken("grafana", strings.Repeat("g", 30), api.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, func(o *api.Options) {
		o.Auth = &api.Auth{Static: []api.StaticToken{static, reader}, Refused: func(source netip.Addr, reason string) {
			if log != nil {
				*log = append(*log, source.String()+" "+reason)
			}
		}}
	})
}

func bearer(secret string) string { return "Authorization: Bearer " + secret }

func TestTokens(t *testing.T) {
	r := guarded(t, nil)
	reads, writes := r.token("reader", "read", time.Time{}), r.token("writer", "write", time.Time{})
	late, soon := r.token("late", "write", time.Now().Add(-time.Second)), r.token("soon", "write", time.Now().Add(time.Hour))
	const get, post = "GET", "POST"
	cases := []struct {
		name   string
		method string
		header string
		status int
		code   string
	}{
		{"no token", get, "X: y", 401, "token_required"},
		{"another scheme", get, "Authorization: Basic b3BzOm9wcw==", 401, "token_invalid"},
		{"an unknown token", get, bearer("edge_api_" + strings.Repeat("0", 64)), 401, "token_invalid"},
		{"an empty token", get, "Authorization: Bearer ", 401, "token_invalid"},
		{"half a token", get, bearer(reads[:40]), 401, "token_invalid"},
		{"one that has expired", get, bearer(late), 401, "token_invalid"},
		{"one that will", get, bearer(soon), 200, ""},
		{"reading with read", get, bearer(reads), 200, ""},
		{"writing with read", post, bearer(reads), 403, "scope_insufficient"},
		{"writing with write", post, bearer(writes), 201, ""},
		{"reading with write", get, bearer(writes), 200, ""},
		{"the file's, in another case of the scheme", get, "Authorization: bearer " + fileSecret, 200, ""},
		{"writing with the file's read", post, bearer(strings.Repeat("g", 30)), 403, "scope_insufficient"},
		{"a gateway's token", get, bearer("edge_gw_" + strings.Repeat("0", 64)), 401, "token_invalid"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := r.at(t)
			path, body := "/edge/gateways", ""
			if c.method == post {
				body = fmt.Sprintf(`{"name":"g%d","dial":"10.0.0.2:443"}`, i)
			}
			a := r.want(c.status, c.method, path, body, c.header)
			if c.code != "" && read[problem](a).Code != c.code {
				t.Errorf("%s, want %s", a.body, c.code)
			}
			if challenge := a.header.Get("WWW-Authenticate"); (challenge != "") != (c.status >= 400) || challenge != "" && !strings.HasPrefix(challenge, "Bearer ") {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
			if c.status >= 400 && strings.Contains(string(a.body), "edge_api_") {
				t.Errorf("%s shows a token", a.body)
			}
		})
	}
	list := read[[]event.Event](r.want(200, get, "/edge/events", "", bearer(reads)))
	if len(list) != 1 || list[0].Actor != "token writer" {
		t.Errorf("the events are %+v", list)
	}
}

// TestEveryPathAsks: there is no path that a token is not asked for, and none that
// a token with the scope read changes.
func TestEveryPathAsks(t *testing.T) {
	r := guarded(t, nil)
	reads := r.token("reader", "read", time.Time{})
	paths := []string{"GET /edge/nothing", "GET /", "OPTIONS /edge/pools"}
	for _, op := range api.Operations() {
		paths = append(paths, op.Method+" "+strings.NewReplacer("{name}", "x", "{gateway}", "x", "{action}", "drain").Replace(op.Path))
	}
	for _, p := range paths {
		method, path, _ := strings.Cut(p, " ")
		r.want(401, method, path, "")
		if a := r.ask(method, path, "", bearer(reads)); a.status != 403 && method != "GET" && method != "OPTIONS" {
			t.Errorf("%s with a token to read: %d", p, a.status)
		}
	}
}

// TestTokenLife: a token is good at once, and void at once.
func TestTokenLife(t *testing.T) {
	r := guarded(t, nil)
	secret := read[api.NewToken](r.want(201, "POST", "/edge/tokens", `{"name":"ci","scope":"write"}`, bearer(fileSecret))).Secret
	if !strings.HasPrefix(secret, api.TokenPrefix) || len(secret) < 60 {
		t.Errorf("the token is %q", secret)
	}
	r.want(409, "POST", "/edge/tokens", `{"name":"ci","scope":"read"}`, bearer(secret))
	r.refused(409, "name_taken", "name", "POST", "/edge/tokens", `{"name":"ops","scope":"read"}`, bearer(secret))
	r.refused(409, "owned_by_file", "", "DELETE", "/edge/tokens/ops", "", bearer(secret))
	var names []string
	for _, token := range read[[]api.Token](r.want(200, "GET", "/edge/tokens", "", bearer(secret))) {
		names = append(names, token.Name+" "+token.Scope+" "+token.Owner)
	}
	if want := []string{"ci write api", "grafana read file", "ops write file"}; !slices.Equal(names, want) {
		t.Errorf("the tokens are %q, want %q", names, want)
	}
	r.want(204, "DELETE", "/edge/tokens/ci", "", bearer(secret))
	r.want(401, "GET", "/edge/tokens", "", bearer(secret))
}

func TestStaticTokens(t *testing.T) {
	cases := []struct{ name, secret, scope, says string }{
		{"ops", "short", "read", "want at least 24"},
		{"ops", strings.Repeat("x", 30), "admin", "want read or write"},
		{"Ops!", strings.Repeat("x", 30), "read", "token name"},
		{"ops", strings.Repeat("x", 30) + "\n", "read", "no header can carry"},
		{"ops", strings.Repeat("ü", 30), "read", "no header can carry"},
	}
	for _, c := range cases {
		_, err := api.NewStaticToken(c.name, c.secret, c.scope)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.secret) {
			t.Errorf("%q %q: %v, want %q", c.name, c.scope, err, c.says)
		}
	}
}

// TestWithoutDatabase: the file's tokens are good, and a wrong one is just wrong.
func TestWithoutDatabase(t *testing.T) {
	r := guarded(t, nil)
	r.fail = fleet.ErrNoStore
	r.want(200, "GET", "/edge/tokens", "", bearer(fileSecret))
	r.want(401, "GET", "/edge/tokens", "", bearer("wrong"))
	r.fail = fmt.Errorf("reading /var/lib/edge.db: damaged")
	r.want(200, "GET", "/edge/pools", "", bearer(fileSecret))
	r.want(500, "GET", "/edge/pools", "", bearer("wrong"))
}

// TestGuessing: ten wrong tokens a minute, by source.
func TestGuessing(t *testing.T) {
	var log []string
	source := netip.MustParseAddr("2001:db8::1")
	r := guarded(t, &log)
	r2 := newRig(t, func(o *api.Options) {
		o.Auth = &api.Auth{}
		o.Source = func(*http.Request) netip.Addr { return source }
	})
	good := r2.token("good", "read", time.Time{})
	for i := range 10 {
		r2.want(401, "GET", "/edge/pools", "", bearer(fmt.Sprint("wrong", i)))
	}
	a := r2.want(429, "GET", "/edge/pools", "", bearer(good))
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	source = netip.MustParseAddr("2001:db8::ffff") // the same network
	r2.want(429, "GET", "/edge/pools", "", bearer(good))
	source = netip.MustParseAddr("2001:db8:0:1::1") // another
	r2.want(200, "GET", "/edge/pools", "", bearer(good))
	for range 30 { // forgetting a token is not guessing
		r2.want(401, "GET", "/edge/pools", "")
	}
	r2.want(200, "GET", "/edge/pools", "", bearer(good))

	r.want(401, "GET", "/edge/pools", "", bearer("sesame"))
	r.want(401, "GET", "/edge/pools", "")
	if want := []string{"192.0.2.1 wrong token", "192.0.2.1 no token"}; !slices.Equal(log, want) {
		t.Errorf("the log has %q, want %q", log, want)
	}
}

func TestGuessingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := api.NewFailures()
		a := netip.MustParseAddr("192.0.2.7")
		for range 10 {
			f.Add(a, time.Now())
		}
		if wait := f.Wait(a, time.Now()); wait != time.Minute {
			t.Errorf("wait %v, want a minute", wait)
		}
		time.Sleep(time.Minute)
		if wait := f.Wait(a, time.Now()); wait != 0 {
			t.Errorf("wait %v a minute later", wait)
		}
	})
}

// TestManySources: a flood of addresses does not fill the memory, and does not
// make one that guesses innocent before its time.
func TestManySources(t *testing.T) {
	f, now := api.NewFailures(), time.Now()
	for i := range 20_000 {
		f.Add(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now.Add(time.Duration(i)))
	}
	if n := f.Len(); n > 4096 {
		t.Errorf("it remembers %d sources", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { f.Add(netip.MustParseAddr("::1"), now); f.Wait(netip.Addr{}, now) })
	}
	wg.Wait()
}
