package wizard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

// Findings is what the provider says of the answers.
type Findings struct {
	// The zone of the site. Its name is empty if the token may not know it.
	Zone cloudflare.Zone
	// The path that the site is on; empty if it is on none.
	On string
	// The records that are not marked as ours yet.
	Adopt []records.Record
	// Problems forbid to go on.
	Problems []string
	// Notes are worth knowing.
	Notes []string
}

// Err is an error with all problems, or nil.
func (f Findings) Err() error {
	if len(f.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("the DNS records are not ready:\n  %s", strings.Join(f.Problems, "\n  "))
}

// Review checks the token, and reads the records that the answers are about. It
// changes nothing. An error means that the provider could not be asked, or refused;
// it is a [*cloudflare.Error] then. The answers must be normal.
func Review(ctx context.Context, c *cloudflare.Client, a Answers) (Findings, error) {
	var f Findings
	var err error
	if f.Zone, err = findZone(ctx, c, a); err != nil {
		return Findings{}, err
	}
	state, err := c.Verify(ctx, f.Zone.ID)
	if err != nil {
		return Findings{}, err
	}
	if !state.Expires.IsZero() {
		f.note("the token expires on %s: from then on nothing can be switched", state.Expires.UTC().Format(time.DateOnly))
	}
	var found []records.Record
	for _, name := range append(slices.Clone(a.Names), a.Canary) {
		list, err := c.ByName(ctx, f.Zone.ID, name)
		if err != nil {
			return Findings{}, err
		}
		found = append(found, list...)
	}
	if err := f.nameZone(ctx, c); err != nil {
		return Findings{}, err
	}
	f.judge(a, found)
	return f, nil
}

// findZone looks for the zone with the longest name that the domain is in.
func findZone(ctx context.Context, c *cloudflare.Client, a Answers) (cloudflare.Zone, error) {
	if isID(a.Zone) {
		return cloudflare.Zone{ID: a.Zone}, nil
	}
	if a.Zone != "" {
		zone, err := c.ZoneByName(ctx, a.Zone)
		return zone, lookedUp(err)
	}
	var first error
	for name := a.Domain; strings.Contains(name, "."); _, name, _ = strings.Cut(name, ".") {
		zone, err := c.ZoneByName(ctx, name)
		if e, ok := errors.AsType[*cloudflare.Error](err); !ok || e.Kind != cloudflare.KindNotFound {
			return zone, lookedUp(err)
		}
		if first == nil {
			first = err
		}
	}
	return cloudflare.Zone{}, lookedUp(first)
}

// lookedUp says how to do without what has failed.
func lookedUp(err error) error {
	if e, ok := errors.AsType[*cloudflare.Error](err); ok && e.Permanent() {
		return fmt.Errorf("%w (with --zone and its id the zone need not be looked up)", err)
	}
	return err
}

// nameZone asks for the name of a zone that was given by its id. It comes last: where
// the token may not know, the client asks nothing more about that zone for a while.
func (f *Findings) nameZone(ctx context.Context, c *cloudflare.Client) error {
	if f.Zone.Name != "" {
		return nil
	}
	zone, err := c.Zone(ctx, f.Zone.ID)
	if e, ok := errors.AsType[*cloudflare.Error](err); ok && e.Permanent() {
		f.note("the token may not read the zone's name, so that it is not known whether zone %s is the right one", f.Zone.ID)
		return nil
	}
	if err == nil {
		f.Zone = zone
	}
	return err
}

func (f *Findings) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

func (f *Findings) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}
