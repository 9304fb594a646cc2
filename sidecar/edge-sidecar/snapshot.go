package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
)

// maxSnapshot bounds what is read.
const maxSnapshot = 64 << 20

// readSnapshot reads who gets no visitors from what the relay's /edge/snapshot
// answered. A file that is old is refused: it says who was up once. "-" is standard
// input.
func readSnapshot(path string, age time.Duration, stdin io.Reader) (map[string]map[string]bool, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading the snapshot: %w", err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("reading the snapshot: %w", err)
		}
		if old := time.Since(info.ModTime()); old > age {
			return nil, fmt.Errorf("reading the snapshot: %s is %s old: get a new one, or set --snapshot-age", path, old.Round(time.Second))
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSnapshot+1))
	if err == nil && len(data) > maxSnapshot {
		err = fmt.Errorf("it is longer than %d bytes", maxSnapshot)
	}
	var s struct {
		Pools []pool.View `json:"pools"`
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && s.Pools == nil {
		err = errors.New("it has no pools")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return render.Stopped(s.Pools), nil
}
