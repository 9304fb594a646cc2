package control

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// peers asks other homes, and remembers what they said last.
type peers struct {
	c  *Control
	mu sync.Mutex // guards said; held for no I/O
	// said is by home.
	said map[string]said
}

type said struct {
	at time.Time // before it was asked
	PeerStatus
}

func newPeers(c *Control) *peers { return &peers{c: c, said: map[string]said{}} }

// ask asks a home for its status.
func (p *peers) ask(ctx context.Context, home string) (PeerStatus, error) {
	peer := p.c.cfg.Peer(home)
	if peer == nil {
		return PeerStatus{}, fmt.Errorf("home %s has no peer address", home)
	}
	asked := time.Now()
	st, err := peer.Status(ctx)
	if err != nil {
		return st, err
	}
	if st.ID != home {
		return st, fmt.Errorf("home %q answers where %s should", st.ID, home)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[home] = said{asked, st}
	return st, nil
}

// last returns what a home has said not longer ago than that.
func (p *peers) last(home string, within time.Duration) (PeerStatus, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.said[home]
	return s.PeerStatus, ok && time.Since(s.at) <= within
}

// ready asks all of them, and reports whether one is well.
func (p *peers) ready(ctx context.Context, homes []string) bool {
	var wg sync.WaitGroup
	well := make([]bool, len(homes))
	for i, home := range homes {
		wg.Go(func() {
			defer p.c.broke("asking a home")
			st, err := p.ask(ctx, home)
			well[i] = err == nil && st.Healthy
		})
	}
	wg.Wait()
	for _, w := range well {
		if w {
			return true
		}
	}
	return false
}
