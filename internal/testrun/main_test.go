package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	cases := map[string]struct {
		events string
		want   string // the last line
		prints string
	}{
		"all pass": {
			events: `{"Action":"pass","Package":"a","Test":"TestA"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
{"Action":"pass","Package":"a"}`,
			want: "1 passed, 0 failed, 0 skipped", prints: "ok  \ta\t0.1s\n",
		},
		"a failed test and its package are one failure": {
			events: `{"Action":"output","Package":"a","Test":"TestA","Output":"a_test.go:1: want 2\n"}
{"Action":"fail","Package":"a","Test":"TestA"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}`,
			want: "0 passed, 1 failed, 0 skipped", prints: "want 2",
		},
		"a package that does not compile": {
			events: `{"ImportPath":"a","Action":"build-output","Output":"a.go:1: undefined: b\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta [build failed]\n"}
{"Action":"fail","Package":"a"}`,
			want: "0 passed, 1 failed, 0 skipped", prints: "undefined: b",
		},
		"a panic says what the test had said": {
			events: `{"Action":"output","Package":"a","Test":"TestA","Output":"panic: boom\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}`,
			want: "0 passed, 1 failed, 0 skipped", prints: "panic: boom",
		},
		"a skip gives its reason": {
			events: `{"Action":"output","Package":"a","Test":"TestA","Output":"a_test.go:1: needs root\n"}
{"Action":"skip","Package":"a","Test":"TestA"}
{"Action":"pass","Package":"a"}`,
			want: "0 passed, 0 failed, 1 skipped", prints: "needs root",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tally := newTally(&out)
			tally.read(strings.NewReader(c.events))
			tally.end()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if got := lines[len(lines)-1]; got != c.want {
				t.Errorf("the last line is %q, want %q", got, c.want)
			}
			if !strings.Contains(out.String(), c.prints) {
				t.Errorf("the output lacks %q:\n%s", c.prints, out.String())
			}
		})
	}
}

// TestSecondLook runs a module of its own: who fails once is unsteady, who fails
// again has failed, and after a crash nobody is asked again.
func TestSecondLook(t *testing.T) {
	const unsteady = `package a
import ("os"; "testing")
func TestWell(t *testing.T) {}
func TestUnsteady(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if _, err := os.Stat("seen"); err != nil {
			_ = os.WriteFile("seen", nil, 0o600)
			t.Error("at first")
		}
	})
}
`
	cases := map[string]struct {
		code string
		want int
		last string
		says string
	}{
		"unsteady": {unsteady, 0, "3 passed, 0 failed, 0 skipped", "unsteady: TestUnsteady of example.test/a failed"},
		"failed":   {unsteady + `func TestIll(t *testing.T) { t.Error("always") }`, 1, "3 passed, 1 failed, 0 skipped", "always"},
		"crash":    {unsteady + `func TestCrash(t *testing.T) { panic("boom") }`, 1, "", "boom"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module example.test\n\ngo 1.26\n", "a/a_test.go": c.code} {
				path := filepath.Join(dir, file)
				_ = os.MkdirAll(filepath.Dir(path), 0o700)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			t.Setenv("GOFLAGS", "-mod=mod")
			var out strings.Builder
			if got := run([]string{"-shuffle=off", "./..."}, &out, true); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if text := strings.TrimSpace(out.String()); !strings.HasSuffix(text, c.last) || !strings.Contains(text, c.says) {
				t.Errorf("want %q and at last %q:\n%s", c.says, c.last, text)
			}
		})
	}
}
