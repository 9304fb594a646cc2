package resolve_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

func TestSet(t *testing.T) {
	a, b := addresses("192.0.2.1", "192.0.2.2"), addresses("192.0.2.2", "192.0.2.3")
	gone, empty, broken := failing(dnsmessage.RCodeNameError), addresses(), failing(dnsmessage.RCodeServerFailure)
	silent := http.HandlerFunc(hold)
	for _, tc := range []struct {
		name     string
		servers  []http.HandlerFunc
		want     string
		kind     resolve.Kind
		kinds    []resolve.Kind // of the replies
		disagree bool
	}{
		{"all agree", []http.HandlerFunc{a, a}, "[192.0.2.1 192.0.2.2]", "", []resolve.Kind{"", ""}, false},
		{"different addresses", []http.HandlerFunc{a, b}, "[192.0.2.1 192.0.2.2 192.0.2.3]", "", []resolve.Kind{"", ""}, true},
		{"one fails", []http.HandlerFunc{broken, a}, "[192.0.2.1 192.0.2.2]", "", []resolve.Kind{resolve.Failed, ""}, false},
		{"one is silent", []http.HandlerFunc{silent, a}, "[192.0.2.1 192.0.2.2]", "", []resolve.Kind{resolve.Timeout, ""}, false},
		{"one knows no such name", []http.HandlerFunc{a, gone}, "[192.0.2.1 192.0.2.2]", "", []resolve.Kind{"", resolve.NoName}, true},
		{"no such name", []http.HandlerFunc{gone, gone}, "[]", resolve.NoName, []resolve.Kind{resolve.NoName, resolve.NoName}, false},
		{"no such name, no such address", []http.HandlerFunc{gone, empty}, "[]", resolve.NoAddress, []resolve.Kind{resolve.NoName, resolve.NoAddress}, false},
		{"no such name, says one", []http.HandlerFunc{gone, silent}, "[]", resolve.Failed, []resolve.Kind{resolve.NoName, resolve.Timeout}, false},
		{"no such name, and one fails", []http.HandlerFunc{gone, broken}, "[]", resolve.Failed, []resolve.Kind{resolve.NoName, resolve.Failed}, false},
		{"all silent", []http.HandlerFunc{silent, silent}, "[]", resolve.Timeout, []resolve.Kind{resolve.Timeout, resolve.Timeout}, false},
		{"all fail", []http.HandlerFunc{broken, silent}, "[]", resolve.Failed, []resolve.Kind{resolve.Failed, resolve.Timeout}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := resolve.Set{Timeout: 400 * time.Millisecond, Grace: 100 * time.Millisecond}
			for _, h := range tc.servers {
				set.Resolvers = append(set.Resolvers, fake{handle: h}.start(t))
			}
			if tc.kinds[0] == "" || tc.kinds[1] == "" || tc.kinds[0] != resolve.Timeout && tc.kinds[1] != resolve.Timeout {
				set.Timeout = 10 * time.Second // not what is tested
			}
			if tc.kinds[0] != resolve.Timeout && tc.kinds[1] != resolve.Timeout {
				set.Grace = 10 * time.Second
			}
			start := time.Now()
			found, err := set.Lookup(t.Context(), name, resolve.IPv4)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if got := fmt.Sprint(found.Addrs); got != tc.want || found.Disagree != tc.disagree {
				t.Errorf("found %s, disagree %t", got, found.Disagree)
			}
			check(t, err, tc.kind, "")
			for i, r := range found.Replies {
				if kind := kindOf(r); kind != tc.kinds[i] || r.Resolver != host || r.Took <= 0 {
					t.Errorf("reply %d is %s, want %q: %+v", i, kind, tc.kinds[i], r)
				}
			}
		})
	}
}

func kindOf(r resolve.Reply) resolve.Kind {
	if r.Err == nil {
		return ""
	}
	return r.Err.Kind
}

// TestSetRefused: an address that is not public is no answer, however many say so.
func TestSetRefused(t *testing.T) {
	r := fake{handle: addresses("10.0.0.1")}.start(t)
	r.AllowAnyAddress = false
	set := resolve.Set{Resolvers: []*resolve.Resolver{r, r}}
	_, err := set.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, resolve.Refused, "10.0.0.0/8")

	honest := fake{handle: addresses("1.1.1.1")}.start(t)
	honest.AllowAnyAddress = false
	set = resolve.Set{Resolvers: []*resolve.Resolver{r, honest}, Grace: 10 * time.Second}
	found, err := set.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, "", "")
	if fmt.Sprint(found.Addrs) != "[1.1.1.1]" || kindOf(found.Replies[0]) != resolve.Refused {
		t.Errorf("%+v", found)
	}
}

// TestSetAsksAtOnce: two that answer only when both have been asked.
func TestSetAsksAtOnce(t *testing.T) {
	met := make(chan struct{})
	meet := func(w http.ResponseWriter, r *http.Request) {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-r.Context().Done():
			return
		}
		addresses("192.0.2.1")(w, r)
	}
	set := resolve.Set{Resolvers: []*resolve.Resolver{fake{handle: meet}.start(t), fake{handle: meet}.start(t)}}
	found, err := set.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, "", "")
	if kindOf(found.Replies[0]) != "" || kindOf(found.Replies[1]) != "" {
		t.Errorf("%+v", found.Replies)
	}
}

func TestSetCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := fake{handle: func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hold(w, r)
	}}.start(t)
	set := resolve.Set{Resolvers: []*resolve.Resolver{r, r}}
	_, err := set.Lookup(ctx, name, resolve.IPv4)
	check(t, err, resolve.Cancelled, "")
}

// TestSetWithoutGrace: the first address ends the lookup.
func TestSetWithoutGrace(t *testing.T) {
	set := resolve.Set{Grace: -1, Timeout: 10 * time.Second, Resolvers: []*resolve.Resolver{
		fake{handle: hold}.start(t), fake{handle: addresses("192.0.2.1")}.start(t),
	}}
	start := time.Now()
	found, err := set.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, "", "")
	if took := time.Since(start); took > 3*time.Second || kindOf(found.Replies[0]) != resolve.Timeout {
		t.Errorf("took %s: %+v", took, found.Replies)
	}
}
