package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgeward/edgeward/internal/secret"
)

const hush = "hunter2-hunter2"

func TestNothingPrintsIt(t *testing.T) {
	type config struct {
		Token  secret.String
		hidden secret.String
	}
	s := secret.New(hush)
	c := config{s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "% x", "%10.3s"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+" "+verb+"\n", s, &s, c, &c)
	}
	fmt.Fprintln(&out, s, c, []secret.String{s}, map[string]any{"x": s}, error(fmt.Errorf("oh: %v", s)))
	for _, v := range []any{s, c, map[string]secret.String{"k": s}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
		log.Info("x", "token", s, "config", c, "pointer", &s)
	}
	for _, form := range []string{hush, fmt.Sprintf("%x", hush), fmt.Sprintf("%X", hush), fmt.Sprintf("% x", hush), "hunter2"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q was printed:\n%s", form, out.String())
		}
	}
	if n := strings.Count(out.String(), "[redacted]"); n < 40 {
		t.Errorf("[redacted] was printed %d times", n)
	}
	if c.hidden.Reveal() != hush {
		t.Error("Reveal does not")
	}
	if z := (secret.String{}); !z.IsZero() || z.Reveal() != "" || s.IsZero() {
		t.Error("the zero value is not zero")
	}
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", secret.MaxBytes)
	for _, tc := range []struct {
		name, content string
		want, reason  string
	}{
		{"plain", hush, hush, ""},
		{"white space around", " \t" + hush + "\r\n\n", hush, ""},
		{"longest", long + "\n", long, ""},
		{"too long", long + "x", "", "longer than 4096"},
		{"far too long", strings.Repeat(long, 5), "", "longer than 4096"},
		{"long white space hides nothing", hush + strings.Repeat("\n", 2*secret.MaxBytes) + "x", "", "longer than 4096"},
		{"empty", "", "", "it is empty"},
		{"blank", " \n", "", "it is empty"},
		{"space inside", "hunter2 hunter2", "", "holds a space"},
		{"two lines", "hunter2\nhunter2", "", "holds a space"},
		{"not ASCII", "hunter2é", "", "printable ASCII"},
		{"control", "hunter2\x00", "", "printable ASCII"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			s, notice, err := secret.Read(path)
			if s.Reveal() != tc.want || notice != "" || (err == nil) != (tc.reason == "") {
				t.Fatalf("got %d bytes, notice %q, error %v", len(s.Reveal()), notice, err)
			}
			if err == nil {
				return
			}
			fe, ok := errors.AsType[*secret.FileError](err)
			if !ok || fe.Path != path || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("error is %v, want %q in it", err, tc.reason)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "xx") {
				t.Errorf("the error holds a part of the file: %v", err)
			}
		})
	}
}

func TestReadWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, filepath.Join(dir, "none")} {
		_, _, err := secret.Read(path)
		if fe, ok := errors.AsType[*secret.FileError](err); !ok || fe.Path != path {
			t.Errorf("%s: %v", path, err)
		}
		if missing := filepath.Base(path) == "none"; errors.Is(err, fs.ErrNotExist) != missing {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReadWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(hush), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warns := range map[fs.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, notice, err := secret.Read(path)
		if err != nil || (notice != "") != warns || strings.Contains(notice, hush) {
			t.Errorf("%o: notice %q, error %v", mode, notice, err)
		}
	}
}

func TestCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cf_token"), []byte(hush+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := secret.Credential("cf_token"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(dir, "."))
	if s, err := secret.Credential("cf_token"); err != nil || s.Reveal() != hush {
		t.Errorf("%v", err)
	}
	if _, err := secret.Credential("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	for _, name := range []string{"", ".", "..", "../cf_token", "/etc/passwd", "a/b", `a\b`} {
		if _, err := secret.Credential(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestScrub(t *testing.T) {
	odd := "a/b+c d&e"
	text := "x " + odd + " y " + url.QueryEscape(odd) + " z " + url.PathEscape(odd) + " " + hush + "/" + hush + "-more"
	got := secret.Scrub(text, secret.New(odd), secret.String{}, secret.New(hush), secret.New(hush+"-more"))
	if want := "x [redacted] y [redacted] z [redacted] [redacted]/[redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
