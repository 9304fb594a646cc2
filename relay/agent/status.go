package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// Status is how the control channel does. It says nothing of the data path, and holds
// no secret.
type Status struct {
	Relay   string `json:"relay"`
	Gateway string `json:"gateway,omitzero"` // its name at the relay, once a table has come
	// State: connected, unpaired (there is no token), refused (the relay does not
	// take the token), disconnected.
	State string `json:"state"`
	// Since is when State began; zero before the first heartbeat has ended.
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitzero"` // of the latest trouble, while there is any
	// Answered is when the relay last answered a heartbeat; RelayTime what its
	// clock said.
	Answered  time.Time `json:"answered,omitzero"`
	RelayTime time.Time `json:"relay_time,omitzero"`
	Sent      uint64    `json:"heartbeats_total"`
	Repeated  uint64    `json:"heartbeats_repeated_total"`
	// Hash is of the table in force, Wanted of the one that the relay wants here.
	Hash   string `json:"table"`
	Wanted string `json:"table_wanted,omitzero"`
	// Applied is when the table came; FromDisk says that it is the one of the run
	// before.
	Applied   time.Time         `json:"applied,omitzero"`
	FromDisk  bool              `json:"from_disk,omitzero"`
	Failed    []link.RouteFault `json:"failed"`
	LAN       netip.Addr        `json:"lan,omitzero"`
	TunnelAge float64           `json:"tunnel_age_seconds"` // negative: not known
}

// States of a Status.
const (
	Connected    = "connected"
	Unpaired     = "unpaired"
	Refused      = "refused"
	Disconnected = "disconnected"
)

// Status returns it.
func (a *Agent) Status() Status {
	a.mu.Lock()
	s := a.state
	a.mu.Unlock()
	if s.State == "" {
		s.State, s.TunnelAge = Disconnected, -1
	}
	s.Relay = a.c.Client.URL()
	s.Hash, s.Failed = a.c.Plane.Hash(), a.c.Plane.Faults()
	if s.Failed == nil {
		s.Failed = []link.RouteFault{}
	}
	return s
}

// connected notes how a heartbeat ended, and logs it if that is new.
func (a *Agent) connected(err error) {
	state := stateOf(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if err == nil {
		a.state.Answered, a.state.Error = now, ""
	} else {
		a.state.Error = err.Error()
	}
	if a.state.State == state {
		return
	}
	a.state.State, a.state.Since = state, now
	if err != nil {
		a.c.Log.Warn("no contact with the relay: the table in force is served", "state", state, "error", err, "remedy", remedies[state])
		return
	}
	a.c.Log.Info("the relay answers")
}

func stateOf(err error) string {
	switch {
	case err == nil:
		return Connected
	case errors.Is(err, link.ErrForbidden):
		return Refused
	case errors.Is(err, link.ErrNoToken):
		return Unpaired
	}
	return Disconnected
}

var remedies = map[string]string{
	Unpaired:     fmt.Sprintf("ask the relay for a code, good for %s, and run: gateway pair <url> <code>", link.CodeTTL),
	Refused:      "the token was revoked or replaced: ask the relay for a new code and pair again",
	Disconnected: "it is tried again for ever",
}
