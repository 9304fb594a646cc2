package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

// TestBackup: a copy in the place of a database is the database, tokens, events and
// all, as of the moment it was made.
func TestBackup(t *testing.T) {
	s, path := fresh(t)
	dir := filepath.Join(t.TempDir(), "kept")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "edge.db")
	if err := os.WriteFile(target, []byte("yesterday's"), 0o644); err != nil {
		t.Fatal(err)
	}
	commit(t, s, empty(), small(), event.Event{At: noon, Kind: event.Restored})
	if err := errors.Join(s.SetGatewayToken(t.Context(), "nuc", hash(1)), s.Backup(t.Context(), target)); err != nil {
		t.Fatal(err)
	}
	wantMode(t, target, 0o600)
	commit(t, s, small(), empty())
	intact(t, path)
	if names := files(t, dir); !slices.Equal(names, []string{"edge.db"}) {
		t.Errorf("files are %v", names)
	}

	restored := open(t, target, store.Options{})
	if d := diff(small(), load(t, restored)); d != "" {
		t.Error("-want +got:\n", d)
	}
	if tokens, err := restored.GatewayTokens(t.Context()); len(tokens) != 1 || err != nil {
		t.Error(tokens, err)
	}
	kept, err := restored.AddEvents(t.Context(), []event.Event{{At: noon, Kind: event.Restored}})
	if err != nil || kept[0].ID != 2 {
		t.Errorf("the next event is %v, %v; want ID 2", kept, err)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBackupWhileWriting: each copy is one state, whatever is committed meanwhile.
func TestBackupWhileWriting(t *testing.T) {
	s, path := fresh(t)
	ended := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		before := empty()
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			after := state(n)
			if _, err := s.Commit(context.Background(), before, after, nil); err != nil {
				ended <- err
				return
			}
			before = after
		}
	}()
	for range 10 {
		target := filepath.Join(filepath.Dir(path), "copy.db")
		if err := s.Backup(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		copied := open(t, target, store.Options{})
		got := load(t, copied)
		if d := diff(state(stateOf(got)), got); d != "" {
			t.Error("a mixture (-want +got):\n", d)
		}
		copied.Close()
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestBackupRefused leaves everything as it was, and no remains.
func TestBackupRefused(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "full", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, target, want string }{
		{"itself", path, "is the database itself"},
		{"itself by another name", link, "is the database itself"},
		{"its log", path + "-wal", "is the database itself"},
		{"a directory", filepath.Join(dir, "full"), "file exists"},
		{"in no directory", filepath.Join(dir, "none", "edge.db"), "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.Backup(t.Context(), tt.target); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, filepath.Join(dir, "late")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if names := files(t, dir); !slices.Equal(names, []string{"full", "link"}) {
		t.Errorf("files are %v", names)
	}
	commit(t, s, small(), empty())
}
