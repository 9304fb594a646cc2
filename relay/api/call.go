package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
)

// resource is one path and what may be done there.
type resource struct {
	api     *api
	methods map[string]*operation
	name    string // of the thing, where the path has it as a word
}

// ServeHTTP finds the operation of the method.
func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op := res.methods[method]
	if op == nil {
		allowed := res.allowed()
		problem(http.StatusMethodNotAllowed, methodNotAllowed, "want %s", strings.Join(allowed, " or ")).
			with("Allow", strings.Join(allowed, ", ")).write(w)
		return
	}
	if res.name != "" {
		r.SetPathValue("name", res.name)
	}
	c := &call{api: res.api, op: op, w: w, r: r}
	if err := c.run(); err != nil {
		c.fail(err)
	}
}

func (res *resource) allowed() (list []string) {
	for method := range res.methods {
		list = append(list, method)
	}
	slices.Sort(list)
	return list
}

// call is one request to one operation.
type call struct {
	api   *api
	op    *operation
	w     http.ResponseWriter
	r     *http.Request
	fleet Fleet
}

func (c *call) run() error {
	if err := c.mayCall(); err != nil {
		return err
	}
	if c.api.o.Fleet != nil {
		c.fleet = c.api.o.Fleet()
	}
	if !c.op.idle && (c.fleet == nil || c.fleet.Snapshot().Version == 0) { // it has no config yet
		return problem(http.StatusServiceUnavailable, notRunning, "no edge app is running").with("Retry-After", "1")
	}
	return c.op.serve(c)
}

// fail answers with an error. What has no answer of its own is this program's
// fault, or the disk's: the log has it, for it may name what is nobody's business.
func (c *call) fail(err error) {
	p := asProblem(err)
	if p == nil {
		c.api.o.Log.Error("admin API", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
		p = internal()
	}
	p.write(c.w)
}

// name is the thing that the path names.
func (c *call) name() string { return c.r.PathValue("name") }

// actor is who asks.
func (c *call) actor() string {
	if who, ok := c.r.Context().Value(identityKey{}).(identity); ok {
		return "token " + who.name
	}
	return c.api.o.Actor(c.r)
}

func (c *call) ctx() context.Context { return c.r.Context() }

// number reads a parameter that counts something.
func (c *call) number(name string, otherwise uint64) (uint64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, problem(http.StatusBadRequest, parameterInvalid, "%s=%q: want a number", name, text).at(name)
	}
	return n, nil
}

// flag tells whether a parameter is there, and not said to be off.
func (c *call) flag(name string) bool {
	query := c.r.URL.Query()
	return query.Has(name) && !slices.Contains([]string{"0", "false", "no", "off"}, query.Get(name))
}

// encode makes the JSON of an answer.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// answer sends a body that has no revision: its tag is over what it says.
func (c *call) answer(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.sendList(body)
}

func (c *call) sendList(body []byte) error { return c.send(body, listTag(body)) }

// one sends a thing with a revision, which a later If-Match may name.
func (c *call) one(revision uint64, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.send(body, tag(revision, body))
}

// created sends a thing that was not there before, and where it is now.
func (c *call) created(location string, revision uint64, v any) error {
	c.w.Header().Set("Location", location)
	return c.one(revision, v)
}

// send sends JSON, or 304 to a reader who has it already.
func (c *call) send(body []byte, etag string) error {
	head := c.w.Header()
	head.Set("ETag", etag)
	reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead
	if reads && matchesAny(c.r.Header.Values("If-None-Match"), etag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(c.op.success())
	_, _ = c.w.Write(body) // a client that is gone wants no answer
	return nil
}

// once sends a secret: it has no tag, for there is nothing to compare it with.
func (c *call) once(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(c.op.success())
	_, _ = c.w.Write(body)
	return nil
}

// done answers that there is nothing more to say.
func (c *call) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// edit makes a change in the name of who asks.
func (c *call) edit(change Change) (*catalog.Catalog, error) {
	return c.fleet.Edit(c.ctx(), c.actor(), change)
}
