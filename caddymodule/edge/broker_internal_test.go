package edge

import (
	"log/slog"
	"testing"
)

// TestOneAppIsTold: while two configs run during a reload, what happens is told once,
// to the newer; when that fails, the one before is told as if nothing had been.
func TestOneAppIsTold(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	b := &broker{}
	m := &machine{tell: &teller{log: log}}
	b.live.Store(m)
	t.Cleanup(m.tell.close)
	first := &App{log: log, emitter: &emitter{}, Notify: []*Notify{{URL: "https://127.0.0.1:1/first"}}}
	second := &App{log: log, emitter: &emitter{}, Notify: []*Notify{{URL: "https://127.0.0.1:1/second"}}}
	broken := &App{log: log, emitter: &emitter{}, Notify: []*Notify{{}}}
	if err := b.enter(first); err != nil {
		t.Fatal(err)
	}
	channels := m.tell.config
	if err := b.enter(second); err != nil {
		t.Fatal(err)
	}
	if b.emitter.Load() != second.emitter || m.tell.config == channels {
		t.Error("the newer config is not told")
	}
	b.leave(second)
	if b.emitter.Load() != first.emitter || m.tell.config != channels {
		t.Error("after a reload that failed the config before is not told")
	}
	if err := b.enter(broken); err == nil {
		t.Error("a channel without a URL was taken")
	}
	if b.emitter.Load() != first.emitter || m.tell.config != channels {
		t.Error("after a config that could not start the one before is not told")
	}
	if err := b.enter(second); err != nil {
		t.Fatal(err)
	}
	b.leave(first) // as after a reload
	if b.emitter.Load() != second.emitter {
		t.Error("the config before took the newer one's place")
	}
	b.leave(second)
	b.leave(second)
	if b.emitter.Load() != nil {
		t.Error("a config that has stopped is told")
	}
}
