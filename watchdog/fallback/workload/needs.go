package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// finding makes one of an error.
func finding(check string, item fallback.Item, what string, err error) control.Finding {
	f := control.Finding{Check: check, Item: item.Name, OK: err == nil, Detail: what}
	if err != nil {
		f.Detail = fmt.Sprintf("%s: %v", what, err)
	}
	return f
}

func (r single) needs(ctx context.Context, item fallback.Item) []control.Finding {
	return r.dockerNeeds(ctx, item, func(s *engine) ([]container.InspectResponse, error) {
		c, err := s.find(ctx, ref(item))
		return []container.InspectResponse{c}, err
	})
}

// dockerNeeds looks for the item's containers, their images, networks and volumes, and
// for paths.
func (w *Workloads) dockerNeeds(ctx context.Context, item fallback.Item, find func(*engine) ([]container.InspectResponse, error)) []control.Finding {
	s, err := w.docker.session(ctx)
	if err != nil {
		return []control.Finding{finding("docker", item, "docker", err)}
	}
	defer s.close()
	what := "container " + ref(item)
	if item.Kind == fallback.KindCompose {
		what = "compose project " + ref(item)
	}
	all, err := find(s)
	if errors.Is(err, errNone) {
		err = fmt.Errorf("%w: create it first, nothing is created here", err)
	}
	list := []control.Finding{finding("item", item, what, err)}
	images := map[string]bool{}
	for _, c := range all {
		if c.Image != "" && !images[c.Image] {
			images[c.Image] = true
			list = append(list, finding("image", item, "image "+c.Config.Image, s.image(ctx, c.Image)))
		}
	}
	for _, n := range item.Networks {
		list = append(list, finding("network", item, "network "+n, s.network(ctx, n)))
	}
	for _, v := range item.Volumes {
		list = append(list, finding("volume", item, "volume "+v, s.volume(ctx, v)))
	}
	return append(list, w.pathNeeds(ctx, item)...)
}

func (w *Workloads) pathNeeds(ctx context.Context, item fallback.Item) (list []control.Finding) {
	for _, p := range item.Paths {
		list = append(list, finding("path", item, p, w.paths.Ready(ctx, p)))
	}
	return list
}

func (s *engine) image(ctx context.Context, id string) error {
	return call(ctx, callTime, func(ctx context.Context) error {
		_, err := s.client.ImageInspect(ctx, id)
		return err
	})
}

func (s *engine) network(ctx context.Context, name string) error {
	if err := segment(name); err != nil {
		return err
	}
	return call(ctx, callTime, func(ctx context.Context) error {
		r, err := s.client.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
		if err == nil && r.Network.Name != name {
			return fmt.Errorf("no such network (%.80q has an id like that)", r.Network.Name)
		}
		return err
	})
}

func (s *engine) volume(ctx context.Context, name string) error {
	if err := segment(name); err != nil {
		return err
	}
	return call(ctx, callTime, func(ctx context.Context) error {
		_, err := s.client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return err
	})
}

// segment refuses names that would be more than one segment of a URL's path.
func segment(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\") {
		return fmt.Errorf("%q can't be a name", name)
	}
	return nil
}
