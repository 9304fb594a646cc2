package address

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/edgeward/edgeward/sidecar/apply"
)

// file is what is on disk.
type file struct {
	Version int              `json:"version"`
	Hosts   map[string]Entry `json:"hosts"`
}

// Load reads what was believed. A file that is not there says nothing; one that is
// damaged is an error that names it.
func Load(path string) (map[string]Entry, error) {
	known := map[string]Entry{}
	if path == "" {
		return known, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the addresses: %w", err)
	}
	var f file
	if err = json.Unmarshal(data, &f); err == nil && f.Version != 1 {
		err = fmt.Errorf("version %d: want 1", f.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the addresses in %s, which can be deleted: %w", path, err)
	}
	for host, e := range f.Hosts {
		if e.Addr.IsValid() && e.Addr.Zone() == "" {
			known[host] = e
		}
	}
	return known, nil
}

// Addresses returns what a file says, for the names' places in a config.
func Addresses(path string) (map[string]netip.Addr, error) {
	known, err := Load(path)
	if err != nil {
		return nil, err
	}
	list := make(map[string]netip.Addr, len(known))
	for host, e := range known {
		list[host] = e.Addr
	}
	return list, nil
}

func save(path string, known map[string]Entry) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(file{1, known}, "", "\t")
	if err != nil {
		return err
	}
	return apply.Write(path, string(data)+"\n")
}
