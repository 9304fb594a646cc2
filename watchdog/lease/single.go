package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
)

// ErrClosedStore is returned by a Single that is closed.
var ErrClosedStore = errors.New("the lease store is closed")

// Single is the Store of one machine, for those who have no cluster: it knows nothing
// of other homes, so that it can't say that none of them acts. One process has it at a
// time, by a lock that ends with the process, so grants are not kept on disk; epochs
// and values are, and are there after a power cut. Use OpenSingle.
type Single struct {
	disk  disk
	clock func() Moment

	mu     sync.Mutex // held while the disk is written: what is answered is on it
	keys   map[string]*singleKey
	grants map[string]singleGrant
	lastID int64
	rev    int64
	waits  []*singleWait
	closed bool
}

// disk is where a Single keeps what it must not forget. check says whether it is still
// the only one there.
type disk struct {
	save  func(keys map[string]*singleKey) error
	check func() error
	close func() error
}

// singleKey is what is kept of a key.
type singleKey struct {
	Epoch uint64 `json:"epoch"`
	// Clean: the last grant was released.
	Clean bool   `json:"clean"`
	Rev   int64  `json:"rev,omitempty"`
	Data  []byte `json:"data,omitempty"`
}

type singleGrant struct {
	Grant
	end time.Duration
}

type singleWait struct {
	keys []string
	wake chan struct{}
}

const singleDocument = "leases"

// OpenSingle opens the store in dir, and makes dir if it is missing. The error wraps
// journal.ErrLocked if another process has it. Close it.
func OpenSingle(dir string, log *slog.Logger) (*Single, error) {
	j, err := journal.Open(dir, journal.Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("opening the lease store: %w", err)
	}
	save := func(keys map[string]*singleKey) error { return j.Save(singleDocument, keys) }
	s := newSingle(disk{save, j.Check, j.Close}, Clock)
	if _, err := j.Load(singleDocument, &s.keys); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("opening the lease store: %w", err), j.Close())
	}
	for _, k := range s.keys {
		s.rev = max(s.rev, k.Rev)
	}
	return s, nil
}

func newSingle(d disk, clock func() Moment) *Single {
	return &Single{disk: d, clock: clock, keys: map[string]*singleKey{}, grants: map[string]singleGrant{}}
}

// Close ends all grants.
func (s *Single) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	clear(s.grants)
	return s.disk.close()
}

// Acquire implements Store.
func (s *Single) Acquire(_ context.Context, key, holder string, ttl time.Duration) (Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return Grant{}, err
	}
	clock := s.clock()
	now := clock.Boot
	if g, held := s.held(key, now); held && g.Holder != holder {
		return Grant{}, &HeldError{By: g.Holder}
	}
	before := s.key(key)
	next := before
	next.Epoch, next.Clean = NextEpoch(before.Epoch, time.Unix(0, int64(clock.Wall))), false
	if err := s.save(key, next); err != nil {
		return Grant{}, err
	}
	s.lastID++
	g := Grant{Key: key, Holder: holder, Epoch: next.Epoch, TTL: ttl, ID: s.lastID, Released: before.Clean || before.Epoch == 0}
	s.grants[key] = singleGrant{g, now + ttl}
	s.tell(key)
	return g, nil
}

// Above has the epochs of a key go on above one that another machine has used.
func (s *Single) Above(_ context.Context, key string, epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	k := s.key(key)
	if k.Epoch >= epoch {
		return nil
	}
	if _, held := s.held(key, s.clock().Boot); held {
		return nil // what is held keeps its epoch, and whoever has a higher one takes it
	}
	k.Epoch, k.Clean = epoch, false
	return s.save(key, k)
}

// Renew implements Store.
func (s *Single) Renew(_ context.Context, g Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(g); err != nil {
		return err
	}
	s.grants[g.Key] = singleGrant{g, s.clock().Boot + g.TTL}
	return nil
}

// Release implements Store.
func (s *Single) Release(_ context.Context, g Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(g); err != nil {
		return err
	}
	k := s.key(g.Key)
	k.Clean = true
	if err := s.save(g.Key, k); err != nil {
		return err
	}
	delete(s.grants, g.Key)
	s.tell(g.Key)
	return nil
}

// Read implements Store.
func (s *Single) Read(_ context.Context, key string) (Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return Value{}, err
	}
	k := s.key(key)
	v := Value{Data: slices.Clone(k.Data), Rev: k.Rev, Epoch: k.Epoch}
	if g, held := s.held(key, s.clock().Boot); held {
		v.Holder = g.Holder
	}
	return v, nil
}

// Write implements Store.
func (s *Single) Write(_ context.Context, g Grant, data []byte, rev int64) (int64, error) {
	if err := CheckValue(data); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(g); err != nil {
		return 0, err
	}
	k := s.key(g.Key)
	if k.Rev != rev {
		return 0, ErrChanged
	}
	k.Rev, k.Data = s.rev+1, append([]byte{}, data...)
	if err := s.save(g.Key, k); err != nil {
		return 0, err
	}
	s.rev = k.Rev
	s.tell(g.Key)
	return k.Rev, nil
}

// Watch implements Store. That a grant has run out is noticed within a second.
func (s *Single) Watch(ctx context.Context, keys []string, changed func()) error {
	w := &singleWait{keys: keys, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.waits = append(s.waits, w)
	s.mu.Unlock()
	defer s.forget(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	changed()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
			changed()
		case <-tick.C:
			s.expire()
		}
	}
}

func (s *Single) forget(w *singleWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = slices.DeleteFunc(s.waits, func(x *singleWait) bool { return x == w })
}

// expire drops grants whose time is over.
func (s *Single) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().Boot
	for key := range s.grants {
		s.held(key, now)
	}
}

// held returns the grant of a key, if its time is not over. The caller holds mu, as
// for all below.
func (s *Single) held(key string, now time.Duration) (Grant, bool) {
	g, ok := s.grants[key]
	if ok && now >= g.end {
		delete(s.grants, key)
		s.tell(key)
		return Grant{}, false
	}
	return g.Grant, ok
}

func (s *Single) check(g Grant) error {
	if err := s.usable(); err != nil {
		return err
	}
	if now, held := s.held(g.Key, s.clock().Boot); !held || now.ID != g.ID || now.Epoch != g.Epoch {
		return ErrLost
	}
	return nil
}

// usable also finds that the lock was taken away, and then nobody may go on.
func (s *Single) usable() error {
	if s.closed {
		return ErrClosedStore
	}
	return s.disk.check()
}

func (s *Single) key(name string) singleKey {
	if k := s.keys[name]; k != nil {
		return *k
	}
	return singleKey{}
}

func (s *Single) save(name string, k singleKey) error {
	before := s.keys[name]
	s.keys[name] = &k
	err := s.disk.save(s.keys)
	if err == nil {
		return nil
	}
	if before == nil {
		delete(s.keys, name)
	} else {
		s.keys[name] = before
	}
	return err
}

func (s *Single) tell(key string) {
	for _, w := range s.waits {
		if slices.Contains(w.keys, key) {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

// CheckValue refuses data that no Store takes.
func CheckValue(data []byte) error {
	if len(data) > MaxValue {
		return fmt.Errorf("the value has %d bytes: at most %d are allowed", len(data), MaxValue)
	}
	return nil
}

// Interface guards.
var _ Store = (*Single)(nil)
