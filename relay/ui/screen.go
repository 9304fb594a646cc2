package ui

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/event"
)

//go:embed templates
var templateFiles embed.FS

// screen is what a template is given.
type screen struct {
	Title string
	Nav   string // the entry of the menu that it belongs to
	Bare  bool   // no menu
	Write bool   // who looks may change something
	Login bool   // who looks has logged in
	Token string // for forms
	Path  string // of the page itself
	// Refresh is where the script finds the same page as it is now. Empty: what is
	// on it does not change, or is being typed.
	Refresh string
	Did     string // what was just done
	Newest  *news
	Problem *api.Problem
	Data    any
}

// pages are the templates by name, each with the layout and the parts around it.
var pages = parsed()

func parsed() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // it is embedded
	}
	all := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		own := template.Must(common.Clone())
		all[name] = template.Must(own.ParseFS(templateFiles, path.Join("templates", e.Name())))
	}
	return all
}

// done are the notes about what was just done, by what the address says of it.
var done = map[string]string{
	"saved": "Saved.", "created": "Created.", "deleted": "Deleted.", "moved": "The routes are moved.",
	"drain": "It gets no new connections. Those that are open go on.", "disable": "It gets no connections, and those that were open are closed.",
	"hold": "Its role stays as it is, whatever its health.", "ready": "Its health decides again.",
	"failover": "New connections go to another member.", "failback": "All cooldowns are over.", "revoke": "The token is void.",
}

// render writes a page. It is made whole first: half a page would look like one.
func (v *visit) render(status int, name string, s *screen) error {
	s.Write, s.Login, s.Token, s.Path = v.mayWrite(), v.session != nil, v.token(), v.r.URL.Path
	if s.Problem == nil {
		s.Did = done[v.r.URL.Query().Get("did")]
	}
	if s.Refresh != "" {
		if err := v.newest(s); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "layout", s); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // a browser that is gone wants no page
	return nil
}

// newest is what the script announces when it changes.
func (v *visit) newest(s *screen) error {
	list, err := get[[]event.Event](v, "/edge/events?limit=1")
	if err != nil {
		return err
	}
	if len(list) > 0 {
		s.Newest = newsOf(list[0])
	}
	return nil
}

// show renders a page that keeps itself up to date.
func (v *visit) show(name string, s *screen) error {
	s.Refresh = v.r.URL.RequestURI()
	return v.render(http.StatusOK, name, s)
}
