package haproxy_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

func TestCheck(t *testing.T) {
	c := haproxy.Checker{Binary: haproxytest.Binary(t)}
	path := filepath.Join(t.TempDir(), "x.cfg")
	const good = "defaults\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\nfrontend f\n  bind 127.0.0.1:1\n"
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems, err := c.Check(t.Context(), path); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := os.WriteFile(path, []byte(good+"  bogus\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := c.Check(t.Context(), path)
	if bad, ok := errors.AsType[*haproxy.Invalid](err); !ok || bad.Problems[0].Line != 7 || !strings.Contains(bad.Error(), "bogus") {
		t.Errorf("%v", err)
	}
	if version, err := c.Version(t.Context()); err != nil || !haproxy.AtLeast(version, 2, 6) {
		t.Errorf("%s, %v", version, err)
	}
}

// TestCheckEnds: a program that hangs, that says much, or that is not there.
func TestCheckEnds(t *testing.T) {
	script := func(text string) haproxy.Checker {
		path := filepath.Join(t.TempDir(), "haproxy")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return haproxy.Checker{Binary: path, Timeout: 200 * time.Millisecond}
	}
	for name, c := range map[string]haproxy.Checker{
		"hangs": script("exec sleep 60\n"), "is missing": {Binary: "/nonexistent/haproxy"},
	} {
		began := time.Now()
		_, err := c.Check(t.Context(), "/x")
		if _, invalid := errors.AsType[*haproxy.Invalid](err); err == nil || invalid || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(began))
		}
	}
	if _, err := script("echo nothing\n").Version(t.Context()); err == nil {
		t.Error("nothing is a version")
	}
}

// TestHostileSockets: whatever answers, an error comes in time, and never no servers.
func TestHostileSockets(t *testing.T) {
	for name, answer := range map[string]string{
		"empty": "", "blank": "\n", "no version": "# be_id\n", "another thing": "Permission denied\n", "cut short": "1\n# be_id be_name srv_id",
		"hangs": "hang", "not a worker": "Name: HAProxy\nPid: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := haproxytest.Socket(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			go serve(ctx, l, answer)
			if list, err := haproxy.Stats(path).States(ctx); err == nil {
				t.Errorf("states: %v", list)
			}
			if pid, err := haproxy.Stats(path).PID(ctx); err == nil {
				t.Errorf("pid: %d", pid)
			}
			if p, err := haproxy.Master(path).Processes(ctx); err == nil {
				t.Errorf("processes: %v", p)
			}
		})
	}
	if _, err := haproxy.Stats("/nonexistent/s").PID(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func serve(ctx context.Context, l net.Listener, answer string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if answer == "hang" {
			context.AfterFunc(ctx, func() { _ = c.Close() })
			continue
		}
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte(answer))
		_ = c.Close()
	}
}
