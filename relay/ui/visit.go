package ui

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
)

// visit is one request for a page.
type visit struct {
	ui      *ui
	w       http.ResponseWriter
	r       *http.Request
	session *session // nil where nobody has to log in
}

// maxForm bounds a form: some thousands of routes that are moved.
const maxForm = 4 << 20

// open serves a page to everybody.
func (u *ui) open(serve func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{ui: u, w: w, r: r}
		err := v.readForm()
		if err == nil {
			err = serve(v)
		}
		if err != nil {
			v.fail(err)
		}
	}
}

// page serves a page to who may see it.
func (u *ui) page(serve func(*visit) error) http.HandlerFunc {
	return u.open(func(v *visit) error {
		if u.o.Login {
			if v.session = u.sessions.of(v.r); v.session == nil {
				return v.toLogin()
			}
		}
		return serve(v)
	})
}

// writers serves a page to who may change something.
func writers(serve func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if !v.mayWrite() {
			return refusal(http.StatusForbidden, "scope_insufficient", "you are logged in with a token that may only read")
		}
		return serve(v)
	}
}

func (v *visit) mayWrite() bool { return v.session == nil || v.session.write }

func (v *visit) ctx() context.Context { return v.r.Context() }

func (v *visit) posted() bool { return v.r.Method == http.MethodPost }

// name is the thing that the path names.
func (v *visit) name() string { return v.r.PathValue("name") }

func (v *visit) readForm() error {
	if !v.posted() {
		return nil
	}
	kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return refusal(http.StatusUnsupportedMediaType, "media_type_unsupported", "want a form")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	err = v.r.ParseForm()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refusal(http.StatusRequestEntityTooLarge, "body_too_large", "the form is too large")
	}
	if err != nil {
		return refusal(http.StatusBadRequest, "body_invalid", "the form cannot be read")
	}
	return nil
}

// token is what a form of this session must carry. Browsers that tell where a
// request comes from are held to that already; this is for those that do not.
func (v *visit) token() string {
	mac := hmac.New(sha256.New, v.ui.key[:])
	if v.session != nil {
		mac.Write(v.session.key[:])
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// checkToken is asked before anything is changed.
func (v *visit) checkToken() error {
	if hmac.Equal([]byte(v.r.PostForm.Get("token")), []byte(v.token())) {
		return nil
	}
	return refusal(http.StatusForbidden, "form_outdated", "this form is from before a restart or from another session: look it over and send it again")
}

func (v *visit) redirect(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// link is the path of a page: names are the parts of it.
func link(parts ...string) string {
	var path strings.Builder
	path.WriteString(Root)
	for i, part := range parts {
		if i > 0 {
			path.WriteString("/")
		}
		path.WriteString(url.PathEscape(part))
	}
	return path.String()
}

func refusal(status int, code catalog.Code, format string, args ...any) *api.Problem {
	return &api.Problem{Status: status, Title: http.StatusText(status), Code: code, Detail: fmt.Sprintf(format, args...)}
}

func nothing(format string, args ...any) *api.Problem {
	return refusal(http.StatusNotFound, "not_found", format, args...)
}

// fail shows why there is no page.
func (v *visit) fail(err error) {
	p, ok := errors.AsType[*api.Problem](err)
	switch {
	case !ok && v.ctx().Err() != nil:
		return // nobody waits for it
	case !ok:
		v.ui.o.Log.Error("web page", "method", v.r.Method, "path", v.r.URL.Path, "error", err)
		p = refusal(http.StatusInternalServerError, "internal_error", "something is wrong inside: see the log")
	case p.Status == http.StatusUnauthorized && v.ui.o.Login:
		v.ui.sessions.end(v.session) // its token is revoked or expired
		_ = v.toLogin()
		return
	}
	if err := v.render(p.Status, "failure", &screen{Title: p.Title, Problem: p, Data: p.Code == "not_running"}); err != nil {
		v.ui.o.Log.Error("web page", "page", "failure", "error", err)
	}
}
