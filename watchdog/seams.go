package watchdog

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// Seams are the places where a watchdog touches the world. Zero fields mean the
// real thing.
type Seams struct {
	// Probe runs a probe.
	Probe func(context.Context, *probe.HTTPS) probe.Result
	// Canary runs the probe of a name that is looked up first.
	Canary func(context.Context, *probe.Canary) probe.Result
	// Witness tests our own connection.
	Witness func(context.Context, *probe.Witness) probe.View
	// Find finds the home's address.
	Find func(context.Context, *origin.Finder) origin.Observation
	// Visible looks whether a change is visible.
	Visible func(context.Context, visible.Config, []visible.Want) (visible.Report, error)
	// Suspended is how long this machine has been suspended since it booted. It must
	// not depend on the wall clock.
	Suspended func() time.Duration
	// Jitter returns a number from 0 up to 1.
	Jitter func() float64
}

func (s Seams) withDefaults() Seams {
	if s.Probe == nil {
		s.Probe = func(ctx context.Context, p *probe.HTTPS) probe.Result { return p.Run(ctx) }
	}
	if s.Canary == nil {
		s.Canary = func(ctx context.Context, p *probe.Canary) probe.Result { return p.Run(ctx) }
	}
	if s.Witness == nil {
		s.Witness = func(ctx context.Context, p *probe.Witness) probe.View { return p.Run(ctx) }
	}
	if s.Find == nil {
		s.Find = func(ctx context.Context, f *origin.Finder) origin.Observation { return f.Look(ctx) }
	}
	if s.Visible == nil {
		s.Visible = visible.Check
	}
	if s.Suspended == nil {
		s.Suspended = suspended
	}
	if s.Jitter == nil {
		s.Jitter = rand.Float64
	}
	return s
}
