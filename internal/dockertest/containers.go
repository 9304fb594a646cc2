package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Spec is a container of the guest's image, without a network unless it says so.
type Spec struct {
	Name string
	// Cmd are the guest's arguments: run [<file to make>]; stubborn; exit <code> <after>;
	// file <path>.
	Cmd    []string
	Labels map[string]string
	// Health is a path inside that exists as long as it is healthy. Empty: no check.
	Health  string
	Restart container.RestartPolicyMode
	// Binds are directories of this machine, as /here:/there.
	Binds   []string
	Network string // default: none
	// Remove it when it ends.
	AutoRemove bool
}

// Name returns one that no other test uses.
func (d *Docker) Name(t testing.TB, word string) string {
	t.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return d.prefix + clean + "-" + word
}

// Image returns the guest's image.
func (d *Docker) Image(t testing.TB) string {
	t.Helper()
	image, err := d.image()
	if err != nil {
		t.Fatal("making the image: ", err)
	}
	return image
}

// Create makes a container, which is removed when the test is over, and returns its id.
func (d *Docker) Create(t testing.TB, s Spec) string {
	t.Helper()
	id, err := d.create(t.Context(), d.Image(t), s)
	if err != nil {
		t.Fatal("creating a container: ", err)
	}
	t.Cleanup(func() { d.Remove(t, id) })
	return id
}

// Remove removes a container, running or not.
func (d *Docker) Remove(t testing.TB, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		t.Error("removing a container: ", err)
	}
}

// Inspect returns what Docker says of a container.
func (d *Docker) Inspect(t testing.TB, id string) container.InspectResponse {
	t.Helper()
	r, err := d.Client.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal("inspecting a container: ", err)
	}
	return r.Container
}

// Start starts a container without us.
func (d *Docker) Start(t testing.TB, id string) {
	t.Helper()
	if _, err := d.Client.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err != nil {
		t.Fatal("starting a container: ", err)
	}
}

func (d *Docker) create(ctx context.Context, image string, s Spec) (string, error) {
	config := &container.Config{Image: image, Cmd: s.Cmd, Labels: map[string]string{"edgeward.test": "yes"}}
	maps.Copy(config.Labels, s.Labels)
	if s.Health != "" {
		config.Healthcheck = &container.HealthConfig{
			Test: []string{"CMD", "/guest", "file", s.Health}, Interval: 100 * time.Millisecond, Timeout: 30 * time.Second, Retries: 1,
		}
	}
	network := s.Network
	if network == "" {
		network = "none"
	}
	host := &container.HostConfig{
		Binds: s.Binds, NetworkMode: container.NetworkMode(network), AutoRemove: s.AutoRemove,
		RestartPolicy: container.RestartPolicy{Name: s.Restart},
	}
	r, err := d.Client.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: s.Name})
	return r.ID, err
}

// guest is the program, built once a process: a static binary.
var guest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "edge-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "github.com/edgeward/edgeward/internal/dockertest/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %w: %s", err, said)
	}
	return os.ReadFile(out)
})

// importGuest makes an image of one file. No registry is asked.
func (d *Docker) importGuest() (string, error) {
	program, err := guest()
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err = w.WriteHeader(&tar.Header{Name: "guest", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = w.Write(program)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := d.Client.ImageImport(ctx, client.ImageImportSource{Source: &buf, SourceName: "-"}, d.imageName(),
		client.ImageImportOptions{Changes: []string{`ENTRYPOINT ["/guest"]`}})
	if err != nil {
		return "", fmt.Errorf("importing the guest: %w", err)
	}
	defer reply.Close()
	if err := importError(reply); err != nil {
		return "", fmt.Errorf("importing the guest: %w", err)
	}
	return d.imageName(), nil
}

func (d *Docker) imageName() string { return d.prefix + "guest:test" }

// importError finds the failure in a stream of progress, whose status was 200.
func importError(r io.Reader) error {
	for decoder := json.NewDecoder(r); ; {
		var line struct {
			Error string `json:"error"`
		}
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
	}
}

func (d *Docker) removeImage() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.Client.ImageRemove(ctx, d.imageName(), client.ImageRemoveOptions{Force: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
