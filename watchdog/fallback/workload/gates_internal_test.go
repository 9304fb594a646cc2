package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGates: a stop ends the starts of its item, waits for them, and none begins until
// it has left. Other items go on.
func TestGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		other, leaveOther, _ := g.start(t.Context(), "other")
		defer leaveOther()
		ctx, leaveStart, err := g.start(t.Context(), "it")
		if err != nil {
			t.Fatal(err)
		}
		landed := false
		go func() {
			<-ctx.Done()
			time.Sleep(time.Second) // what was asked for is on its way
			landed = true
			leaveStart()
		}()
		leaveStop, err := g.stop(t.Context(), "it")
		if err != nil || !landed {
			t.Errorf("the stop did not wait for the start: %v", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
			t.Errorf("the start ended because of %v", cause)
		}
		if _, _, err := g.start(t.Context(), "it"); !errors.Is(err, errStopped) {
			t.Errorf("a start during the stop: %v", err)
		}
		leaveStop()
		_, leave, err := g.start(t.Context(), "it")
		if err != nil {
			t.Errorf("a start after the stop: %v", err)
		}
		leave()
		if other.Err() != nil {
			t.Error("the other item's start was ended too")
		}
		if len(g.items) != 1 {
			t.Errorf("%d gates are kept, want that of the other item", len(g.items))
		}
	})
}

// TestGatesGiveUp: a start that does not end keeps a stop only until its deadline.
func TestGatesGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		_, leave, _ := g.start(t.Context(), "it")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.stop(ctx, "it"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the stop ended with %v", err)
		}
		leave()
		if len(g.items) != 0 {
			t.Error("its gate is kept")
		}
	})
}
