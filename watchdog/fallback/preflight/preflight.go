package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

// fileTime is how long a file system may take for an answer.
const fileTime = 5 * time.Second

// Config of a Preflight.
type Config struct {
	// Self is this home: data may be elsewhere here than at other homes.
	Self      string
	Workloads *workload.Workloads
	// Mounts are paths that must be mount points here. An empty one of a disk that is
	// missing would take what is written to it, and hide it later.
	Mounts []string
	// Margin is how much must be free on each disk beyond what is to come. Default: 1 GiB.
	Margin int64
}

// Need is data that is to come.
type Need struct {
	Path  string // where it will be, here
	Bytes int64
}

// Preflight looks at this machine. Use New.
type Preflight struct {
	c     Config
	paths workload.Paths
	// What the system says, apart from the rest for tests of disks that are full.
	disk   func(path string) (disk, error)
	mounts func() ([]string, error)
}

// New returns a Preflight.
func New(c Config) *Preflight {
	c.Margin = cmp.Or(c.Margin, 1<<30)
	return &Preflight{c: c, disk: diskOf, mounts: mountPoints}
}

// Local says whether these items could run here, with what is to come.
func (p *Preflight) Local(ctx context.Context, items []fallback.Item, needs []Need) []control.Finding {
	list := p.items(ctx, items)
	list = append(list, p.mounted(ctx)...)
	for _, item := range items {
		for _, d := range item.Data {
			list = append(list, p.data(ctx, item, d))
		}
	}
	return append(list, p.space(ctx, items, needs)...)
}

func finding(check, item, what string, err error) control.Finding {
	f := control.Finding{Check: check, Item: item, OK: err == nil, Detail: what}
	if err != nil {
		f.Detail = fmt.Sprintf("%s: %v", what, err)
	}
	return f
}

// items looks at Docker, and at what each item needs. If Docker is down that is said once
// and not for each of them.
func (p *Preflight) items(ctx context.Context, items []fallback.Item) (list []control.Finding) {
	var down error
	if slices.ContainsFunc(items, inDocker) {
		down = p.c.Workloads.DockerUp(ctx)
		list = append(list, finding("docker", "", "docker", down))
	}
	for _, item := range items {
		if down == nil || !inDocker(item) {
			list = append(list, p.c.Workloads.Needs(ctx, item)...)
		}
	}
	return list
}

func inDocker(i fallback.Item) bool {
	return i.Kind == fallback.KindContainer || i.Kind == fallback.KindCompose
}

// here is where the data is at this home.
func (p *Preflight) here(d fallback.Data) string { return cmp.Or(d.At[p.c.Self], d.Path) }

// ask asks about a file, which may hang.
func (p *Preflight) ask(ctx context.Context, path string, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fileTime, fmt.Errorf("no answer within %v", fileTime))
	defer cancel()
	return p.paths.Ask(ctx, path, f)
}

// data looks whether it is there, and whether it could be written: a disk with errors is
// often mounted again for reading only.
func (p *Preflight) data(ctx context.Context, item fallback.Item, d fallback.Data) control.Finding {
	path := p.here(d)
	ready, cancel := context.WithTimeoutCause(ctx, fileTime, fmt.Errorf("no answer within %v", fileTime))
	defer cancel()
	err := p.paths.Ready(ready, path)
	if err == nil {
		err = p.ask(ctx, path, func() error {
			at, err := p.disk(path)
			if err == nil && at.readOnly {
				err = errors.New("its file system is mounted for reading only")
			}
			return err
		})
	}
	return finding("data", item.Name, path, err)
}

// mounted looks whether there is a file system at each of the mount points.
func (p *Preflight) mounted(ctx context.Context) (list []control.Finding) {
	for _, path := range p.c.Mounts {
		err := p.ask(ctx, path, func() error {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return err
			}
			points, err := p.mounts()
			if err == nil && !slices.Contains(points, real) {
				err = errors.New("nothing is mounted there")
			}
			return err
		})
		if err == nil {
			ready, cancel := context.WithTimeoutCause(ctx, fileTime, fmt.Errorf("no answer within %v", fileTime))
			err = p.paths.Ready(ready, path)
			cancel()
		}
		list = append(list, finding("mount", "", path, err))
	}
	return list
}

// disk is a file system.
type disk struct {
	id       uint64
	free     int64 // bytes, for us
	noInodes bool
	readOnly bool
}

// space looks whether what is to come fits: all of it that goes to one disk together. The
// disks of all data are looked at, those to which nothing comes too: an item whose disk
// is full does not start well.
func (p *Preflight) space(ctx context.Context, items []fallback.Item, needs []Need) (list []control.Finding) {
	for _, item := range items {
		for _, d := range item.Data {
			needs = append(slices.Clip(needs), Need{Path: p.here(d)})
		}
	}
	type sum struct {
		disk
		path string // the first one there
		need int64
	}
	var disks []*sum
	for _, n := range needs {
		var at disk
		if err := p.ask(ctx, n.Path, func() (err error) { at, err = p.disk(n.Path); return err }); err != nil {
			list = append(list, finding("space", "", n.Path, err))
			continue
		}
		i := slices.IndexFunc(disks, func(s *sum) bool { return s.id == at.id })
		if i < 0 {
			i = len(disks)
			disks = append(disks, &sum{disk: at, path: n.Path})
		}
		disks[i].need += max(0, n.Bytes)
	}
	for _, s := range disks {
		list = append(list, finding("space", "", "the disk of "+s.path, enough(s.disk, s.need, p.c.Margin)))
	}
	return list
}

// enough returns nil if need fits.
func enough(d disk, need, margin int64) error {
	switch {
	case d.noInodes:
		return errors.New("it has no inodes left")
	case d.free-margin < need:
		return fmt.Errorf("%s are free, %s are to come, and %s must stay free", size(d.free), size(need), size(margin))
	}
	return nil
}

func size(n int64) string { return humanize.IBytes(uint64(max(0, n))) }
