package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// MaxSkew is how far the clocks of two homes may be apart.
const MaxSkew = 5 * time.Second

// Pair compares what two homes say of themselves. theirs was asked for and answered at
// these times of our clock.
func Pair(mine, theirs control.PeerStatus, asked, answered time.Time) []control.Finding {
	config := error(nil)
	if mine.Config == "" || mine.Config != theirs.Config {
		config = errors.New("the homes' configs differ: give both the same but for id")
	}
	health := error(nil)
	if !theirs.Healthy {
		health = errors.New(cmp.Or(theirs.Why, "it does not say why"))
	}
	return []control.Finding{
		finding("version", "", fmt.Sprintf("versions %s here and %s at %s", mine.Version, theirs.Version, theirs.ID), compatible(mine.Version, theirs.Version)),
		finding("config", "", fmt.Sprintf("configs %.12s here and %.12s at %s", mine.Config, theirs.Config, theirs.ID), config),
		finding("clock", "", "the clock of "+theirs.ID, skew(theirs.Now, asked, answered)),
		finding("health", "", "home "+theirs.ID, health),
	}
}

// skew returns nil if the clock that said now is surely right. It was read somewhere
// between the two times of ours.
func skew(now, asked, answered time.Time) error {
	// Without the monotonic clock: it is the other one that is compared.
	asked, answered = asked.Round(0), answered.Round(0)
	if now.IsZero() {
		return errors.New("it does not say what time it is")
	}
	if took := answered.Sub(asked); took < 0 || took > MaxSkew {
		return fmt.Errorf("the answer took %v: that says nothing of its clock", took.Round(time.Millisecond))
	}
	early, late := asked.Sub(now), now.Sub(answered)
	if off := max(early, late); off > MaxSkew {
		side := "behind"
		if late > early {
			side = "ahead of"
		}
		return fmt.Errorf("it is at least %v %s ours, more than %v: check the time service of both", off.Round(time.Millisecond), side, MaxSkew)
	}
	return nil
}

// compatible returns nil if two versions may hand items to each other: the same one, or
// releases that differ only where nothing of that changes.
func compatible(a, b string) error {
	if a == b && a != "" {
		return nil
	}
	x, okX := release(a)
	y, okY := release(b)
	if okX && okY && x == y {
		return nil
	}
	return errors.New("they must be the same, or differ in the last number only: update one of the homes")
}

// release is what must be equal of vMAJOR.MINOR.PATCH. Builds that are no release have
// nothing of it.
func release(version string) (string, bool) {
	text, ok := strings.CutPrefix(version, "v")
	parts := strings.Split(text, ".")
	if !ok || len(parts) != 3 {
		return "", false
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 32); err != nil {
			return "", false
		}
	}
	return parts[0] + "." + parts[1], true
}
