package council

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// seat is this watchdog's place in the council of one site.
type seat struct {
	n      *Council
	key    string
	keeper *lease.Keeper
	m      watchdog.Member

	writing sync.Mutex // one Keep at a time

	// What was last told, by Join alone.
	told  bool
	self  bool
	epoch uint64
	other string
}

// Join implements watchdog.Council.
func (n *Council) Join(ctx context.Context, site string, m watchdog.Member) {
	key := "site/" + site
	keeper, err := lease.NewKeeper(lease.KeeperConfig{Store: n.c.Store, Key: key, Holder: n.c.ID, Rules: n.c.Rules, Log: n.c.Log, Clock: n.c.Clock})
	if err != nil { // the rules were looked at in New
		n.c.Log.Error("joining a site's council", "site", site, "error", err)
		return
	}
	defer keeper.Close()
	s := &seat{n: n, key: key, keeper: keeper, m: m}
	n.mu.Lock()
	n.seats[site] = s
	n.mu.Unlock()
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { n.watch(ctx, []string{key}, changed) })
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		s.elect(ctx)
		list, news := n.sightings(site)
		m.Heard(list)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-news:
		case <-keeper.Changed():
		case <-tick.C:
		}
	}
}

// elect takes the lease if nobody has it, and tells who has.
func (s *seat) elect(ctx context.Context) {
	switch s.keeper.Now().State {
	case lease.Held:
		s.tell(true, "", nil)
		return
	case lease.Losing:
		s.tell(false, "", nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	grant, err := s.keeper.Acquire(ctx)
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		s.tell(false, held.By, nil)
		return
	}
	if err != nil {
		s.tell(false, "", nil)
		return
	}
	value, err := s.n.c.Store.Read(ctx, s.key)
	if err != nil { // without what was left behind nothing is gone on with
		s.tell(false, "", nil)
		_ = s.keeper.Release(context.WithoutCancel(ctx))
		return
	}
	s.tell(true, "", left(value))
	s.n.c.Log.Info("this watchdog writes the records of a site", "key", s.key, "epoch", grant.Epoch)
}

// left is what the writer before left behind. What cannot be read is nothing: the
// records say where they are.
func left(v lease.Value) *decide.Saved {
	if len(v.Data) == 0 {
		return nil
	}
	var saved decide.Saved
	if json.Unmarshal(v.Data, &saved) != nil {
		return nil
	}
	return &saved
}

// tell says who is elected, if that is new: of ourselves, in each epoch anew.
func (s *seat) tell(self bool, other string, left *decide.Saved) {
	epoch := s.keeper.Now().Grant.Epoch
	if s.told && s.self == self && s.other == other && (!self || s.epoch == epoch) {
		return
	}
	s.told, s.self, s.other, s.epoch = true, self, other, epoch
	s.m.Elected(self, other, left)
}

// keep writes what was decided beside the lease.
func (s *seat) keep(ctx context.Context, saved decide.Saved) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	status := s.keeper.Now()
	if status.State == lease.Free {
		return lease.ErrLost
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, err := s.n.c.Store.Read(ctx, s.key)
	if err != nil {
		return err
	}
	_, err = s.n.c.Store.Write(ctx, status.Grant, data, value.Rev)
	return err
}
