package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestRouteListIsJSON: what is written by hand is what encoding/json writes, and
// what one route answers.
func TestRouteListIsJSON(t *testing.T) {
	r := newRig(t).furnish()
	for _, text := range []string{"", "plain", "a \"quoted\" \\ one", "<b>&amp;</b>", "ü\u2028\x00\x7f\xff\n", "日本"} {
		began := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("here", 3600))
		r.serving = []fleet.RouteStatus{
			{Route: "blog", Reason: text},
			{
				Route: "git", Serving: []string{text, "nas"}, Parked: true, Since: began, Back: time.Now().Add(-time.Hour), Reason: text,
				Members: []fleet.RouteMember{{Gateway: text, Role: pool.RoleCooldown, Avoid: text, Reason: text}, {Gateway: "nas"}},
			},
		}
		list := r.want(200, "GET", "/edge/routes", "").body
		var whole []api.Route
		if err := json.Unmarshal(list, &whole); err != nil {
			t.Fatal(err)
		}
		var each []json.RawMessage
		for _, one := range whole {
			each = append(each, r.want(200, "GET", "/edge/routes/"+one.Name, "").body)
		}
		want, err := json.Marshal(each)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", string(list)); diff != "" {
			t.Errorf("%q: (-one by one +list)\n%s", text, diff)
		}
	}
}

// TestRouteListFollows: what is kept from list to list is not kept too long.
func TestRouteListFollows(t *testing.T) {
	r := newRig(t).furnish()
	ports := func() (list []int) {
		for _, one := range read[[]api.Route](r.want(200, "GET", "/edge/routes", "")) {
			list = append(list, one.Config.Port)
		}
		return list
	}
	for _, port := range []int{2222, 2223, 2224} {
		r.want(200, "PATCH", "/edge/routes/git", fmt.Sprintf(`{"port":%d}`, port))
		if got := ports(); !cmp.Equal(got, []int{0, port}) {
			t.Errorf("the ports are %v, want %d", got, port)
		}
	}
	r.want(204, "DELETE", "/edge/routes/git", "")
	if got := ports(); len(got) != 1 {
		t.Errorf("after the removal: %v", got)
	}
}
