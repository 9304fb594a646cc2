package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edgeward/edgeward/relay/link"
)

// savedTable is the file: the last good table, as it came.
type savedTable struct {
	SHA256 string          `json:"sha256"` // of Table
	Table  json.RawMessage `json:"table"`
}

// maxSaved is as much as is read of the file.
const maxSaved = 2 * link.MaxTable

// loadTable reads the file. It returns nil if there is none, and an error for one that
// is not as it was written: better no table than a wrong one.
func loadTable(name string) (*link.Table, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the last table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSaved))
	if err != nil {
		return nil, fmt.Errorf("reading the last table: %w", err)
	}
	var s savedTable
	var t link.Table
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the last table: %w", err)
	}
	if s.SHA256 != checksum(s.Table) {
		return nil, errors.New("reading the last table: the checksum does not fit")
	}
	if err := json.Unmarshal(s.Table, &t); err != nil {
		return nil, fmt.Errorf("reading the last table: %w", err)
	}
	return &t, nil
}

func saveTable(name string, t *link.Table) error {
	text, err := json.Marshal(t)
	if err == nil {
		text, err = json.Marshal(savedTable{checksum(text), text})
	}
	if err == nil {
		err = replaceFile(name, text)
	}
	if err != nil {
		return fmt.Errorf("saving the table: %w", err)
	}
	return nil
}

// checksum is of the JSON without the white space in it.
func checksum(text []byte) string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, text)
	sum := sha256.Sum256(compact.Bytes())
	return hex.EncodeToString(sum[:])
}

// replaceFile writes a file whole or not at all, for its owner's eyes only.
func replaceFile(name string, data []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("making a new file: %w", err)
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
