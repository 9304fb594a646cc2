package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxBytes is the longest secret that a file may hold.
const MaxBytes = 4096

// FileError says why a file gives no secret. It names the file and never holds a
// part of it.
type FileError struct {
	Path   string
	Reason string
	// Err is the cause, if the system gave one.
	Err error
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("reading secret %s: %s: %v", e.Path, e.Reason, e.Err)
	}
	return fmt.Sprintf("reading secret %s: %s", e.Path, e.Reason)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Read returns the secret in a file, without the white space around it: 1 to
// MaxBytes printable ASCII characters, none of them a space. The notice is for the
// operator, empty if there is nothing to say. Errors are *FileError; one that wraps
// fs.ErrNotExist means that there is no such file.
func Read(path string) (s String, notice string, err error) {
	// Not blocking: opening a named pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return String{}, "", &FileError{path, "cannot open it", cause(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return String{}, "", &FileError{path, "cannot look at it", cause(err)}
	}
	if !info.Mode().IsRegular() {
		return String{}, "", &FileError{path, "it is not a regular file", nil}
	}
	// Some room for white space around it.
	data, err := io.ReadAll(io.LimitReader(f, 2*MaxBytes))
	if err != nil {
		return String{}, "", &FileError{path, "cannot read it", cause(err)}
	}
	text := strings.TrimSpace(string(data))
	if reason := unfit(text, info.Size()); reason != "" {
		return String{}, "", &FileError{path, reason, nil}
	}
	if info.Mode().Perm()&0o004 != 0 {
		notice = fmt.Sprintf("secret %s is readable by every user of this host: chmod o-r it", path)
	}
	return New(text), notice, nil
}

// Credential returns a credential that systemd passed to this service (LoadCredential=
// in the unit). The error wraps fs.ErrNotExist if there is none of that name.
func Credential(name string) (String, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return String{}, &FileError{name, "this service has no credentials, see LoadCredential= of its unit", fs.ErrNotExist}
	}
	if name == "." || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return String{}, &FileError{name, "that is not the name of a credential", nil}
	}
	s, _, err := Read(filepath.Join(dir, name))
	return s, err
}

func unfit(text string, size int64) string {
	switch {
	case text == "":
		return "it is empty"
	case len(text) > MaxBytes || size > 2*MaxBytes:
		return fmt.Sprintf("it is longer than %d characters", MaxBytes)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return "it holds a space, a second line or a character that is not printable ASCII"
		}
	}
	return ""
}

// cause drops the path that the system's errors repeat.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
