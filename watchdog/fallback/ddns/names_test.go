package ddns_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// TestVerifyNames: the user's own updater is believed when the names lead to this home.
func TestVerifyNames(t *testing.T) {
	none, down := "none", "down"
	tests := map[string]struct {
		a, aaaa  string // what resolvers say: addresses, none, or down
		v4, v6   netip.Addr
		disagree bool
		good     bool
	}{
		"here":                        {a: "9.9.9.20", aaaa: "2600::20", v4: attic4, v6: attic6, good: true},
		"IPv4 alone is published":     {a: "9.9.9.20", aaaa: none, v4: attic4, v6: attic6, good: true},
		"IPv6 alone is published":     {a: none, aaaa: "2600::20", v4: attic4, v6: attic6, good: true},
		"another machine of this net": {a: "9.9.9.20", aaaa: "2600::21", v4: attic4, v6: attic6, good: true},
		"IPv6 is not known":           {a: "9.9.9.20", aaaa: "2600:1::", v4: attic4, good: true},
		"elsewhere":                   {a: "9.9.9.10", aaaa: none, v4: attic4, v6: attic6},
		"here and elsewhere":          {a: "9.9.9.20 9.9.9.10", aaaa: none, v4: attic4},
		"the other family elsewhere":  {a: "9.9.9.20", aaaa: "2600:1::20", v4: attic4, v6: attic6},
		"one resolver has the old":    {a: "9.9.9.20", aaaa: none, v4: attic4, disagree: true},
		"nothing":                     {a: none, aaaa: none, v4: attic4, v6: attic6},
		"no resolver answers":         {a: down, aaaa: down, v4: attic4, v6: attic6},
		"we are nowhere":              {a: "9.9.9.20", aaaa: none},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				lookup := func(_ context.Context, name string, family resolve.Family) (found resolve.Found, err error) {
					if name != "www.example.com" && (!strings.HasSuffix(name, ".example.org") || strings.Contains(name, "*")) {
						t.Errorf("it asked for %s", name)
					}
					says := test.a
					if family == resolve.IPv6 {
						says = test.aaaa
					}
					switch says {
					case none:
						return found, &resolve.Error{Kind: resolve.NoAddress}
					case down:
						return found, &resolve.Error{Kind: resolve.Timeout}
					}
					for a := range strings.FieldsSeq(says) {
						found.Addrs = append(found.Addrs, mustAddr(a))
					}
					found.Disagree = test.disagree
					return found, nil
				}
				m := w.machine("attic", test.v4, test.v6, func(c *ddns.Config) { c.Lookup = lookup })
				home := fallback.Home{ID: "cellar", Names: []string{"www.example.com", "*.example.org"}}
				began := time.Now()
				err := m.Verify(t.Context(), home)
				if (err == nil) != test.good {
					t.Errorf("got %v", err)
				}
				if err != nil && (time.Since(began) > 3*time.Minute || time.Since(began) < time.Minute) {
					t.Errorf("it waited for %s", time.Since(began))
				}
				if err != nil && !errors.Is(err, ddns.ErrElsewhere) && !errors.Is(err, ddns.ErrNoAddress) && test.a != down {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
