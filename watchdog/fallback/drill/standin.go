package drill

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// standIn is an item that only sleeps, and has no data.
func standIn(i fallback.Item) fallback.Item {
	return fallback.Item{
		Name: i.Name, Kind: fallback.KindCommand, After: i.After, Ready: i.Ready, StopWithin: i.StopWithin, Optional: i.Optional, DNS: i.DNS,
		Start: sleeping, Stop: sleeping, Look: sleeping,
	}
}

var sleeping = []string{"sleep"}

// standIns runs them: processes that end by themselves when the drill is over, and with
// this one.
type standIns struct {
	most time.Duration
	mu   sync.Mutex // guards what follows; held for no I/O but the start of a process
	runs map[string]*sleeper
	over bool
}

type sleeper struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func newStandIns(most time.Duration) *standIns {
	return &standIns{most: most, runs: map[string]*sleeper{}}
}

// Start implements control.Workloads.
func (s *standIns) Start(_ context.Context, item fallback.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return fmt.Errorf("the drill is over")
	}
	if s.well(item.Name) {
		return nil
	}
	cmd := exec.Command("sleep", strconv.Itoa(int(s.most/time.Second)+1))
	bind(cmd)
	p := &sleeper{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		return fmt.Errorf("starting the stand-in of %s: %w", item.Name, err)
	}
	s.runs[item.Name] = p
	return nil
}

func (s *standIns) well(name string) bool {
	p := s.runs[name]
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Stop implements control.Workloads.
func (s *standIns) Stop(ctx context.Context, item fallback.Item) error {
	s.mu.Lock()
	p := s.runs[item.Name]
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Kill()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Look implements control.Workloads.
func (s *standIns) Look(_ context.Context, item fallback.Item) (control.Seen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.well(item.Name) {
		return control.Seen{Running: control.RunningWell, Detail: "its stand-in sleeps"}, nil
	}
	return control.Seen{Running: control.RunningStopped, Detail: "its stand-in does not run"}, nil
}

// close ends them all, for good.
func (s *standIns) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, p := range s.runs { // nobody starts one any more
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// updater stands in for the DNS updater: it writes nothing anywhere.
type updater struct {
	mu sync.Mutex // guards on
	on map[string]bool
}

// On implements control.DNS.
func (u *updater) On(_ context.Context, home fallback.Home, may func() (uint64, bool)) error {
	if _, ok := may(); !ok {
		return fmt.Errorf("the records of %s may not be written: the lease is not ours", home.ID)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.on[home.ID] = true
	return nil
}

// Off implements control.DNS.
func (u *updater) Off(_ context.Context, home string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.on, home)
	return nil
}

// Verify implements control.DNS.
func (u *updater) Verify(_ context.Context, home fallback.Home) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.on[home.ID] {
		return fmt.Errorf("the updater of %s is off here", home.ID)
	}
	return nil
}
