package edge

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/edgeward/edgeward/relay/ui"
)

// pageKey tells web pages apart.
type pageKey struct {
	login    bool
	agentURL string
}

// pages live as long as the process: who is logged in stays so through reloads.
// Which API they ask comes with each request, so it is that of the config in force.
var pages = struct {
	sync.Mutex
	made map[pageKey]http.Handler
}{made: map[pageKey]http.Handler{}}

func pageOf(key pageKey, log *slog.Logger) http.Handler {
	pages.Lock()
	defer pages.Unlock()
	if pages.made[key] == nil {
		pages.made[key] = ui.New(ui.Options{API: http.HandlerFunc(askAPI), Login: key.login, AgentURL: key.agentURL, Log: log})
	}
	return pages.made[key]
}

type apiKey struct{}

func askAPI(w http.ResponseWriter, r *http.Request) {
	r.Context().Value(apiKey{}).(http.Handler).ServeHTTP(w, r)
}

// withPage serves the web page beside an API.
func withPage(api, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path+"/" == ui.Root {
			http.Redirect(w, r, ui.Root, http.StatusPermanentRedirect)
			return
		}
		if strings.HasPrefix(r.URL.Path, ui.Root) {
			page.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), apiKey{}, api)))
			return
		}
		api.ServeHTTP(w, r)
	})
}
