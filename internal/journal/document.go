package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"
)

// Format is the version of the envelope that documents are written in.
const Format = 1

// MaxDocumentBytes is the largest document that is written or read.
const MaxDocumentBytes = 16 << 20

// ErrCorrupt says that a document and the copy before it are both damaged. What it
// said is unknown.
var ErrCorrupt = errors.New("damaged, and so is the copy before it")

// NewerFormatError says that a document was written by a newer version of this
// program.
type NewerFormatError struct {
	Name   string
	Format int
}

// Error implements error.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("document %s has format %d and this version knows %d: run the newer version", e.Name, e.Format, Format)
}

// Source says where a document came from.
type Source struct {
	// Previous: it is the copy before the last one, because of Damage.
	Previous bool
	Damage   error
	// Seq counts the times it was saved.
	Seq uint64
	// Saved is when, by the clock of that time.
	Saved time.Time
}

// envelope is the file. The sum covers all the rest.
type envelope struct {
	Format int             `json:"format"`
	Name   string          `json:"name"`
	Seq    uint64          `json:"seq"`
	Saved  time.Time       `json:"saved"`
	SHA256 string          `json:"sha256"`
	Data   json.RawMessage `json:"data"`
}

const (
	current  = ".json"
	previous = ".json.old"
	aside    = ".damaged-" // and the time
)

// Save replaces the document. When it returns nil the new one is on disk and will
// be there after a power cut; when it returns an error the old one or the new one
// is.
func (j *Journal) Save(name string, v any) error {
	if err := j.save(name, v); err != nil {
		return fmt.Errorf("saving document %s: %w", name, err)
	}
	return nil
}

func (j *Journal) save(name string, v any) error {
	if err := validName(name); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.saving.Lock()
	defer j.saving.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	now, err := j.newest(name)
	if err != nil {
		return err
	}
	text, err := seal(envelope{Format: Format, Name: name, Seq: now.Seq + 1, Saved: time.Now().UTC(), Data: data})
	if err != nil {
		return err
	}
	if len(text) > MaxDocumentBytes {
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), MaxDocumentBytes)
	}
	return j.replace(name+current, tempPrefix, text, func() error { return j.keep(name) })
}

// newest returns the newest whole envelope; the zero one if there is none. A newer
// format is an error: this version must not overwrite it.
func (j *Journal) newest(name string) (envelope, error) {
	var best envelope
	for _, suffix := range []string{current, previous} {
		e, err := j.read(name, suffix)
		if _, newer := errors.AsType[*NewerFormatError](err); newer {
			return envelope{}, err
		}
		if err == nil && e.Seq > best.Seq {
			best = e
		}
	}
	return best, nil
}

// keep makes the current document the previous one. A damaged one is set aside
// instead: it must not take the place of a copy that is whole.
func (j *Journal) keep(name string) error {
	_, err := j.read(name, current)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return j.setAside(name, current)
	}
	if err := j.fs.rename(name+current, name+previous); err != nil {
		return fmt.Errorf("keeping the copy before: %w", err)
	}
	return nil
}

// Load reads the document into v, a pointer, which is left alone if there is an
// error: fs.ErrNotExist if there is none, ErrCorrupt if nothing whole is left (the
// files are kept under another name), *NewerFormatError if it is not ours to read.
func (j *Journal) Load(name string, v any) (Source, error) {
	s, err := j.load(name, v)
	if err != nil {
		return Source{}, fmt.Errorf("loading document %s: %w", name, err)
	}
	if s.Previous {
		j.log.Warn("using the copy before the last one", "document", name, "saved", s.Saved, "because", s.Damage)
	}
	return s, nil
}

func (j *Journal) load(name string, v any) (Source, error) {
	if err := validName(name); err != nil {
		return Source{}, err
	}
	if err := j.usable(); err != nil {
		return Source{}, err
	}
	if j.fs == nil {
		return Source{}, fs.ErrNotExist
	}
	j.saving.Lock()
	defer j.saving.Unlock()
	var damage []error
	for _, suffix := range []string{current, previous} {
		e, err := j.read(name, suffix)
		if err == nil {
			err = decode(e.Data, v)
		}
		if err == nil {
			return Source{Previous: suffix == previous, Damage: errors.Join(damage...), Seq: e.Seq, Saved: e.Saved}, nil
		}
		if _, newer := errors.AsType[*NewerFormatError](err); newer {
			return Source{}, err
		}
		damage = append(damage, fmt.Errorf("%s: %w", name+suffix, err))
	}
	if errors.Is(damage[0], fs.ErrNotExist) && errors.Is(damage[1], fs.ErrNotExist) {
		return Source{}, fs.ErrNotExist
	}
	return Source{}, j.corrupt(name, damage)
}

// corrupt keeps what is left for people to look at.
func (j *Journal) corrupt(name string, damage []error) error {
	if j.mode == writing {
		for i, suffix := range []string{current, previous} {
			if errors.Is(damage[i], fs.ErrNotExist) {
				continue
			}
			if err := j.setAside(name, suffix); err != nil {
				damage = append(damage, err)
			}
		}
	}
	// Not wrapped: one of them may be fs.ErrNotExist, and that is not the case here.
	return fmt.Errorf("%w: %v", ErrCorrupt, strings.ReplaceAll(errors.Join(damage...).Error(), "\n", "; "))
}

func (j *Journal) setAside(name, suffix string) error {
	to := name + suffix + aside + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := j.fs.rename(name+suffix, to); err != nil {
		return fmt.Errorf("setting the damaged file aside: %w", err)
	}
	j.log.Error("a document is damaged: set it aside", "document", name, "file", to)
	return nil
}

func (j *Journal) read(name, suffix string) (envelope, error) {
	text, err := readAll(j.fs, name+suffix, MaxDocumentBytes+1)
	if suffix == current && j.mode == reading && errors.Is(err, fs.ErrNotExist) {
		// The writer may be between its two renames.
		text, err = readAll(j.fs, name+suffix, MaxDocumentBytes+1)
	}
	if err != nil {
		return envelope{}, err
	}
	return unseal(name, text)
}

func seal(e envelope) ([]byte, error) {
	e.SHA256 = e.sum()
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

// unseal returns the envelope if it is whole and is that of name.
func unseal(name string, text []byte) (envelope, error) {
	if len(text) > MaxDocumentBytes {
		return envelope{}, fmt.Errorf("longer than %d bytes", MaxDocumentBytes)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return envelope{}, fmt.Errorf("not a whole envelope: %w", err)
	}
	if version.Format > Format {
		return envelope{}, &NewerFormatError{Name: name, Format: version.Format}
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return envelope{}, fmt.Errorf("not an envelope: %w", err)
	}
	switch {
	case e.Format != Format:
		return envelope{}, fmt.Errorf("format is %d", e.Format)
	case e.Name != name:
		return envelope{}, fmt.Errorf("it is document %q", e.Name)
	case e.SHA256 != e.sum():
		return envelope{}, errors.New("checksum does not match")
	}
	return e, nil
}

func (e envelope) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%q\n%d\n%s\n", e.Format, e.Name, e.Seq, e.Saved.UTC().Format(time.RFC3339Nano))
	h.Write(e.Data)
	return hex.EncodeToString(h.Sum(nil))
}

// decode leaves v as it is if data does not fit.
func decode(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("cannot load into a %T", v)
	}
	fresh := reflect.New(p.Type().Elem())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return fmt.Errorf("its content does not fit: %w", err)
	}
	p.Elem().Set(fresh.Elem())
	return nil
}

// validName keeps documents apart from the other files.
func validName(name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("the name of a document has 1 to 64 characters, not %d", len(name))
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return fmt.Errorf("document %q: a name has letters a-z, digits, - and _", name)
		}
	}
	return nil
}
