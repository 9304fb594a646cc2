package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPathsHang: a dead file system costs one goroutine, not one for each look.
func TestPathsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Paths
		wake := make(chan struct{})
		var asked atomic.Int32
		dead := func() error { asked.Add(1); <-wake; return nil }
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := p.Ask(ctx, "/dead", dead); !errors.Is(err, ErrHangs) {
				t.Errorf("asking a dead file system: %v", err)
			}
			cancel()
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times while it hangs", asked.Load())
		}
		if err := p.Ask(t.Context(), "/other", func() error { return nil }); err != nil {
			t.Error("another path:", err)
		}
		close(wake)
		synctest.Wait()
		if err := p.Ask(t.Context(), "/dead", dead); err != nil || asked.Load() != 2 {
			t.Errorf("it answers again: %v", err)
		}
	})
}
