package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Labels that Docker Compose gives its containers (compose v2, pkg/api/labels.go).
const (
	labelProject   = "com.docker.compose.project"
	labelService   = "com.docker.compose.service"
	labelOneoff    = "com.docker.compose.oneoff"
	labelDependsOn = "com.docker.compose.depends_on"
)

// Conditions of depends_on.
const (
	conditionHealthy   = "service_healthy"
	conditionCompleted = "service_completed_successfully"
)

// project runs items that are the containers of a compose project.
type project struct{ *Workloads }

// member is a container of a project.
type member struct {
	container.InspectResponse
	service string
	oneoff  bool              // of "compose run": stopped with the others, never started
	after   map[string]string // services, and the condition for each
	job     bool              // somebody waits for its end
}

// members returns the project's containers, those first that others depend on.
func (r project) members(ctx context.Context, s *engine, item fallback.Item) ([]member, error) {
	list, err := s.list(ctx, client.Filters{}.Add("label", labelProject+"="+ref(item)))
	if err != nil {
		return nil, err
	}
	var all []member
	for _, c := range list {
		if c.Labels[labelProject] != ref(item) {
			continue
		}
		full, err := s.inspect(ctx, c.ID)
		if errors.Is(err, errNone) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		all = append(all, newMember(full))
	}
	return order(all)
}

func newMember(c container.InspectResponse) member {
	labels := c.Config.Labels
	m := member{InspectResponse: c, service: labels[labelService], oneoff: strings.EqualFold(labels[labelOneoff], "true"), after: map[string]string{}}
	// service:condition:restart, ... (the last part since compose v2.17)
	for part := range strings.SplitSeq(labels[labelDependsOn], ",") {
		if fields := strings.Split(part, ":"); fields[0] != "" {
			m.after[fields[0]] = strings.Join(fields[1:min(2, len(fields))], "")
		}
	}
	return m
}

// order sorts the members so that each comes after what it depends on, and after whose
// network it lives in. Services that don't exist are no reason to wait: compose knows
// optional ones.
func order(all []member) ([]member, error) {
	slices.SortFunc(all, func(a, b member) int { return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.Name, b.Name)) })
	byID := map[string]string{}
	for _, m := range all {
		byID[m.ID] = m.service
	}
	services := map[string]bool{}
	for i, m := range all {
		services[m.service] = true
		if mode := m.HostConfig.NetworkMode; mode.IsContainer() && byID[mode.ConnectedContainer()] != "" && m.after[byID[mode.ConnectedContainer()]] == "" {
			all[i].after[byID[mode.ConnectedContainer()]] = "service_started"
		}
	}
	jobs := map[string]bool{}
	for _, m := range all {
		for service, condition := range m.after {
			jobs[service] = jobs[service] || condition == conditionCompleted
		}
	}
	var sorted []member
	for done := map[string]bool{}; len(sorted) < len(all); {
		next := ready(all, services, done)
		if len(next) == 0 {
			left := slices.Collect(maps.Keys(services))
			left = slices.DeleteFunc(left, func(s string) bool { return done[s] })
			slices.Sort(left)
			return nil, fmt.Errorf("its services depend on each other in a circle: %s", printable(strings.Join(left, ", ")))
		}
		for _, m := range next {
			m.job = jobs[m.service]
			sorted = append(sorted, m)
			done[m.service] = true
		}
	}
	return sorted, nil
}

// ready are the members not done yet whose dependencies are.
func ready(all []member, services, done map[string]bool) (next []member) {
	for _, m := range all {
		blocked := done[m.service]
		for service := range m.after {
			blocked = blocked || services[service] && !done[service]
		}
		if !blocked {
			next = append(next, m)
		}
	}
	return next
}

func (r project) start(ctx context.Context, item fallback.Item) error {
	s, err := r.docker.session(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	all, err := r.members(ctx, s, item)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m member) bool { return m.oneoff })
	if saw, err := r.judgeAll(ctx, s, all); err == nil && saw.Running == control.RunningWell {
		return r.give(ctx, s, all)
	}
	for _, m := range all {
		if err := r.startMember(ctx, s, m, all); err != nil {
			r.tail(ctx, s, m.InspectResponse, item.Name)
			return fmt.Errorf("service %s: %w", m.service, err)
		}
	}
	for _, m := range all {
		if err := r.await(ctx, s, m, m.job); err != nil {
			r.tail(ctx, s, m.InspectResponse, item.Name)
			return fmt.Errorf("service %s: %w", m.service, err)
		}
	}
	return nil
}

// give gives a project that is well its restart policies back.
func (r project) give(ctx context.Context, s *engine, all []member) error {
	for _, m := range all {
		if err := r.givePolicy(ctx, s, m.InspectResponse); err != nil {
			return err
		}
	}
	return nil
}

// startMember waits for what the member depends on, and starts it.
func (r project) startMember(ctx context.Context, s *engine, m member, all []member) error {
	for _, other := range all {
		condition, depends := m.after[other.service]
		switch {
		case !depends:
		case condition == conditionCompleted:
			if err := r.await(ctx, s, other, true); err != nil {
				return fmt.Errorf("it waits for the end of service %s: %w", other.service, err)
			}
		case condition == conditionHealthy:
			if err := r.await(ctx, s, other, false); err != nil {
				return fmt.Errorf("it waits for service %s: %w", other.service, err)
			}
		}
	}
	now, err := s.inspect(ctx, m.ID) // a dependency may have changed it
	if err != nil {
		return err
	}
	return r.raise(ctx, s, now)
}

// await waits until a member is well, or has ended well.
func (r project) await(ctx context.Context, s *engine, m member, end bool) error {
	if !end && !r.mayEnd(m) {
		return r.awaitWell(ctx, s, m.ID)
	}
	steady := steadiness{want: r.steady}
	return untilWell(ctx, func() (control.Seen, error) {
		c, err := s.inspect(ctx, m.ID)
		if err != nil {
			return control.Seen{}, err
		}
		saw := steady.judge(c, time.Now())
		switch ended := saw.Running == control.RunningStopped && c.State.Status == container.StateExited; {
		case ended && c.State.ExitCode == 0:
			return seen(control.RunningWell, "it has done its work"), nil
		case ended && c.HostConfig.RestartPolicy.IsNone():
			return saw, final{fmt.Errorf("it has failed: %s", saw.Detail)}
		case end && saw.Running == control.RunningWell:
			return seen(control.RunningIll, "it has not ended yet"), nil
		}
		return saw, nil
	})
}

// mayEnd says that a member has no restart policy of its own: one that ends with code 0
// may have had nothing more to do.
func (r project) mayEnd(m member) bool {
	_, taken := r.memory.policy(m.ID)
	return !taken && m.HostConfig.RestartPolicy.IsNone()
}

func (r project) stop(ctx context.Context, item fallback.Item) error {
	s, err := r.docker.session(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	all, err := r.members(ctx, s, item)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range slices.Backward(all) {
		if err := r.lower(ctx, s, m.InspectResponse, item); err != nil {
			failed = append(failed, fmt.Errorf("service %s: %w", m.service, err))
		}
	}
	return errors.Join(failed...)
}

func (r project) look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	s, err := r.docker.session(ctx)
	if err != nil {
		return control.Seen{}, err
	}
	defer s.close()
	all, err := r.members(ctx, s, item)
	if err != nil {
		return control.Seen{}, err
	}
	if len(all) == 0 {
		return seen(control.RunningStopped, "no containers of compose project %s", ref(item)), nil
	}
	return r.judgeAll(ctx, s, all)
}

// judgeAll sums up: stopped if nothing runs, well if all that should runs well, unknown
// if that is not known of one of them.
func (r project) judgeAll(ctx context.Context, s *engine, all []member) (control.Seen, error) {
	counts := map[control.Running]int{}
	var details []string
	for _, m := range all {
		saw, err := r.lookAt(ctx, s, m.InspectResponse)
		if err != nil {
			return control.Seen{}, err
		}
		switch ended := saw.Running == control.RunningStopped && m.State.Status == container.StateExited && m.State.ExitCode == 0; {
		case m.oneoff && saw.Running == control.RunningStopped, ended && (m.job || r.mayEnd(m)):
			continue // neither here nor there
		case m.job && saw.Running == control.RunningWell:
			saw = seen(control.RunningIll, "it has not ended yet")
		}
		counts[saw.Running]++
		if saw.Running != control.RunningWell {
			details = append(details, m.service+": "+saw.Detail)
		}
	}
	detail := printable(strings.Join(details, "; "))
	switch {
	case counts[control.RunningUnknown] > 0:
		return control.Seen{Running: control.RunningUnknown, Detail: detail}, nil
	case counts[control.RunningIll]+counts[control.RunningWell] == 0:
		return control.Seen{Running: control.RunningStopped, Detail: cmp.Or(detail, "all its containers have ended")}, nil
	case counts[control.RunningIll]+counts[control.RunningStopped] > 0:
		return control.Seen{Running: control.RunningIll, Detail: detail}, nil
	}
	return seen(control.RunningWell, "%d containers run well", counts[control.RunningWell]), nil
}

func (r project) needs(ctx context.Context, item fallback.Item) []control.Finding {
	return r.dockerNeeds(ctx, item, func(s *engine) ([]container.InspectResponse, error) {
		all, err := r.members(ctx, s, item)
		var list []container.InspectResponse
		for _, m := range all {
			list = append(list, m.InspectResponse)
		}
		if err == nil && !slices.ContainsFunc(all, func(m member) bool { return !m.oneoff }) {
			err = errNone
		}
		return list, err
	})
}
