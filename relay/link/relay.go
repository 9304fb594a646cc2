package link

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Relay is what the relay's side can do. Its errors are the ones below, wrapped or
// not, with the reason in their text: it is told to the agent, so it must hold no
// secret. Anything else is a fault of the relay, which is logged and not told.
type Relay interface {
	// Pair trades a code, in the form of NormalizeCode, for a token. It returns
	// ErrForbidden for a code that is unknown, used up or expired.
	Pair(ctx context.Context, code string, from netip.Addr) (PairAnswer, error)
	// Authenticate tells whose token it is, or ErrForbidden.
	Authenticate(token string) (gateway string, err error)
	Heartbeat(ctx context.Context, gateway string, hb Heartbeat) (HeartbeatAnswer, error)
	Applied(ctx context.Context, gateway string, a Applied) error
	// Table returns the gateway's table once its hash is not the one given, and
	// nil if that has not come to be within wait.
	Table(ctx context.Context, gateway, hash string, wait time.Duration) (*Table, error)
	// Rotate makes a new token. The old one is void when it returns.
	Rotate(ctx context.Context, gateway string) (RotateAnswer, error)
}

// The errors that both sides know.
var (
	// ErrNoToken: there is no token, or no code to pair with. 401.
	ErrNoToken = errors.New("no token")
	// ErrForbidden: the token or the code is wrong, revoked or used up. 403.
	ErrForbidden = errors.New("not accepted")
	// ErrTooMany: too many tries at pairing from one source. 429.
	ErrTooMany = errors.New("too many tries")
	// ErrBusy: not now. 503.
	ErrBusy = errors.New("busy")
)
