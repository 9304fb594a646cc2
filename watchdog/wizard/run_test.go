package wizard_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

// result is what a run without a terminal left.
type result struct {
	out, err string
	failed   error
}

func run(t *testing.T, o wizard.Options, stdin string) result {
	t.Helper()
	var out, errs bytes.Buffer
	failed := wizard.Run(t.Context(), o, wizard.Terminal{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	r := result{out.String(), errs.String(), failed}
	for _, text := range []string{r.out, r.err, errorText(failed)} {
		if strings.Contains(text, token) {
			t.Errorf("the token was printed:\n%s", text)
		}
	}
	return r
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// nothing fails if there is anything in the directory.
func nothing(t *testing.T, f wizard.Files) {
	t.Helper()
	if _, err := os.Lstat(f.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", modes(t, f.Dir))
	}
}

func TestRun(t *testing.T) {
	fake := provider(t, onRelay())
	answers := filepath.Join(t.TempDir(), "answers.json")
	write(t, answers, `{"domain":"example.com","relay":"20.0.0.8","home":"30.0.0.5","local":"192.168.1.10"}`, 0o600)
	o := wizard.Options{File: answers, Answers: wizard.Answers{Relay: relayIP, API: fake.URL()}, TokenFile: "-", Files: files(t)}
	r := run(t, o, token+"\n")
	if r.failed != nil {
		t.Fatal(r.failed)
	}
	config := read(t, o.Files.ConfigFile())
	if r.out != config || !strings.Contains(config, "a "+relayIP) {
		t.Errorf("printed\n%s\nwritten\n%s", r.out, config)
	}
	if !strings.Contains(config, "cloudflare zone "+fake.ZoneID(domain)+" token_file "+o.Files.TokenFile()+"\n") {
		t.Errorf("the zone's id is not in\n%s", config)
	}
	if read(t, o.Files.TokenFile()) != token+"\n" {
		t.Error("the token is not in its file")
	}
	for _, part := range []string{
		"will move the records of\n  example.com\n  *.example.com\n", "on the path relay",
		"check --config " + o.Files.ConfigFile(), "run --config " + o.Files.ConfigFile(), "Without apply it writes nothing",
		"edge-watchdog adopt example.com", "*.example.com A " + relayIP, `return 200 "edge-ok-v1\n"`, "serve edge-health.example.com with",
	} {
		if !strings.Contains(r.err, part) {
			t.Errorf("%q is not in\n%s", part, r.err)
		}
	}
}

func TestRunAgain(t *testing.T) {
	fake := provider(t, onRelay())
	tokenFile := filepath.Join(t.TempDir(), "token")
	write(t, tokenFile, token, 0o644)
	a := given()
	a.API, a.Apply = fake.URL(), true
	o := wizard.Options{Answers: a, TokenFile: tokenFile, Files: files(t)}
	if r := run(t, o, ""); r.failed != nil || !strings.Contains(r.err, "chmod o-r it") || strings.Contains(r.err, "Without apply") || !strings.Contains(r.out, "\tapply\n") {
		t.Fatalf("%v\n%s", r.failed, r.err)
	}
	fake.ResetLog()
	if r := run(t, o, ""); r.failed == nil || !strings.Contains(r.failed.Error(), "--force") || fake.Count() != 0 {
		t.Errorf("again without --force: %v, %d requests", r.failed, fake.Count())
	}
	// The token may come out of the file that it goes to.
	o.Files.Force, o.TokenFile = true, o.Files.TokenFile()
	if r := run(t, o, ""); r.failed != nil || strings.Contains(r.err, "former") {
		t.Errorf("with --force: %v\n%s", r.failed, r.err)
	}
}

// untouched is a standard input that nobody may read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("standard input was read")
	return 0, errors.New("read")
}

func TestRunRefuses(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	write(t, tokenFile, token, 0o600)
	for _, tc := range []struct {
		name   string
		change func(*wizard.Options)
		want   string
	}{
		{"nothing given", func(o *wizard.Options) { *o = wizard.Options{Files: o.Files} }, "nothing can be asked: set --domain --relay --home --local --token-file"},
		{"no token", func(o *wizard.Options) { o.TokenFile = "" }, "nothing can be asked: set --token-file"},
		{"no home", func(o *wizard.Options) { o.Answers.Home = "" }, "set --home"},
		{"accessible", func(o *wizard.Options) { o.Answers.Home, o.Accessible = "", true }, "set --home"},
		{"name out of the domain", func(o *wizard.Options) { o.Answers.Names = []string{"example.org"}; o.TokenFile = "-" }, "--name: example.org is not in the domain"},
		{"default canary moves", func(o *wizard.Options) {
			o.Answers.Names = []string{"edge-health.example.com", "edge-canary.example.com"}
			o.TokenFile = "-"
		}, "--canary"},
		{"no answers file", func(o *wizard.Options) { o.File = "/nowhere/answers.json" }, "reading answers"},
		{"answers file is a directory", func(o *wizard.Options) { o.File = "/" }, "regular file"},
		{"no token file", func(o *wizard.Options) { o.TokenFile = "/nowhere/token" }, "--token-file"},
		{"relative directory", func(o *wizard.Options) { o.Files.Dir = "x" }, "--dir"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := wizard.Options{Answers: given(), TokenFile: tokenFile, Files: files(t)}
			o.Answers.API = "http://127.0.0.1:1" // nobody is there, and nobody is asked
			where := o.Files
			tc.change(&o)
			var out bytes.Buffer
			err := wizard.Run(t.Context(), o, wizard.Terminal{In: untouched{t}, Out: &out, Err: &out})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q in it", err, tc.want)
			}
			nothing(t, where)
		})
	}
}

func TestRunBadTokens(t *testing.T) {
	for name, text := range map[string]string{"empty": " \n", "two words": token + " x", "too long": strings.Repeat("x", 5000), "far too long": strings.Repeat("x", 50000), "control": "x\x00y"} {
		t.Run(name, func(t *testing.T) {
			o := wizard.Options{Answers: given(), TokenFile: "-", Files: files(t), Offline: true}
			if r := run(t, o, text); r.failed == nil || !strings.Contains(r.failed.Error(), "standard input") || strings.Contains(r.failed.Error(), "xx") {
				t.Errorf("error is %v", r.failed)
			}
			nothing(t, o.Files)
		})
	}
}

func TestRunOffline(t *testing.T) {
	o := wizard.Options{Answers: given(), TokenFile: "-", Files: files(t), Offline: true}
	o.Answers.API = "http://127.0.0.1:1"
	r := run(t, o, token)
	if r.failed != nil || !strings.Contains(r.err, "Offline") || !strings.Contains(r.err, "edge-watchdog adopt example.com") || !strings.Contains(r.out, "cloudflare zone example.com token_file") {
		t.Errorf("%v\n%s%s", r.failed, r.err, r.out)
	}
}

func TestRunWritesNothingOnProblems(t *testing.T) {
	fake := provider(t, onRelay()[1:])
	o := wizard.Options{Answers: given(), TokenFile: "-", Files: files(t)}
	o.Answers.API = fake.URL()
	r := run(t, o, token)
	if r.failed == nil || !strings.Contains(r.failed.Error(), "example.com: no usable A record") || r.out != "" {
		t.Errorf("%v\n%s", r.failed, r.out)
	}
	nothing(t, o.Files)
	r = run(t, o, "wrong-token")
	if e, ok := errors.AsType[*cloudflare.Error](r.failed); !ok || e.Kind != cloudflare.KindForbidden && e.Kind != cloudflare.KindAuth {
		t.Errorf("wrong token: %v", r.failed)
	}
	nothing(t, o.Files)
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer silent.Close()
	o := wizard.Options{Answers: given(), TokenFile: "-", Files: files(t)}
	o.Answers.API = silent.URL
	var out bytes.Buffer
	if err := wizard.Run(ctx, o, wizard.Terminal{In: strings.NewReader(token), Out: &out, Err: &out}); err == nil {
		t.Error("it did not stop")
	}
	nothing(t, o.Files)
}
