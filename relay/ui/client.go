package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/edgeward/edgeward/relay/api"
)

// recorder keeps an answer of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// get reads something from the API. Errors are *api.Problem, but for our own.
func get[T any](v *visit, path string) (answer T, err error) {
	body, err := v.ask(http.MethodGet, path, nil, "")
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("reading the API's answer from %s: %w", path, err)
	}
	return answer, nil
}

// send changes something: nothing is without a form that this page has made. The
// revision, if there is one, is that of what the form was filled with.
func (v *visit) send(method, path string, body any, revision string) ([]byte, error) {
	if err := v.checkToken(); err != nil {
		return nil, err
	}
	return v.ask(method, path, body, revision)
}

// ask makes a request to the API as who is logged in.
func (v *visit) ask(method, path string, body any, revision string) ([]byte, error) {
	r, err := v.request(method, path, body)
	if err != nil {
		return nil, err
	}
	if revision != "" {
		r.Header.Set("If-Match", `"`+revision+`"`)
	}
	return v.answer(r)
}

func (v *visit) answer(r *http.Request) ([]byte, error) {
	w := &recorder{header: http.Header{}}
	v.ui.o.API.ServeHTTP(w, r)
	if w.status < 400 {
		return w.body.Bytes(), nil
	}
	p := &api.Problem{}
	if err := json.Unmarshal(w.body.Bytes(), p); err != nil || p.Status != w.status {
		return nil, fmt.Errorf("the API answered %s %s with %d and no problem document", r.Method, r.URL.Path, w.status)
	}
	return nil, p
}

// request is for the API what this visit is for us: from the same client, over the
// same connection. What a browser adds to it stays here.
func (v *visit) request(method, path string, body any) (*http.Request, error) {
	at, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	r := v.r.Clone(v.ctx())
	r.Method, r.URL, r.RequestURI, r.Header = method, at, path, http.Header{}
	r.Form, r.PostForm, r.Body, r.ContentLength = nil, nil, http.NoBody, 0
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		r.Header.Set("Content-Type", "application/json")
	}
	if v.session != nil {
		r.Header.Set("Authorization", "Bearer "+v.session.secret.Reveal())
	}
	return r, nil
}

// live passes on a stream of the API, which takes no cookie.
func live(v *visit) error {
	path := map[string]string{"events": "/edge/events?watch=1", "snapshot": "/edge/snapshot?watch=1"}[v.r.PathValue("stream")]
	if path == "" {
		return nothing("there is no such stream")
	}
	r, err := v.request(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if id := v.r.Header.Get("Last-Event-ID"); id != "" {
		r.Header.Set("Last-Event-ID", id)
	}
	if v.session != nil {
		ctx, cancel := v.session.within(v.ctx())
		defer cancel()
		r = r.WithContext(ctx)
	}
	v.ui.o.API.ServeHTTP(v.w, r)
	return nil
}
