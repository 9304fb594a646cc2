package preflight

import (
	"errors"
	"testing"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestDisks: disks that tests can't easily have.
func TestDisks(t *testing.T) {
	disks := map[string]disk{
		"/one/a": {id: 1, free: 100}, "/one/b": {id: 1, free: 100}, "/two": {id: 2, free: 100},
		"/full": {id: 3}, "/inodes": {id: 4, free: 100, noInodes: true},
	}
	for _, tt := range []struct {
		name  string
		needs []Need
		want  int // findings that are not well
	}{
		{"each disk for itself", []Need{{"/one/a", 90}, {"/two", 90}}, 0},
		{"one disk for both", []Need{{"/one/a", 50}, {"/one/b", 50}}, 1},
		{"exactly", []Need{{"/one/a", 45}, {"/one/b", 45}}, 0},
		{"a full one, for nothing", []Need{{"/full", 0}}, 1},
		{"a size that makes no sense", []Need{{"/one/a", -1000}, {"/one/b", 95}}, 1},
		{"no inodes", []Need{{"/inodes", 1}}, 1},
		{"not known", []Need{{"/lost", 1}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Config{Margin: 10})
			p.disk = func(path string) (disk, error) {
				if d, ok := disks[path]; ok {
					return d, nil
				}
				return disk{}, errors.New("gone")
			}
			got := 0
			for _, f := range p.space(t.Context(), nil, tt.needs) {
				if !f.OK {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("%d findings are not well, want %d", got, tt.want)
			}
		})
	}
}

func TestReadOnlyDisk(t *testing.T) {
	p := New(Config{})
	p.disk = func(string) (disk, error) { return disk{free: 1 << 40, readOnly: true}, nil }
	if f := p.data(t.Context(), fallback.Item{Name: "web"}, fallback.Data{Path: "/"}); f.OK {
		t.Errorf("it can be written: %s", f.Detail)
	}
}
