package fleet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

// external is what a source outside says of one gateway, until it expires.
type external struct {
	External
	source string
	until  time.Time
}

// External takes what a health source outside of Edgeward says, for as long as
// ttl. It is evidence like that of a check, at the deepest level, repeated until
// it expires: it takes a gateway down and brings it back by the same rules. It
// returns monitor.ErrNotFound for an unknown gateway, and takes nothing then.
func (f *Fleet) External(_ context.Context, source string, states []External, ttl time.Duration) error {
	f.mu.Lock()
	for _, s := range states {
		if _, known := f.merged.Gateways[s.Gateway]; !known {
			f.mu.Unlock()
			return fmt.Errorf("gateway %s: %w", s.Gateway, monitor.ErrNotFound)
		}
	}
	now := f.o.Now()
	for _, s := range states {
		if s.Phase == health.Unknown {
			delete(f.external, s.Gateway)
			continue
		}
		f.external[s.Gateway] = external{s, source, now.Add(ttl)}
	}
	heard := f.outside(now)
	f.mu.Unlock()
	for _, o := range heard {
		f.o.Relay.Monitor.Observe(o.gateway, o.evidence)
	}
	return nil
}

// outside is the evidence of sources outside that holds now. The caller holds mu.
func (f *Fleet) outside(now time.Time) (list []observation) {
	for gateway, e := range f.external {
		if !now.Before(e.until) {
			delete(f.external, gateway)
			continue
		}
		ev := health.Evidence{
			Value: health.Good, Level: health.Content, Source: health.Operator, Detail: cmp.Or(e.Reason, "said by "+e.source),
		}
		if e.Phase == health.Down {
			ev.Value, ev.Firm = health.Bad, true
		}
		list = append(list, observation{gateway, ev})
	}
	return list
}

// SetOperator sets what a person wants of a gateway. See monitor.SetOperator.
func (f *Fleet) SetOperator(_ context.Context, gateway string, op pool.Operator, actor string) error {
	if err := f.o.Relay.Monitor.SetOperator(gateway, op, actor); err != nil {
		return err
	}
	f.did(actor, event.Event{Kind: event.OperatorState, Gateway: gateway, To: op.String()})
	return nil
}

// FailOver sends new visitors of a pool elsewhere. See monitor.FailOver.
func (f *Fleet) FailOver(_ context.Context, name, actor string) error {
	if err := f.o.Relay.Monitor.FailOver(name, actor); err != nil {
		return err
	}
	f.did(actor, event.Event{Kind: event.OperatorPool, Pool: name, To: "failover"})
	return nil
}

// FailBack ends the cooldowns of a pool. See monitor.FailBack.
func (f *Fleet) FailBack(_ context.Context, name, actor string) error {
	if err := f.o.Relay.Monitor.FailBack(name, actor); err != nil {
		return err
	}
	f.did(actor, event.Event{Kind: event.OperatorPool, Pool: name, To: "failback"})
	return nil
}
