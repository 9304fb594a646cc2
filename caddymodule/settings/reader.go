// Package settings turns the settings of an app into values, for apps that read them
// twice: when a Caddyfile is adapted, perhaps on another machine, and when the config
// loads. It knows placeholders and secrets, says where in the config a mistake is, and
// collects all mistakes. It also is the command line's way to the admin API.
//
//	r := settings.New(settings.ThisMachine)
//	r.In("peer", func() { listen = r.Need("listen", p.Listen) })
//	if err := r.Err(); err != nil {
//		return err // peer: listen: it is missing
//	}
//
// What only one app has to read stays there.
package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/secret"
)

// Reader turns settings into values, and collects all that is wrong with them. Each
// method takes the name of the setting. Use New.
type Reader struct {
	world   World
	where   []string // the block that is being read
	errs    []error
	notices []string
	later   bool
	seen    []string
}

// New returns a reader that may touch that much.
func New(w World) *Reader { return &Reader{world: w} }

// Err is all that was wrong, or nil.
func (r *Reader) Err() error { return errors.Join(r.errs...) }

// Later reports whether something is known only when the config loads. Then what was
// read is not whole.
func (r *Reader) Later() bool { return r.later }

// Notices are for the log.
func (r *Reader) Notices() []string { return r.notices }

// Seen is what placeholders and files held, in the order in which they were read. It
// has secrets.
func (r *Reader) Seen() []string { return r.seen }

// In reads a block.
func (r *Reader) In(block string, read func()) {
	r.where = append(r.where, block)
	read()
	r.where = r.where[:len(r.where)-1]
}

// Fail says that a setting is wrong.
func (r *Reader) Fail(setting string, err error) {
	if errors.Is(err, errLater) {
		r.later = true
		return
	}
	parts := append(slices.Clone(r.where), setting)
	r.errs = append(r.errs, fmt.Errorf("%s: %w", strings.Join(parts, ": "), err))
}

// Failf says that a setting is wrong.
func (r *Reader) Failf(setting, format string, args ...any) {
	r.Fail(setting, fmt.Errorf(format, args...))
}

// Known reports whether all placeholders of a text have a value.
func (r *Reader) Known(s string) bool {
	_, err := r.world.expand(s)
	return err == nil
}

// Text reads a text, which may be empty.
func (r *Reader) Text(setting, s string) string {
	out, err := r.world.expand(s)
	if err != nil {
		r.Fail(setting, err)
	}
	r.seen = append(r.seen, out)
	return out
}

// Need reads a text that must be there.
func (r *Reader) Need(setting, s string) string {
	if s == "" {
		r.Failf(setting, "it is missing")
	}
	return r.Text(setting, s)
}

// Texts reads a list.
func (r *Reader) Texts(setting string, list []string) (out []string) {
	for _, s := range list {
		out = append(out, r.Need(setting, s))
	}
	return out
}

// Path reads the name of a file or directory, which must not depend on where the
// process was started.
func (r *Reader) Path(setting, s string) string {
	out := r.Text(setting, s)
	if out != "" && !strings.HasPrefix(out, "/") {
		r.Failf(setting, "%q: want an absolute path", out)
	}
	return out
}

// Addr reads an address, if there is one.
func (r *Reader) Addr(setting, s string) (a netip.Addr) {
	s = r.Text(setting, s)
	if s == "" {
		return a
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		r.Failf(setting, "%q: want an address", s)
	}
	return a
}

// NeedAddr reads an address that must be there.
func (r *Reader) NeedAddr(setting, s string) netip.Addr {
	if s == "" {
		r.Failf(setting, "it is missing")
	}
	return r.Addr(setting, s)
}

// AddrPort reads an address and a port, if there are any.
func (r *Reader) AddrPort(setting, s string) (a netip.AddrPort) {
	s = r.Text(setting, s)
	if s == "" {
		return a
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		r.Failf(setting, "%q: want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443", s)
	}
	return a
}

// NeedAddrPort reads an address and a port that must be there.
func (r *Reader) NeedAddrPort(setting, s string) netip.AddrPort {
	if s == "" {
		r.Failf(setting, "it is missing")
	}
	return r.AddrPort(setting, s)
}

// Duration takes what may not be negative.
func (r *Reader) Duration(setting string, d caddy.Duration) time.Duration {
	if d < 0 {
		r.Failf(setting, "%s: want more than 0", time.Duration(d))
	}
	return time.Duration(d)
}

// Number takes what may not be negative.
func (r *Reader) Number(setting string, n int) int {
	if n < 0 {
		r.Failf(setting, "%d: want at least 1", n)
	}
	return n
}

// File reads a small file that a setting names.
func (r *Reader) File(path string) ([]byte, error) {
	data, err := r.world.file(path)
	r.seen = append(r.seen, string(data))
	return data, err
}

// Hidden is a value that may not be shown, not even in the error.
func (r *Reader) Hidden(setting, s string) secret.String {
	out, err := r.world.expand(s)
	switch {
	case errors.Is(err, errLater):
		return secret.New("later")
	case err != nil: // it names the placeholder alone
		r.Fail(setting, err)
	}
	r.seen = append(r.seen, out)
	return secret.New(out)
}

// Secret takes a secret from the first of three places that is given, and the default
// credential if none is. Giving two is a mistake. Without a default there may be none.
func (r *Reader) Secret(setting, literal, file, credential, otherwise string) (s secret.String) {
	given := 0
	for _, v := range []string{literal, file, credential} {
		if v != "" {
			given++
		}
	}
	switch {
	case given > 1:
		r.Failf(setting, "%s, %s_file and credential: want one of them", setting, setting)
	case literal != "":
		return r.Hidden(setting, literal)
	case file != "":
		s = r.secretFile(setting+"_file", file)
	case credential != "" || otherwise != "":
		if credential == "" {
			credential = otherwise
		}
		var err error
		if s, err = r.world.credential(r.Text("credential", credential)); err != nil {
			r.Failf(setting, "there is neither a %s nor a %s_file, and no credential: %w", setting, setting, err)
		}
	}
	r.seen = append(r.seen, s.Reveal())
	return s
}

func (r *Reader) secretFile(setting, path string) secret.String {
	path = r.Text(setting, path)
	if path == "" {
		return secret.New("later")
	}
	s, notice, err := r.world.secret(path)
	if err != nil {
		r.Fail(setting, err)
	}
	if notice != "" {
		r.notices = append(r.notices, notice)
	}
	return s
}
