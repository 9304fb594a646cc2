package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/session"
)

// Output is a config and what belongs to it.
type Output struct {
	Text string
	// Files are maps and certificates that the text refers to, by path.
	Files []File
	// Notices are for people: what HAProxy does otherwise than the relay.
	Notices []string
	// Servers says where the servers are, by "backend/server": host:port.
	Servers map[string]string
	// Members are the same servers, in the order of the text, and who they are.
	Members []Member
	// StateFile, Socket and Folder are paths that the text refers to.
	StateFile, Socket, Folder string
	// Stopped says that the servers' states are in the text, from a snapshot.
	Stopped bool

	origins []string
}

// Member is a server, and the gateway of a pool that it stands for.
type Member struct {
	Backend, Pool, Gateway string
	Port                   int
	Host                   string // if it is dialled by name
	Weight                 int
}

// File is one that the config refers to. Its name depends on its content.
type File struct{ Path, Content string }

// Origin says what line of the text, counted from 1, comes from: "gateway nuc".
// Empty if there is no such line.
func (o Output) Origin(line int) string {
	if line < 1 || line > len(o.origins) {
		return ""
	}
	return o.origins[line-1]
}

// Render writes the config, or returns all that cannot be rendered.
func Render(c Config) (Output, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return Output{}, err
	}
	if err := unsupported(c.Catalog); err != nil {
		return Output{}, err
	}
	w := writer{Config: c, servers: map[string]string{}, pools: map[string]session.PoolSettings{}, backends: map[string]*backend{}}
	for _, p := range c.Catalog.Settings() {
		w.pools[p.Name] = w.filled(p)
	}
	w.collect()
	if err := w.write(); err != nil {
		return Output{}, err
	}
	return Output{
		Text: w.t.b.String(), Files: w.files, Notices: w.notices, Servers: w.servers, Members: w.members, origins: w.t.origins,
		StateFile: c.Process.StateFile, Socket: c.Process.Socket.Path, Folder: c.Process.Files, Stopped: c.Stopped != nil,
	}, nil
}

// writer is one run of Render.
type writer struct {
	Config
	t        text
	pools    map[string]session.PoolSettings
	fronts   []front
	backends map[string]*backend // by name
	nobody   bool                // a route leads to a pool that serves nobody
	files    []File
	notices  []string
	servers  map[string]string
	members  []Member
}

// front is one frontend: a listener, or the port of a route.
type front struct {
	name   string
	bind   bind
	limits Limits
	tls    *Listener
	to     string // the backend of a port
	origin string
	names  table
}

// collect finds out what there is to write.
func (w *writer) collect() {
	used := map[string]int{}
	for i := range w.Listeners {
		l := &w.Listeners[i]
		b, _ := parseBind(l.Address) // validated
		name := fmt.Sprintf("tls:%d", b.port)
		if used[name]++; used[name] > 1 {
			name += fmt.Sprintf(".%d", used[name])
		}
		w.fronts = append(w.fronts, front{name: name, bind: b, limits: l.Limits, tls: l, origin: "listener " + l.Address, names: w.table(l)})
	}
	for _, r := range sortedRoutes(w.Catalog) {
		if r.Kind == catalog.TCP && !r.Disabled {
			b, _ := parseBind(fmt.Sprintf("[%s]:%d", cmp.Or(w.Ports.Host, "::"), r.Port))
			w.fronts = append(w.fronts, front{
				name: fmt.Sprintf("tcp:%d", r.Port), bind: b, limits: w.Ports.Limits, to: w.backendOf(r), origin: "route " + r.Name,
			})
		}
	}
}

func (w *writer) write() error {
	w.t.about("process")
	w.t.flush("# Written by edge-sidecar from the description of gateways, pools and routes.")
	w.t.flush("# Change that, and run \"edge-sidecar apply\": what is changed here is lost.")
	w.process()
	for i := range w.fronts {
		w.frontend(&w.fronts[i])
	}
	for _, name := range slices.Sorted(maps.Keys(w.backends)) {
		if err := w.backend(w.backends[name]); err != nil {
			return err
		}
	}
	if w.nobody {
		w.t.about("pools that serve nobody")
		w.t.section("backend "+nobody+" from edgeward", "Routes to a pool that is disabled or has no members end here.")
		w.t.line("tcp-request content reject")
	}
	return nil
}

// nobody is the backend that refuses. A name with a disabled pool must come here,
// and not to the wildcard that would cover it.
const nobody = "nobody"

func sortedRoutes(c *catalog.Catalog) []catalog.Route {
	return slices.SortedFunc(maps.Values(c.Routes), func(a, b catalog.Route) int { return cmp.Compare(a.Name, b.Name) })
}

// file adds a file whose name begins with a stem, and returns its path.
func (w *writer) file(stem, ext, content string) string {
	sum := sha256.Sum256([]byte(content))
	path := w.Process.Files + "/" + strings.ReplaceAll(stem, ":", "-") + "-" + hex.EncodeToString(sum[:6]) + ext
	if !slices.ContainsFunc(w.files, func(f File) bool { return f.Path == path }) {
		w.files = append(w.files, File{path, content})
	}
	return path
}

func (w *writer) notice(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.notices, text) {
		w.notices = append(w.notices, text)
	}
}
