package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
)

// relay is a running edge-relay: its file has the listeners, and all else comes
// through the admin API, as it would come to edge-sidecar.
type relay struct {
	t     testing.TB
	admin string
	log   string
}

type object = map[string]any

// startRelay runs the world until the test ends.
func startRelay(t testing.TB, w *world, g ground) *relay {
	t.Helper()
	dir := t.TempDir()
	r := &relay{t: t, admin: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t, "127.0.0.1"))), log: filepath.Join(dir, "log")}
	config := object{
		"admin": object{"listen": r.admin},
		"apps": object{"edge": object{
			"database": filepath.Join(dir, "edge.db"), "ports": object{"host": g.host, "limit": barred},
			"gateways": w.filed(), "listeners": w.doors(g),
		}},
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, encode(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(dir, file)
	r.call(http.MethodPost, "/edge/restore", w.backup(g))
	return r
}

// of is the same relay for another test.
func (r *relay) of(t testing.TB) *relay { return &relay{t: t, admin: r.admin, log: r.log} }

// doors are the listeners, with the routes that only the file may have.
func (w *world) doors(g ground) (list []object) {
	for _, p := range w.listeners {
		door := object{
			"listen": []string{g.at[p.name]}, "limit": p.Limits, "hello_max_bytes": p.HelloBytes, "hello_timeout": time.Duration(p.HelloTime),
			"trusted_proxies": p.TrustedProxies, "wildcard": map[bool]string{true: "one", false: "any"}[p.OneLabel],
			"unknown": map[bool]string{true: "alert", false: "close"}[p.alert],
		}
		var routes []object
		for _, r := range w.routes {
			if r.NoName && r.Listener == p.name {
				routes = append(routes, object{"names": r.Hosts, "no_name": true, "gateway": r.Gateway})
			}
		}
		if routes != nil {
			door["routes"] = routes
		}
		list = append(list, door)
	}
	return list
}

// ofFile reports whether the file must have a gateway, for a route of the file leads
// to it.
func (w *world) ofFile(name string) bool {
	return slices.ContainsFunc(w.routes, func(r catalog.Route) bool { return r.NoName && r.Gateway == name })
}

func (w *world) filed() object {
	all := object{}
	for _, g := range w.gateways {
		if w.ofFile(g.Name) {
			all[g.Name] = object{"dial": g.Dial, "proxy_protocol": g.ProxyProtocol, "check": object{
				"kind": g.Check.Kind, "fall": g.Check.Fall, "rise": g.Check.Rise, "stale": time.Duration(g.Check.Stale),
			}}
		}
	}
	return all
}

// backup is what the file does not have.
func (w *world) backup(g ground) catalog.Backup {
	return catalog.Backup{
		Version:  1,
		Gateways: slices.DeleteFunc(slices.Clone(w.gateways), func(g catalog.Gateway) bool { return w.ofFile(g.Name) }),
		Pools:    w.pools,
		Routes:   slices.DeleteFunc(w.settled(g), func(r catalog.Route) bool { return r.NoName }),
	}
}

func (r *relay) run(dir, file string) {
	r.t.Helper()
	log, err := os.Create(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(edgeRelay, "run", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir+"/data", "XDG_CONFIG_HOME="+dir+"/config")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		r.showLog()
	})
	eventually(r.t, "edge-relay is up", func() bool {
		select {
		case <-ended:
			r.t.Fatal("edge-relay ended")
		default:
		}
		log, _ := os.ReadFile(r.log)
		return bytes.Contains(log, []byte("serving initial configuration"))
	})
}

// showLog prints the end of the log, of a test that has failed.
func (r *relay) showLog() {
	if !r.t.Failed() {
		return
	}
	log, _ := os.ReadFile(r.log)
	fmt.Fprintf(r.t.Output(), "the end of edge-relay's log:\n%s\n", log[max(0, len(log)-3<<10):])
}

// call asks the admin API.
func (r *relay) call(method, path string, send any) []byte {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var body io.Reader
	if send != nil {
		body = bytes.NewReader(encode(r.t, send))
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.admin+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		r.t.Fatalf("%s %s: %s: %v: %s", method, path, resp.Status, err, got)
	}
	return got
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("still not so: %s", what)
		case <-tick.C:
		}
	}
}
