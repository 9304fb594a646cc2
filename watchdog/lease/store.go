package lease

import (
	"context"
	"errors"
	"time"
)

// ErrHeld is returned by Acquire if somebody else holds the key.
var ErrHeld = errors.New("the lease is held by another home")

// ErrLost is returned by Renew and Write if the grant is over, or another one has
// followed it.
var ErrLost = errors.New("the lease is lost")

// ErrChanged is returned by Write if the value is another one than was read.
var ErrChanged = errors.New("the value has changed")

// Grant is the right to act on a key, from Acquire.
type Grant struct {
	Key    string
	Holder string
	Epoch  uint64        // greater than that of every grant of the key before
	TTL    time.Duration // how long the store keeps it after the request that asked
	ID     int64         // the store's own
	// Released: the grant before was given back, or there was none. If not, what its
	// holder has begun last may still be under way.
	Released bool
}

// Value is what the store has at a key.
type Value struct {
	Data   []byte // nil: never written
	Rev    int64  // of Data; 0: never written
	Holder string // empty: nobody holds the key
	Epoch  uint64 // of the holder, or of the last one
}

// HeldError is ErrHeld with the name of who holds the key.
type HeldError struct{ By string }

// Error implements error.
func (e *HeldError) Error() string { return ErrHeld.Error() + ": " + e.By }

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// MaxValue is the most bytes that Write takes.
const MaxValue = 64 << 10

// Store is where homes agree. All methods are linearizable, and fail where the store
// has no majority: they never answer from what one member remembers.
type Store interface {
	// Acquire takes the key. If this holder has it already (a restart), it is taken
	// anew with a higher epoch. It returns ErrHeld with the holder's name otherwise.
	Acquire(ctx context.Context, key, holder string, ttl time.Duration) (Grant, error)
	// Renew starts the TTL anew. It returns ErrLost.
	Renew(ctx context.Context, g Grant) error
	// Release ends the grant at once.
	Release(ctx context.Context, g Grant) error
	// Read returns what is at the key.
	Read(ctx context.Context, key string) (Value, error)
	// Write puts data at the key if the grant is the key's and rev is what Read said.
	// It returns the new revision, ErrLost or ErrChanged.
	Write(ctx context.Context, g Grant, data []byte, rev int64) (int64, error)
	// Watch calls changed after each change of one of the keys, and once at the
	// beginning, until ctx ends. It returns when ctx does.
	Watch(ctx context.Context, keys []string, changed func()) error
}
