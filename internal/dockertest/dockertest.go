// Package dockertest gives tests a real Docker: the one that runs on this machine, or
// a daemon of its own, which changes nothing of the machine's network and is gone at
// the end, with all it made.
//
//	func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }
//
//	d := dockertest.Shared(t)                  // one for all tests of a package
//	id := d.Create(t, dockertest.Spec{Name: d.Name(t, "web"), Cmd: []string{"run"}})
//
// Where there is no Docker and none can be started the test is skipped, with the
// reason. With CI=true it fails.
package dockertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// patience is for a machine that has other things to do.
const patience = 60 * time.Second

// Docker is a daemon that answers.
type Docker struct {
	// Host is its address, as DOCKER_HOST has it.
	Host string
	// Client speaks to it.
	Client *client.Client

	daemon *daemon // nil: somebody else's
	prefix string  // of all names that are given here
	image  func() (string, error)
}

var shared = struct {
	sync.Mutex
	docker *Docker
	err    error
}{}

// Main runs the tests of a package and then ends the daemon that they shared.
func Main(m *testing.M) int {
	flag.Parse()
	// They wait for containers more than they compute.
	if p := flag.Lookup("test.parallel"); p != nil && p.Value.String() == p.DefValue {
		_ = p.Value.Set("6")
	}
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.docker == nil {
		return code
	}
	if err := shared.docker.close(); err != nil {
		fmt.Fprintln(os.Stderr, "ending docker:", err)
		return max(code, 1)
	}
	return code
}

// Shared returns the Docker of this test process. The package's TestMain must be Main.
func Shared(t testing.TB) *Docker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.docker == nil && shared.err == nil {
		shared.docker, shared.err = find()
	}
	if shared.err != nil {
		skip(t, shared.err)
	}
	return shared.docker
}

// Own returns a daemon for this test alone, which may be restarted.
func Own(t testing.TB) *Docker {
	t.Helper()
	d, err := start()
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error("ending docker:", err)
		}
	})
	return d
}

// skip says why there is no Docker. It must be there in CI.
func skip(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("no docker: ", err)
	}
	t.Skip("no docker: ", err)
}

func find() (*Docker, error) {
	host := cmp.Or(os.Getenv("DOCKER_HOST"), client.DefaultDockerHost)
	// Containers get directories of this machine: it must be a Docker of this machine.
	if strings.HasPrefix(host, "unix://") {
		d, err := connect(host, 3*time.Second)
		if err == nil {
			return d, nil
		}
	}
	return start()
}

func start() (*Docker, error) {
	daemon, err := startDaemon()
	if err != nil {
		return nil, err
	}
	d, err := connect(daemon.host(), patience)
	if err == nil {
		d.daemon = daemon
		err = d.try()
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, daemon.tail())
		return nil, errors.Join(err, daemon.close())
	}
	return d, nil
}

// connect waits until a Docker answers.
func connect(host string, wait time.Duration) (*Docker, error) {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		_, err = c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		if err == nil {
			break
		}
		if !pause(ctx) || wait < patience {
			_ = c.Close()
			return nil, fmt.Errorf("asking %s: %w", host, err)
		}
	}
	d := &Docker{Host: host, Client: c, prefix: "edgetest-" + strings.ToLower(rand.Text()[:8]) + "-"}
	d.image = sync.OnceValues(d.importGuest)
	return d, nil
}

func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}

// try finds out whether containers run here: a daemon may, and they not.
func (d *Docker) try() error {
	image, err := d.image()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := d.create(ctx, image, Spec{Name: d.prefix + "try", Cmd: []string{"run"}})
	if err != nil {
		return err
	}
	_, err = d.Client.ContainerStart(ctx, id, client.ContainerStartOptions{})
	_, gone := d.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
	return errors.Join(err, gone)
}

// Restart ends the daemon as a shutdown of the machine does and starts it again. Only
// for one of Own.
func (d *Docker) Restart(t testing.TB) {
	t.Helper()
	if d.daemon == nil {
		t.Fatal("this docker belongs to the machine: use Own")
	}
	if err := d.daemon.restart(); err != nil {
		t.Fatal("restarting docker:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := d.Client.Ping(ctx, client.PingOptions{})
		if err == nil {
			return
		}
		if !pause(ctx) {
			t.Fatalf("docker does not come back: %v\n%s", err, d.daemon.tail())
		}
	}
}

func (d *Docker) close() error {
	err := d.removeImage()
	if d.daemon != nil {
		err = d.daemon.close()
	}
	return errors.Join(err, d.Client.Close())
}
