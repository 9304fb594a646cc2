package stage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a program of ours, with a folder of its own; its log stays there.
type Process struct {
	bin   string
	dir   string
	enter []string // what runs it, as in "nsenter ..."
	env   []string
	cmd   *exec.Cmd
	over  chan struct{} // closed when it has ended
}

// Start runs it. It ends with this one, however that ends.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// What was left of the socket of one that was killed would be taken for an answer.
	_ = os.Remove(p.file("admin"))
	argv := append(append([]string{}, p.enter...), p.bin, "run", "--config", p.file("Caddyfile"), "--adapter", "caddyfile")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	over, started := make(chan struct{}), make(chan error)
	go func() {
		// The death signal is that of the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(over)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	p.cmd, p.over = cmd, over
	return nil
}

func (p *Process) file(name string) string { return filepath.Join(p.dir, name) }

// Log is all that it has said.
func (p *Process) Log() string {
	text, _ := os.ReadFile(p.file("log"))
	return string(text)
}

// Runs reports whether it has been started and has not ended.
func (p *Process) Runs() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// Kill is kill -9.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.over
}

// Stop ends it, gently first.
func (p *Process) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.over:
	case <-time.After(20 * time.Second):
		p.Kill()
	}
}

// client speaks to the admin API, over its socket.
func (p *Process) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.file("admin"))
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// Call asks the admin API, and decodes the answer into v unless that is nil.
func (p *Process) Call(ctx context.Context, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := p.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func (p *Process) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.client().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	return resp, nil
}

// follow calls f with each event of a stream, until that ends.
func (p *Process) follow(ctx context.Context, path string, f func(data []byte)) error {
	resp, err := p.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			f([]byte(data))
		}
	}
	return lines.Err()
}

// Command runs a command of the program, as a person at that machine does who types
// input.
func (p *Process) Command(ctx context.Context, input string, args ...string) (out string, code int, err error) {
	argv := append(append([]string{}, p.enter...), p.bin)
	argv = append(append(argv, args...), "--address", "unix/"+p.file("admin"))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = append(os.Environ(), p.env...), p.dir, strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return string(text), cmd.ProcessState.ExitCode(), err
}
