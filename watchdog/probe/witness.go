package probe

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Witness tells whether we reach the Internet: whether some of several independent
// servers finish a TLS handshake and show a valid certificate. A captive portal, or
// a router that answers for everybody, cannot do that.
//
// Our own machine at fault, without a descriptor or a route, is bad here and not
// unknown: in either case we cannot see.
type Witness struct {
	// Targets are the servers to reach. Default: those of Targets, for the Family.
	Targets []Target
	// Family is the one of the default targets.
	Family resolve.Family
	// Need is how many must answer. Default: 2; never more than there are.
	Need int
	// Timeout is for all of them, which are tried at the same time. Default: 3s.
	Timeout time.Duration
	// Roots are the authorities to trust. Default: the system's.
	Roots *x509.CertPool
	// Dial opens a connection. Default: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Target is one server.
type Target struct {
	Name string // the certificate must be good for it
	Addr netip.AddrPort
}

// Targets returns three servers of different operators: the resolvers of package
// resolve.
func Targets(family resolve.Family) []Target {
	resolvers := resolve.Defaults()
	if family == resolve.IPv6 {
		resolvers = resolve.Defaults6()
	}
	list := make([]Target, len(resolvers))
	for i, r := range resolvers {
		list[i] = Target{r.Host(), r.Addr}
	}
	return list
}

const (
	witnessNeed    = 2
	witnessTimeout = 3 * time.Second
)

// View is what a witness saw.
type View struct {
	// Value is good if we see the Internet, bad if we are blind, and unknown if the
	// caller gave up before.
	Value   evidence.Value
	Need    int
	Seen    []Sighting // one for each target, in their order
	Started time.Time
	Took    time.Duration
}

// Sighting is how one target answered. One that was no longer waited for, because
// all was clear, is unknown.
type Sighting struct {
	Target Target
	Value  evidence.Value
	Reason Reason
	Detail string
	Took   time.Duration
}

// Answered returns the names of the targets that were reached.
func (v View) Answered() []string {
	var names []string
	for _, s := range v.Seen {
		if s.Value == evidence.Good {
			names = append(names, s.Target.Name)
		}
	}
	return names
}

// String says it in one phrase.
func (v View) String() string {
	return fmt.Sprintf("%d of %d witnesses answered, want %d: %s", len(v.Answered()), len(v.Seen), v.Need, strings.Join(v.Answered(), ", "))
}

// Run returns as soon as enough targets have answered, or too many have failed.
func (w *Witness) Run(ctx context.Context) View {
	targets := w.Targets
	if len(targets) == 0 {
		targets = Targets(w.Family)
	}
	v := View{Started: time.Now(), Seen: make([]Sighting, len(targets))}
	v.Need = min(cmp.Or(max(w.Need, 0), witnessNeed), len(targets))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b, cancel := newBudget(ctx, v.Started, cmp.Or(max(w.Timeout, 0), witnessTimeout))
	defer cancel()
	reasons := make(chan Reason, len(targets))
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() {
			v.Seen[i] = w.look(b, target)
			reasons <- v.Seen[i].Reason
		})
	}
	v.Value = tally(reasons, v.Need, len(targets))
	stop()
	wg.Wait()
	v.Took = time.Since(v.Started)
	return v
}

// tally says whether enough of n have succeeded, as soon as that is clear. It never
// is if the caller gives up.
func tally(reasons <-chan Reason, need, n int) evidence.Value {
	yes, no := 0, 0
	for range n {
		switch <-reasons {
		case OK:
			yes++
		case Cancelled:
		default:
			no++
		}
		if yes >= need {
			return evidence.Good
		}
		if no > n-need {
			return evidence.Bad
		}
	}
	return evidence.Unknown
}

// look makes one handshake.
func (w *Witness) look(b budget, target Target) Sighting {
	r := Result{Started: time.Now()}
	p := &peer{addr: target.Addr, name: target.Name, roots: w.Roots, dial: w.Dial, r: &r}
	defer p.close()
	f := p.connect(b)
	if f == nil {
		f = &fault{reason: OK}
	}
	r.conclude(f.reason, f.detail)
	if f.reason == OK {
		_ = p.tls.CloseWrite()
	}
	return Sighting{target, r.Value, r.Reason, r.Detail, time.Since(r.Started)}
}
