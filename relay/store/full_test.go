//go:build unix

package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

func init() { programs["full"] = fullMain }

// TestFullDisk runs in a process of its own, in which no file may grow beyond some
// size.
func TestFullDisk(t *testing.T) {
	out, err := exec.Command(os.Args[0], "full", filepath.Join(t.TempDir(), "edge.db")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func limitFiles(bytes uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = min(bytes, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// grown is a catalog with n routes.
func grown(n int) *catalog.Catalog {
	c := empty()
	for i := range n {
		r := catalog.Route{Name: fmt.Sprint("r", i), Revision: 1, Hosts: []string{fmt.Sprint("a-long-name-to-fill-pages-", i, ".example.com")}, Pool: "home"}
		c.Routes[r.Name] = r
	}
	return c
}

func fullMain(path string) error {
	ctx := context.Background()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	if err := limitFiles(600 << 10); err != nil {
		return err
	}
	n, err := fill(ctx, s)
	if err == nil {
		return errors.New("no commit failed, though the disk is full")
	}
	fmt.Println("with", n, "routes the disk was full:", err)
	if err := holds(ctx, s, n); err != nil {
		return fmt.Errorf("while the disk is full: %w", err)
	}
	if err := s.SetGatewayToken(ctx, "nuc", [32]byte{}); err == nil {
		tokens, err := s.GatewayTokens(ctx)
		if _, there := tokens["nuc"]; err != nil || !there {
			return fmt.Errorf("a token that was set is not there: %w", err)
		}
	}
	// A restart does not help, and does no harm.
	fmt.Println("closing:", s.Close())
	if s, err = store.Open(path, store.Options{}); err != nil {
		return err
	}
	if err := holds(ctx, s, n); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	// Somebody makes room.
	if err := limitFiles(1 << 40); err != nil {
		return err
	}
	if _, err := s.Commit(ctx, grown(n), grown(n+100), nil); err != nil {
		return fmt.Errorf("after room was made: %w", err)
	}
	if err := holds(ctx, s, n+100); err != nil {
		return fmt.Errorf("after room was made: %w", err)
	}
	return s.Close()
}

// fill commits until it fails.
func fill(ctx context.Context, s *store.Store) (n int, err error) {
	before := empty()
	for n = 0; n < 100_000; n += 100 {
		after := grown(n + 100)
		did := []event.Event{{At: noon, Kind: event.RouteCreated, Reason: fmt.Sprint(n + 100)}}
		if _, err := s.Commit(ctx, before, after, did); err != nil {
			return n, err
		}
		before = after
	}
	return n, nil
}

func holds(ctx context.Context, s *store.Store, n int) error {
	c, err := s.Load(ctx)
	if err != nil {
		return err
	}
	if d := diff(grown(n), c); d != "" {
		return errors.New("another catalog than the last that was committed:\n" + d)
	}
	return nil
}
