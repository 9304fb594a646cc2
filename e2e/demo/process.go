package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a program of ours, with a home of its own; its log stays there.
type process struct {
	bin       string
	caddyfile string
	admin     string
	dir       string
	cmd       *exec.Cmd
	over      chan struct{} // closed when it has ended
}

func newProcess(bin string) (p *process, err error) {
	p = &process{}
	if p.bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	if p.admin, err = freeAddr(); err != nil {
		return nil, err
	}
	p.dir, err = os.MkdirTemp("", "edge-demo")
	return p, err
}

// start runs it for the first time.
func (p *process) start(caddyfile string) error {
	p.caddyfile = caddyfile
	err := os.WriteFile(p.file("Caddyfile"), []byte(caddyfile), 0o600)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		p.stop()
		return fmt.Errorf("starting %s: %w", p.bin, err)
	}
	return nil
}

func (p *process) run() error {
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, over := exec.Command(p.bin, "run", "--config", p.file("Caddyfile")), make(chan struct{})
	cmd.Env = p.env()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.over = cmd, over
	go func() {
		_ = cmd.Wait()
		close(over)
	}()
	return nil
}

// env gives it a home of its own.
func (p *process) env() []string {
	return append(os.Environ(), "HOME="+p.dir, "XDG_DATA_HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir)
}

func (p *process) file(name string) string { return filepath.Join(p.dir, name) }

// ended is the error of a process that should not have.
func (p *process) ended() error {
	log, _ := os.ReadFile(p.file("log"))
	return fmt.Errorf("%s has ended: %s", filepath.Base(p.bin), log)
}

// lastWords is the end of its log.
func (p *process) lastWords() string {
	log, _ := os.ReadFile(p.file("log"))
	return string(log[max(0, len(log)-mostWords):])
}

const mostWords = 2 << 10

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.over
}

// stop ends it, gently first, and removes what it left.
func (p *process) stop() {
	defer os.RemoveAll(p.dir)
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.over:
	case <-time.After(3 * time.Second):
		p.kill()
	}
}

// get asks the admin API.
func (p *process) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
