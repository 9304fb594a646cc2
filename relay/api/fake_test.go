package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// fakeFleet makes real edits of a real catalog, and keeps all of it in memory.
type fakeFleet struct {
	relay *relay.Relay

	mu       sync.Mutex
	catalog  *catalog.Catalog
	events   []event.Event
	news     chan struct{} // closed when there is an event
	tokens   map[string]store.APIToken
	gateways map[string]string // tokens
	external []fleet.External
	ttl      time.Duration
	source   string
	fail     error // what every edit and read of tokens says
	before   func()
	serving  []fleet.RouteStatus // instead of those of the catalog
	old      int                 // how many events are in the journal only
	stopped  chan struct{}
}

func newFake(t testing.TB) *fakeFleet {
	t.Helper()
	r, err := relay.New(relay.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(0) })
	f := &fakeFleet{
		relay: r, catalog: catalog.New(), news: make(chan struct{}), tokens: map[string]store.APIToken{},
		gateways: map[string]string{}, stopped: make(chan struct{}),
	}
	f.enforce(t.Context())
	return f
}

// enforce gives the relay what the catalog has, without listeners.
func (f *fakeFleet) enforce(context.Context) {
	gateways, err := f.catalog.MonitorGateways()
	if err != nil {
		panic(err)
	}
	for i := range gateways {
		gateways[i].NoCheck = true
	}
	f.relay.Monitor.Apply(monitor.Config{Gateways: gateways, Pools: f.catalog.Settings()})
}

func (f *fakeFleet) Catalog() *catalog.Catalog {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.catalog
}

func (f *fakeFleet) Edit(ctx context.Context, actor string, change api.Change) (*catalog.Catalog, error) {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	next, did, err := change(f.catalog)
	if err != nil {
		return nil, err
	}
	f.catalog = next
	f.enforce(ctx)
	f.happened(actor, did...)
	return next, nil
}

func (f *fakeFleet) happened(actor string, did ...event.Event) {
	for _, e := range did {
		e.ID, e.At, e.Actor = uint64(len(f.events)+1), time.Now(), actor
		f.events = append(f.events, e)
	}
	close(f.news)
	f.news = make(chan struct{})
}

func (f *fakeFleet) Snapshot() *monitor.Snapshot { return f.relay.Monitor.Snapshot() }

func (f *fakeFleet) WaitSnapshot(ctx context.Context, after uint64) (*monitor.Snapshot, error) {
	return f.relay.Monitor.Wait(ctx, after)
}

func (f *fakeFleet) Serving() (list []fleet.RouteStatus) {
	if f.serving != nil {
		return f.serving
	}
	now, s := f.Catalog(), f.Snapshot()
	for _, r := range now.Backup().Routes {
		status := fleet.RouteStatus{Route: r.Name, Kind: r.Kind.String(), Hosts: r.Hosts, Port: r.Port, Pin: r.Gateway, Pool: r.Pool, Reason: "as the pool says"}
		name, _ := now.Choice(r)
		for _, p := range s.Pools {
			if p.Name != name {
				continue
			}
			for _, m := range p.Members {
				status.Members = append(status.Members, fleet.RouteMember{Gateway: m.Gateway, Role: m.Role, Reason: m.Reason})
				if m.Role == pool.RoleServing {
					status.Serving = append(status.Serving, m.Gateway)
				}
			}
		}
		if r.Gateway != "" && len(status.Serving) > 0 && status.Serving[0] != r.Gateway {
			status.Parked, status.Since, status.Back = true, time.Now(), time.Now().Add(time.Minute)
		}
		list = append(list, status)
	}
	return list
}

func (f *fakeFleet) Agents() (list []fleet.AgentStatus) {
	for _, g := range f.Catalog().Backup().Gateways {
		_, has := f.gateways[g.Name]
		list = append(list, fleet.AgentStatus{Gateway: g.Name, State: "none", Token: has})
	}
	return list
}

func (f *fakeFleet) operator(e event.Event, actor string, err error) error {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.happened(actor, e)
	}
	return err
}

func (f *fakeFleet) SetOperator(_ context.Context, gateway string, op pool.Operator, actor string) error {
	return f.operator(event.Event{Kind: event.OperatorState, Gateway: gateway, To: op.String()}, actor, f.relay.Monitor.SetOperator(gateway, op, actor))
}

func (f *fakeFleet) FailOver(_ context.Context, name, actor string) error {
	return f.operator(event.Event{Kind: event.OperatorPool, Pool: name, To: "failover"}, actor, f.relay.Monitor.FailOver(name, actor))
}

func (f *fakeFleet) FailBack(_ context.Context, name, actor string) error {
	return f.operator(event.Event{Kind: event.OperatorPool, Pool: name, To: "failback"}, actor, f.relay.Monitor.FailBack(name, actor))
}

func (f *fakeFleet) Events(_ context.Context, q store.EventQuery) (list []event.Event, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.ID > q.After && (q.Before == 0 || e.ID < q.Before) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
			(q.Gateway == "" || e.Gateway == q.Gateway) && (q.Pool == "" || e.Pool == q.Pool) {
			list = append(list, e)
		}
	}
	if most := q.Limit; len(list) > most && q.After > 0 {
		list = list[:most]
	} else if len(list) > most {
		list = list[len(list)-most:]
	}
	return list, nil
}

func (f *fakeFleet) WaitEvents(ctx context.Context, after uint64) ([]event.Event, error) {
	for {
		f.mu.Lock()
		news, list, at := f.news, f.events, max(after, uint64(f.old))
		f.mu.Unlock()
		if uint64(len(list)) > at {
			return slices.Clone(list[at:]), nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.stopped:
			return nil, context.Canceled
		}
	}
}

func (f *fakeFleet) MakeCode(_ context.Context, gateway, actor string) (string, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.happened(actor, event.Event{Kind: event.CodeMade, Gateway: gateway})
	return "ABCD-EFGH-JKLM-NPQR", time.Now().Add(10 * time.Minute), nil
}

func (f *fakeFleet) RotateToken(_ context.Context, gateway, actor string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gateways[gateway] = fmt.Sprintf("edge_gw_%064d", len(f.events))
	f.happened(actor, event.Event{Kind: event.TokenRotated, Gateway: gateway})
	return f.gateways[gateway], nil
}

func (f *fakeFleet) RevokeToken(_ context.Context, gateway, actor string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.gateways[gateway]; !ok {
		return fmt.Errorf("revoking a token in /var/lib/edge.db: %w", store.ErrNotFound)
	}
	delete(f.gateways, gateway)
	f.happened(actor, event.Event{Kind: event.TokenRevoked, Gateway: gateway})
	return nil
}

func (f *fakeFleet) External(_ context.Context, source string, states []fleet.External, ttl time.Duration) error {
	f.source, f.external, f.ttl = source, states, ttl
	return nil
}

func (f *fakeFleet) APITokens(context.Context) (list []store.APIToken, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tokens {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b store.APIToken) int { return strings.Compare(a.Name, b.Name) })
	return list, f.fail
}

func (f *fakeFleet) AddAPIToken(_ context.Context, t store.APIToken) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.tokens[t.Name]; ok {
		return fmt.Errorf("adding a token to /var/lib/edge.db: %w", store.ErrExists)
	}
	f.tokens[t.Name] = t
	return nil
}

func (f *fakeFleet) DeleteAPIToken(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.tokens[name]; !ok {
		return fmt.Errorf("deleting a token of /var/lib/edge.db: %w", store.ErrNotFound)
	}
	delete(f.tokens, name)
	return nil
}

func (f *fakeFleet) Relay() *relay.Relay { return f.relay }

// token keeps a token and returns its secret.
func (f *fakeFleet) token(name, scope string, expires time.Time) string {
	secret := "edge_api_" + strings.Repeat(name[:1], 64)
	_ = f.AddAPIToken(context.Background(), store.APIToken{
		Name: name, Scope: scope, Hash: sha256.Sum256([]byte(secret)), Created: time.Now(), Expires: expires,
	})
	return secret
}

// handlerOf serves a fake.
func handlerOf(f *fakeFleet) http.Handler {
	return api.New(api.Options{Fleet: func() api.Fleet { return f }, Actor: func(*http.Request) string { return "tester" }})
}

// alive makes traffic say that gateways work.
func (f *fakeFleet) alive(names ...string) {
	for _, name := range names {
		f.relay.Monitor.Observe(name, health.Evidence{Value: health.Good, Level: health.Content, Source: health.Traffic})
	}
	f.relay.Monitor.Stats() // behind what it has been told
}
