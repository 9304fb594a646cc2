package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a program of ours that runs, edge-relay or edge-watchdog.
type process struct {
	t     testing.TB
	bin   string
	dir   string // its home
	admin string
	ready func() bool
	start func(*exec.Cmd) // changes the command before it starts
	cmd   *exec.Cmd
	over  chan struct{}
	err   error // how it ended, once over is closed
}

func newProcess(t testing.TB, bin string) *process {
	t.Helper()
	return &process{t: t, bin: bin, dir: t.TempDir(), admin: freeAddr(t, "127.0.0.1")}
}

// name is that of the program.
func (p *process) name() string { return filepath.Base(p.bin) }

func (p *process) caddyfile() string { return filepath.Join(p.dir, "Caddyfile") }

// write makes the Caddyfile and returns it.
func (p *process) write(global, rest string) string {
	p.t.Helper()
	const frame = "{\n\tadmin %s\n\tlog {\n\t\texclude admin.api\n\t}\n\tgrace_period 2s\n%s\n}\n%s\n"
	text := fmt.Sprintf(frame, p.admin, global, rest)
	if err := os.WriteFile(p.caddyfile(), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return text
}

// command is the program with some arguments and a home of its own.
func (p *process) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.bin, args...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_DATA_HOME="+p.dir+"/data", "XDG_CONFIG_HOME="+p.dir+"/config")
	cmd.Dir = p.dir
	return cmd
}

// run starts the process. The test's end kills it and, if the test failed, shows
// its log.
func (p *process) run() {
	p.t.Helper()
	log := must(os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(p.t)
	defer log.Close()
	from := len(p.log())
	cmd := p.command("run", "--config", p.caddyfile(), "--adapter", "caddyfile")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.start != nil {
		p.start(cmd)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	over := make(chan struct{})
	p.cmd, p.over = cmd, over
	go func() {
		p.err = cmd.Wait()
		close(over)
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
		p.showLog()
	})
	if !within(p.t.Context(), 20*time.Second, func() bool { return p.exited() || p.ready() && p.serving(from) }) || p.exited() {
		p.t.Fatal(p.name() + " does not start")
	}
}

// do runs a command of the program and returns its output and exit code.
func (p *process) do(args ...string) (out string, code int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	cmd := p.command(args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	_ = cmd.Wait()
	return text.String(), cmd.ProcessState.ExitCode()
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.over
}

// serving reports whether all apps have started, by what was logged since from: Caddy
// starts them one by one, in no order.
func (p *process) serving(from int) bool {
	return strings.Contains(p.log()[from:], "serving initial configuration")
}

func (p *process) exited() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// mostLog is how much of the log a failed test shows.
const mostLog = 3 << 10

// showLog prints the end of the log of a failed test, and keeps all of it with
// the test's artifacts.
func (p *process) showLog() {
	if !p.t.Failed() {
		return
	}
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return
	}
	_ = os.WriteFile(filepath.Join(p.t.ArtifactDir(), p.name()+".log"), log, 0o644)
	fmt.Fprintf(p.t.Output(), "the end of %s.log:\n%s\n", p.name(), log[max(0, len(log)-mostLog):])
}

// log is all it has logged.
func (p *process) log() string { return string(must(os.ReadFile(filepath.Join(p.dir, "log")))(p.t)) }

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks for a graceful end and returns how long it took.
func (p *process) stop() time.Duration {
	p.t.Helper()
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.over:
	case <-time.After(30 * time.Second):
		p.t.Fatal(p.name() + " does not stop")
	}
	return time.Since(began)
}

// api speaks to admin APIs, over a new connection each time: a reload closes those
// that are open.
var api = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call asks the admin API and decodes the answer.
func (p *process) call(method, path string, v any) {
	p.t.Helper()
	if err := p.try(method, path, v); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) try(method, path string, v any) error {
	req, err := http.NewRequest(method, "http://"+p.admin+path, nil)
	if err != nil {
		return err
	}
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, body)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(body, v)
}

// load puts a Caddyfile in force, as "caddy reload" does.
func (p *process) load(caddyfile string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+p.admin+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("load: %s: %s", resp.Status, body)
	}
	return nil
}
