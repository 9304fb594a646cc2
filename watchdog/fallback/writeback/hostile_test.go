package writeback_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

func about(t *testing.T, w *writeback.Writeback, d fallback.Data, want time.Duration) {
	t.Helper()
	age, err := w.Age(t.Context(), d)
	if err != nil || age < want || age > want+10*time.Minute {
		t.Errorf("age is %s, %v; want %s", age, err, want)
	}
}

func frame(v any) []byte {
	body, _ := json.Marshal(v)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

type object = map[string]any

// talk says frames to a server and returns all that it answers.
func talk(t *testing.T, r *rig, said ...[]byte) string {
	t.Helper()
	near, far := pair(t)
	done := make(chan error, 1)
	go func() { done <- r.theServer().Serve(t.Context(), "attic", far) }()
	_, _ = near.Write(bytes.Join(said, nil))
	_ = near.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(near)
	_ = near.Close()
	<-done
	return string(answer)
}

// A home that has been taken over finds nothing to do outside of the data.
func TestHostile(t *testing.T) {
	t.Parallel()
	hello := object{"home": "cellar", "item": "app", "epoch": 7, "since": since, "run": since}
	names := func(list ...string) [][]byte {
		var all [][]byte
		for _, n := range list {
			all = append(all, []byte(n))
		}
		return all
	}
	tests := map[string]struct {
		said [][]byte
		want string // in the answer
	}{
		"nothing":           {nil, ""},
		"junk":              {[][]byte{[]byte("GET / HTTP/1.0\r\n\r\n")}, ""},
		"a long frame":      {[][]byte{{0x7f, 0xff, 0xff, 0xff, 1}}, ""},
		"no JSON":           {[][]byte{{0, 0, 0, 1, 'x'}}, ""},
		"stat outside":      {[][]byte{frame(hello), frame(object{"stat": names("../outside")})}, "no name below the data"},
		"stat absolute":     {[][]byte{frame(hello), frame(object{"stat": names("/etc/passwd")})}, "no name below the data"},
		"stat by a link":    {[][]byte{frame(hello), frame(object{"stat": names("out/secret")})}, `"stats":[{}]`},
		"stat of a link":    {[][]byte{frame(hello), frame(object{"stat": names("out")})}, `"kind":"link"`},
		"move outside":      {[][]byte{frame(hello), frame(object{"move": names("../outside/secret")})}, "no name below the data"},
		"move by a link":    {[][]byte{frame(hello), frame(object{"move": names("out/secret")})}, "{}"},
		"move all":          {[][]byte{frame(hello), frame(object{"move": names(".")})}, "no name below the data"},
		"move with a NUL":   {[][]byte{frame(hello), frame(object{"move": names("a\x00b")})}, "no name below the data"},
		"run a shell":       {[][]byte{frame(hello), frame(object{"run": object{"step": "carry", "args": []string{"sh", "-c", "x", ".", "./"}}})}, "needs not"},
		"run nothing known": {[][]byte{frame(hello), frame(object{"run": object{"step": "x", "args": []string{"--server", "-nre.L", ".", "./"}}})}, "needs not"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			hello["path"] = r.there
			for i, said := range test.said {
				if bytes.Contains(said, []byte(`"home"`)) {
					test.said[i] = frame(hello)
				}
			}
			outside := filepath.Join(filepath.Dir(r.there), "outside")
			plant(t, outside, tree{"secret": {"secret", 0}})
			plant(t, r.there, tree{"a": {"a", 0}, "out": {"-> ../outside", 0}})
			got := talk(t, r, test.said...)
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if texts(t, outside)["secret"] != "secret" || len(texts(t, r.there)) != 2 {
				t.Error("something is gone")
			}
		})
	}
}

// An rsync that lies about what it is started for has nothing to lie about: it runs in
// the directory, and writes below it only.
func TestServerStaysInItsDirectory(t *testing.T) {
	r := newRig(t)
	plant(t, r.here, tree{"a": {"x", 1}})
	script := filepath.Join(filepath.Dir(r.here), "spy")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\npwd >> '"+script+".pwd'\nenv >> '"+script+".env'\nexec rsync \"$@\"\n"), 0o700))
	r.server.Rsync = script
	t.Setenv("RSYNC_RSH", "false")
	t.Setenv("EDGEWARD_SECRET", "token")
	r.must()
	where, err := os.ReadFile(script + ".pwd")
	must(t, err)
	for line := range strings.Lines(string(where)) {
		if strings.TrimSpace(line) != r.there {
			t.Errorf("it ran in %s", line)
		}
	}
	env, err := os.ReadFile(script + ".env")
	must(t, err)
	if strings.Contains(string(env), "RSYNC") || strings.Contains(string(env), "SECRET") {
		t.Errorf("it was given %s", env)
	}
}

// A second attempt ends what is left of the first one, whose stream is dead and does
// not know it.
func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plant(t, r.here, tree{"a": {"x", 1}})
	near, far := pair(t)
	defer near.Close()
	done := make(chan error, 1)
	go func() { done <- r.theServer().Serve(t.Context(), "attic", far) }()
	hello := object{"home": "cellar", "item": "app", "epoch": 7, "since": since, "run": since, "path": r.there}
	run := object{"run": object{"step": "carry", "args": []string{"--server", "-ulHogDtpAXrSe.iLsfxCIvu", "--delay-updates", ".", "./"}}}
	_, err := near.Write(append(frame(hello), frame(run)...))
	must(t, err)
	for range 2 { // it has been answered: rsync is there
		var size [4]byte
		_, err := io.ReadFull(near, size[:])
		must(t, err)
		_, err = io.CopyN(io.Discard, near, int64(binary.BigEndian.Uint32(size[:])))
		must(t, err)
	}
	r.must()
	if err := <-done; err == nil {
		t.Error("the first one ended well")
	}
	if texts(t, r.there)["a"] != "x" {
		t.Error("it was not carried")
	}
}

func TestRSHAlone(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b", "c"}, {filepath.Join(t.TempDir(), "none"), "peer", "rsync", "--server"}} {
		if code := writeback.RSH(args, strings.NewReader(""), io.Discard); code == 0 {
			t.Errorf("%q: exit code 0", args)
		}
	}
}
