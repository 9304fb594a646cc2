package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/pool"
)

// manyRoutes is a fleet of 10,000 routes in pools of three gateways.
func manyRoutes(t testing.TB) *fakeFleet {
	f := newFake(t)
	big := catalog.New()
	members := []fleet.RouteMember{}
	for _, name := range []string{"nuc", "nas", "attic"} {
		big.Gateways[name] = catalog.Gateway{Name: name, Revision: 1, Dial: "10.0.0.2:443"}
		members = append(members, fleet.RouteMember{Gateway: name, Role: pool.RoleStandby, Reason: "standby: nuc comes before it"})
	}
	for i := range 10_000 {
		name := fmt.Sprintf("app-%05d.example.com", i)
		big.Routes[name] = catalog.Route{
			Name: name, Revision: uint64(i), Hosts: []string{name, "*." + name}, Gateway: "nuc",
			Target: &catalog.Target{Host: "192.168.1.20", Port: 443},
		}
		f.serving = append(f.serving, fleet.RouteStatus{
			Route: name, Kind: "tls", Hosts: []string{name}, Pin: "nuc", Serving: []string{"nas"}, Parked: true,
			Since: time.Now(), Reason: "parked: nuc is down, nas comes next", Members: members,
		})
	}
	f.catalog = big
	return f
}

// discard counts what is written.
type discard struct {
	header http.Header
	status int
	bytes  int64
}

func (d *discard) Header() http.Header    { return d.header }
func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) Write(b []byte) (int, error) {
	d.bytes += int64(len(b))
	return len(b), nil
}

func BenchmarkListRoutes(b *testing.B) {
	h := handlerOf(manyRoutes(b))
	for b.Loop() {
		w := &discard{header: http.Header{}}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/edge/routes", nil))
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
		b.SetBytes(w.bytes)
	}
}
