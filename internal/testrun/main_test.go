package main

import (
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
