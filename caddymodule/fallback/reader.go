package fallback

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/secret"
)

// world is what reading a config may touch.
type world struct {
	// expand replaces placeholders; one that has no value is an error.
	expand     func(string) (string, error)
	file       func(path string) ([]byte, error)
	secret     func(path string) (s secret.String, notice string, err error)
	credential func(name string) (secret.String, error)
}

// thisMachine is the world of a config that is about to be used.
var thisMachine = world{
	expand:     func(s string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(s, true, true) },
	file:       readSmall,
	secret:     secret.Read,
	credential: secret.Credential,
}

// onPaper is the world of a Caddyfile that is adapted, perhaps on another machine:
// there are no files, and what a placeholder stands for is known later.
var onPaper = world{
	expand: func(s string) (string, error) {
		if strings.Contains(s, "{") {
			return "", errLater
		}
		return s, nil
	},
	file:       func(string) ([]byte, error) { return nil, errLater },
	secret:     func(string) (secret.String, string, error) { return secret.New("later"), "", nil },
	credential: func(string) (secret.String, error) { return secret.New("later"), nil },
}

// errLater says that something is known only when the config loads.
var errLater = errors.New("not known before the config loads")

// maxFileBytes is as much as is read of a file that a config names.
const maxFileBytes = 1 << 20

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%s is %d bytes long: want at most %d", path, info.Size(), maxFileBytes)
	}
	return os.ReadFile(path)
}

// reader turns settings into values, and collects all that is wrong with them. Each
// method takes the name of the setting.
type reader struct {
	world
	where   []string // the block that is being read
	errs    []error
	notices []string
	later   bool     // something is not known yet
	seen    []string // what placeholders and files held
}

// in reads a block.
func (r *reader) in(block string, read func()) {
	r.where = append(r.where, block)
	read()
	r.where = r.where[:len(r.where)-1]
}

func (r *reader) fail(setting string, err error) {
	if errors.Is(err, errLater) {
		r.later = true
		return
	}
	parts := append(append([]string{}, r.where...), setting)
	r.errs = append(r.errs, fmt.Errorf("%s: %w", strings.Join(parts, ": "), err))
}

func (r *reader) failf(setting, format string, args ...any) {
	r.fail(setting, fmt.Errorf(format, args...))
}

func (r *reader) text(setting, s string) string {
	out, err := r.expand(s)
	if err != nil {
		r.fail(setting, err)
	}
	r.seen = append(r.seen, out)
	return out
}

func (r *reader) need(setting, s string) string {
	if s == "" {
		r.failf(setting, "it is missing")
	}
	return r.text(setting, s)
}

// texts reads a list.
func (r *reader) texts(setting string, list []string) (out []string) {
	for _, s := range list {
		out = append(out, r.need(setting, s))
	}
	return out
}

func (r *reader) addr(setting, s string) (a netip.Addr) {
	s = r.need(setting, s)
	if s == "" {
		return a
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		r.failf(setting, "%q: want an address", s)
	}
	return a
}

func (r *reader) addrPort(setting, s string) (a netip.AddrPort) {
	s = r.need(setting, s)
	if s == "" {
		return a
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		r.failf(setting, "%q: want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443", s)
	}
	return a
}

// path reads the name of a file or directory, which must not depend on where the
// process was started.
func (r *reader) path(setting, s string) string {
	out := r.text(setting, s)
	if out != "" && !strings.HasPrefix(out, "/") {
		r.failf(setting, "%q: want an absolute path", out)
	}
	return out
}

// duration takes what may not be negative.
func (r *reader) duration(setting string, d caddy.Duration) time.Duration {
	if d < 0 {
		r.failf(setting, "%s: want more than 0", time.Duration(d))
	}
	return time.Duration(d)
}

// number takes what may not be negative.
func (r *reader) number(setting string, n int) int {
	if n < 0 {
		r.failf(setting, "%d: want at least 1", n)
	}
	return n
}

// hidden is a value that may not be shown, not even in the error.
func (r *reader) hidden(setting, s string) secret.String {
	out, err := r.expand(s)
	switch {
	case errors.Is(err, errLater):
		return secret.New("later")
	case err != nil: // it names the placeholder alone
		r.fail(setting, err)
	}
	r.seen = append(r.seen, out)
	return secret.New(out)
}

// token takes a token from the first of three places that is given, and the default
// credential if none is. Giving two is a mistake.
func (r *reader) token(z *Zone) (s secret.String) {
	given := 0
	for _, v := range []string{z.Token, z.TokenFile, z.Credential} {
		if v != "" {
			given++
		}
	}
	switch {
	case given > 1:
		r.failf("token", "token, token_file and credential: want one of them")
	case z.Token != "":
		return r.hidden("token", z.Token)
	case z.TokenFile != "":
		s = r.secretFile(z.TokenFile)
	default:
		name := defaultCredential
		if z.Credential != "" {
			name = z.Credential
		}
		var err error
		if s, err = r.credential(r.text("credential", name)); err != nil {
			r.failf("token", "there is neither a token nor a token_file, and no credential: %w", err)
		}
	}
	r.seen = append(r.seen, s.Reveal())
	return s
}

// defaultCredential is the systemd credential with the token.
const defaultCredential = "cf_token"

func (r *reader) secretFile(path string) secret.String {
	path = r.text("token_file", path)
	if path == "" {
		return secret.New("later")
	}
	s, notice, err := r.secret(path)
	if err != nil {
		r.fail("token_file", err)
	}
	if notice != "" {
		r.notices = append(r.notices, notice)
	}
	return s
}
