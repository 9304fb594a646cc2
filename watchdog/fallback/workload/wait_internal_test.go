package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// TestUntilWell: the end of our patience says how the item was seen last, and not that a
// question was cut off by it.
func TestUntilWell(t *testing.T) {
	ill := control.Seen{Running: control.RunningIll, Detail: "starting"}
	for _, tt := range []struct {
		name string
		look func(ctx context.Context, n int) (control.Seen, error)
		want string
	}{
		{"well in the end", func(_ context.Context, n int) (control.Seen, error) {
			if n < 5 {
				return ill, nil
			}
			return control.Seen{Running: control.RunningWell}, nil
		}, ""},
		{"never well", func(context.Context, int) (control.Seen, error) { return ill, nil }, "too long: starting"},
		{"never seen", func(context.Context, int) (control.Seen, error) { return control.Seen{}, errors.New("no docker") }, "too long: no docker"},
		{"ended", func(context.Context, int) (control.Seen, error) { return ill, final{errors.New("it has ended")} }, "it has ended"},
		{"the last look is cut off", func(ctx context.Context, n int) (control.Seen, error) {
			if n == 0 {
				return ill, nil
			}
			<-ctx.Done()
			return control.Seen{}, ctx.Err()
		}, "too long: starting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too long"))
				defer cancel()
				n := -1
				err := untilWell(ctx, func() (control.Seen, error) { n++; return tt.look(ctx, n) })
				if got := message(err); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
