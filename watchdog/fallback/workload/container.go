package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// single runs items that are one container.
type single struct{ *Workloads }

func (r single) start(ctx context.Context, item fallback.Item) error {
	s, err := r.docker.session(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	c, err := s.find(ctx, ref(item))
	if err != nil {
		return err
	}
	if err := r.raise(ctx, s, c); err != nil {
		return err
	}
	if err := r.awaitWell(ctx, s, c.ID); err != nil {
		r.tail(ctx, s, c, item.Name)
		return err
	}
	return nil
}

func (r single) stop(ctx context.Context, item fallback.Item) error {
	s, err := r.docker.session(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	c, err := s.find(ctx, ref(item))
	if errors.Is(err, errNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.lower(ctx, s, c, item)
}

func (r single) look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	s, err := r.docker.session(ctx)
	if err != nil {
		return control.Seen{}, err
	}
	defer s.close()
	c, err := s.find(ctx, ref(item))
	if errors.Is(err, errNone) {
		return control.Seen{Running: control.RunningStopped, Detail: err.Error()}, nil
	}
	if err != nil {
		return control.Seen{}, err
	}
	return r.lookAt(ctx, s, c)
}

// lookAt judges a container, its network with it.
func (w *Workloads) lookAt(ctx context.Context, s *engine, c container.InspectResponse) (control.Seen, error) {
	saw := judge(c)
	if saw.Running != control.RunningWell {
		return saw, nil
	}
	if fresh(c, time.Now(), w.steady) {
		return seen(control.RunningIll, "it was restarted just now, %d restarts: it may be in a loop", c.RestartCount), nil
	}
	stale, err := s.cutOff(ctx, c)
	if err != nil {
		return control.Seen{}, err
	}
	if stale != "" {
		return control.Seen{Running: control.RunningIll, Detail: stale}, nil
	}
	return saw, nil
}

// raise gives the container its restart policy back and has it started. It does not
// wait until it is well.
func (w *Workloads) raise(ctx context.Context, s *engine, c container.InspectResponse) error {
	if err := ours(c); err != nil {
		return err
	}
	if err := w.givePolicy(ctx, s, c); err != nil {
		return err
	}
	stale, err := s.cutOff(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case stale != "" && c.State.Running:
		w.log.Info("restarting a container", "container", name(c), "because", stale)
		return s.act(ctx, startTime, func(ctx context.Context) error {
			_, err := s.client.ContainerRestart(ctx, c.ID, client.ContainerRestartOptions{})
			return err
		})
	case stale != "":
		return errors.New(stale)
	case c.State.Paused:
		return s.act(ctx, startTime, func(ctx context.Context) error {
			_, err := s.client.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{})
			return err
		})
	case c.State.Running || c.State.Restarting:
		return nil
	}
	return s.act(ctx, startTime, func(ctx context.Context) error {
		_, err := s.client.ContainerStart(ctx, c.ID, client.ContainerStartOptions{})
		return err
	})
}

// ours returns an error if somebody else starts the container whenever it likes: no stop
// of it would last.
func ours(c container.InspectResponse) error {
	if service := c.Config.Labels["com.docker.swarm.service.name"]; service != "" {
		return fmt.Errorf("it belongs to the swarm service %.100s: swarm starts and stops what it wants", service)
	}
	return nil
}

// act has Docker do something that would go on without us. So it is waited for even
// when nobody wants it any more: what comes after it must not be overtaken.
func (s *engine) act(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return call(context.WithoutCancel(ctx), within, f)
}

// givePolicy puts back what takePolicy took. A policy that somebody has set since then
// is left alone.
func (w *Workloads) givePolicy(ctx context.Context, s *engine, c container.InspectResponse) error {
	policy, taken := w.memory.policy(c.ID)
	if !taken {
		return nil
	}
	if now := c.HostConfig.RestartPolicy; now.IsNone() {
		if err := s.setPolicy(ctx, c.ID, policy); err != nil {
			return fmt.Errorf("giving the restart policy %s back: %w", policy.Name, err)
		}
	}
	return w.memory.dropPolicy(c.ID)
}

// takePolicy keeps Docker from starting the container by itself. What it had is on disk
// before it is taken away.
func (w *Workloads) takePolicy(ctx context.Context, s *engine, c container.InspectResponse) error {
	policy := c.HostConfig.RestartPolicy
	if policy.IsNone() {
		return nil
	}
	if err := w.memory.keepPolicy(c.ID, policy); err != nil {
		return err
	}
	if err := s.setPolicy(ctx, c.ID, container.RestartPolicy{Name: container.RestartPolicyDisabled}); err != nil {
		return fmt.Errorf("could not confirm that its restart policy %s is off: %w", policy.Name, err)
	}
	return nil
}

func (s *engine) setPolicy(ctx context.Context, id string, policy container.RestartPolicy) error {
	return s.act(ctx, callTime, func(ctx context.Context) error {
		_, err := s.client.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{RestartPolicy: &policy})
		return err
	})
}

// awaitWell waits until the container is healthy, or has run steadily if it has no
// health check.
func (w *Workloads) awaitWell(ctx context.Context, s *engine, id string) error {
	steady := steadiness{want: w.steady}
	return untilWell(ctx, func() (control.Seen, error) {
		c, err := s.inspect(ctx, id)
		if err != nil {
			return control.Seen{}, err
		}
		saw := steady.judge(c, time.Now())
		if saw.Running == control.RunningStopped && c.HostConfig.RestartPolicy.IsNone() {
			return saw, final{fmt.Errorf("it has ended: %s", saw.Detail)}
		}
		return saw, nil
	})
}

// lower takes the restart policy, stops the container, and proves both. The policy goes
// first, so that nothing comes back if we die in between; but Docker refuses that while
// a container is restarting, so it is tried again afterwards.
func (w *Workloads) lower(ctx context.Context, s *engine, c container.InspectResponse, item fallback.Item) error {
	if err := ours(c); err != nil {
		return err
	}
	policy := w.takePolicy(ctx, s, c)
	if judge(c).Running != control.RunningStopped {
		w.halt(ctx, s, c, cmp.Or(item.StopWithin, defaultStopWithin))
	}
	if policy != nil {
		policy = w.takePolicy(ctx, s, c)
	}
	err := w.proof(ctx, s, c.ID)
	if errors.Is(err, errNone) { // it was one that removes itself
		return nil
	}
	return errors.Join(err, policy)
}

// halt stops the container, and kills it if that fails. What came of it is seen by proof.
func (w *Workloads) halt(ctx context.Context, s *engine, c container.InspectResponse, within time.Duration) {
	seconds := int(math.Ceil(within.Seconds()))
	err := call(ctx, within+callTime, func(ctx context.Context) error {
		_, err := s.client.ContainerStop(ctx, c.ID, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
	if err == nil || errdefs.IsNotFound(err) {
		return
	}
	w.log.Warn("killing a container that could not be stopped", "container", name(c), "error", err)
	_ = call(ctx, callTime, func(ctx context.Context) error {
		_, err := s.client.ContainerKill(ctx, c.ID, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
}

// proof returns nil when Docker says that the container does not run and will not by
// itself.
func (w *Workloads) proof(ctx context.Context, s *engine, id string) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := s.inspect(ctx, id)
		saw := judge(c)
		switch {
		case errors.Is(err, errNone):
			return err
		case err == nil && saw.Running == control.RunningStopped && c.HostConfig.RestartPolicy.IsNone():
			return nil
		case err == nil && saw.Running == control.RunningStopped:
			return fmt.Errorf("it is stopped, but its restart policy is %s", c.HostConfig.RestartPolicy.Name)
		}
		if !sleep(ctx, wait) {
			if err == nil {
				err = errors.New(saw.Detail)
			}
			return fmt.Errorf("could not confirm that container %s is stopped: %w", name(c), err)
		}
	}
}

// cutOff says that a container which lives in another one's network has lost it. Empty:
// it has not.
func (s *engine) cutOff(ctx context.Context, c container.InspectResponse) (string, error) {
	if !c.HostConfig.NetworkMode.IsContainer() {
		return "", nil
	}
	id := c.HostConfig.NetworkMode.ConnectedContainer()
	if !idRule.MatchString(id) {
		return "", fmt.Errorf("it lives in the network of %.80q, which is no container's id", id)
	}
	host, err := s.inspect(ctx, id)
	switch {
	case errors.Is(err, errNone):
		return fmt.Sprintf("it lives in the network of container %.12s, which does not exist any more: create it anew", id), nil
	case err != nil:
		return "", err
	case !host.State.Running:
		return fmt.Sprintf("it lives in the network of container %s, which does not run", name(host)), nil
	case c.State.Running && later(host.State.StartedAt, c.State.StartedAt):
		return fmt.Sprintf("it lives in the network of container %s, which was restarted after it", name(host)), nil
	}
	return "", nil
}

// later compares two of Docker's times.
func later(a, b string) bool {
	x, errX := time.Parse(time.RFC3339Nano, a)
	y, errY := time.Parse(time.RFC3339Nano, b)
	return errX == nil && errY == nil && x.After(y)
}

func name(c container.InspectResponse) string {
	return cmp.Or(strings.TrimPrefix(c.Name, "/"), fmt.Sprintf("%.12s", c.ID))
}
