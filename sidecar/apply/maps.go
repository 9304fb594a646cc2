package apply

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/sidecar/render"
)

// Maps is a running HAProxy whose maps can be changed, as sidecar/runtime's Client is.
type Maps interface {
	Maps(ctx context.Context) ([]string, error)
	Map(ctx context.Context, path string) (map[string]string, error)
	ReplaceMap(ctx context.Context, path string, entries map[string]string) error
}

// hashForm is the part of a map's path that its content makes.
var hashForm = regexp.MustCompile(`-[0-9a-f]{12}\.map\b`)

func stem(s string) string { return hashForm.ReplaceAllString(s, ".map") }

// names changes only the maps of the running HAProxy, if the config says the same but
// for those: a reload would cost connections. It reports whether that was all.
func (a *applier) names(ctx context.Context) bool {
	if a.Config.Maps == nil || !a.had || stem(string(a.old)) != stem(a.out.Text) || a.interrupted() {
		return false
	}
	running, err := a.Config.Maps.Maps(ctx)
	if err != nil {
		return false
	}
	for _, f := range a.out.Files {
		if !strings.HasSuffix(f.Path, ".map") || strings.Contains(string(a.old), f.Path) {
			continue // a certificate's path would have changed too, or it has not
		}
		i := slices.IndexFunc(running, func(path string) bool { return stem(path) == stem(f.Path) })
		if i < 0 {
			return false
		}
		if err := a.replaceMap(ctx, running[i], entries(f)); err != nil {
			a.r.Notices = append(a.r.Notices, fmt.Sprintf("names could not be changed without a reload: %s: %v", filepath.Base(f.Path), err))
			return false
		}
		a.r.Names++
	}
	return true
}

// replaceMap leaves one alone that is as it should be: a run before may have been cut
// off behind it.
func (a *applier) replaceMap(ctx context.Context, path string, want map[string]string) error {
	if have, err := a.Config.Maps.Map(ctx, path); err == nil && maps.Equal(have, want) {
		return nil
	}
	return a.Config.Maps.ReplaceMap(ctx, path, want)
}

func entries(f render.File) map[string]string {
	list := map[string]string{}
	for line := range strings.Lines(f.Content) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			list[key] = value
		}
	}
	return list
}
