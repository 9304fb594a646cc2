package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	snapshotLayout = "20060102T150405.000Z"
	snapshotSuffix = ".db"
	snapshotTime   = 2 * time.Minute
)

// Snapshot writes a copy of the data into the member's directory, as etcdutl reads
// them, and returns its path. Copies beyond Config.Snapshots are deleted, the oldest
// first. It needs no majority.
func (n *Node) Snapshot(ctx context.Context) (path string, err error) {
	r, err := n.running()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	path, err = n.copy(ctx, r)
	if err != nil {
		return "", fmt.Errorf("copying the cluster's data: %w", err)
	}
	return path, n.prune()
}

func (n *Node) copy(ctx context.Context, r *running) (path string, err error) {
	dir := n.files.path(snapshotFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	t, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(t.Name())
		}
	}()
	err = stream(ctx, r, t)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return "", err
	}
	path = filepath.Join(dir, time.Now().UTC().Format(snapshotLayout)+snapshotSuffix)
	if err = os.Rename(t.Name(), path); err != nil {
		return "", err
	}
	return path, syncDir(dir)
}

// stream writes the data and its SHA-256 behind it, by which etcdutl knows that it is
// whole.
func stream(ctx context.Context, r *running, to io.Writer) error {
	return r.guard.do(func() error {
		from := r.etcd.Server.Backend().Snapshot()
		defer from.Close()
		sum := sha256.New()
		if _, err := from.WriteTo(io.MultiWriter(bounded{ctx, to}, sum)); err != nil {
			return err
		}
		_, err := to.Write(sum.Sum(nil))
		return err
	})
}

// bounded writes until ctx ends.
type bounded struct {
	ctx context.Context
	io.Writer
}

// Write implements io.Writer.
func (b bounded) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Writer.Write(p)
}

// snapshots are the names of the copies, oldest first.
func (n *Node) snapshots() []string {
	entries, err := os.ReadDir(n.files.path(snapshotFolder))
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if _, ok := snapshotAt(e.Name()); ok {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	return list
}

func snapshotAt(name string) (time.Time, bool) {
	text, ok := strings.CutSuffix(name, snapshotSuffix)
	at, err := time.Parse(snapshotLayout, text)
	return at, ok && err == nil
}

// lastSnapshot is when the newest copy was made; zero for never.
func (n *Node) lastSnapshot() time.Time {
	list := n.snapshots()
	if len(list) == 0 {
		return time.Time{}
	}
	at, _ := snapshotAt(list[len(list)-1])
	return at
}

func (n *Node) prune() (err error) {
	list := n.snapshots()
	for _, name := range list[:max(len(list)-max(n.c.Snapshots, 1), 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(n.files.path(snapshotFolder), name)))
	}
	return err
}

// copyDaily makes a copy when the last one is a day old.
func (n *Node) copyDaily(ctx context.Context, r *running) {
	age := time.Since(n.lastSnapshot())
	if n.c.Snapshots < 0 || age >= 0 && age < copyEvery {
		return
	}
	limit, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	path, err := n.copy(limit, r)
	if err == nil {
		err = n.prune()
	}
	if err != nil {
		if ctx.Err() == nil {
			n.c.Log.Error("the daily copy of the cluster's data failed: it is tried again in an hour", "error", err)
		}
		return
	}
	n.c.Log.Info("a copy of the cluster's data was made", "file", path)
}
