package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// TestGolden compares configs with what is rendered of them: the config, a dashed
// line, notices, the text, and the files that belong to it.
func TestGolden(t *testing.T) {
	golden.Files(t, "testdata/*.golden", func(t *testing.T, content string) string {
		config, _, _ := strings.Cut(content, "\n----")
		var b strings.Builder
		b.WriteString(config + "\n----\n")
		out, err := rendered(config)
		if err != nil {
			return b.String() + "error: " + err.Error() + "\n"
		}
		for _, n := range out.Notices {
			b.WriteString("notice: " + n + "\n")
		}
		b.WriteString(out.Text)
		for _, f := range out.Files {
			fmt.Fprintf(&b, "---- %s\n%s", f.Path, f.Content)
		}
		return b.String()
	})
}

func rendered(config string) (out render.Output, err error) {
	f, err := settings.Decode([]byte(config))
	if err != nil {
		return out, err
	}
	plan, err := f.Plan()
	if err != nil {
		return out, err
	}
	return render.Render(plan.Render)
}

// TestRefusals: each names the setting to change.
func TestRefusals(t *testing.T) {
	const head = `{"gateways":[{"name":"a","dial":"10.0.0.1:443"},{"name":"b","dial":"10.0.0.2:443"%s}],"pools":[{"name":"home","members":[{"gateway":"a"},{"gateway":"b"}]}],"routes":[{"name":"web","hosts":["a.example.com"],"pool":"home"}%s]%s}`
	check := func(c string) string { return `,"check":{"kind":"https","server_name":"a.example",` + c + `}` }
	for _, tc := range []struct{ gateway, route, more, want string }{
		{"", `,{"name":"dns","kind":"udp","port":53,"pool":"home"}`, "", `route dns: HAProxy carries no UDP`},
		{"", `,{"name":"page","kind":"http","hosts":["b.example.com"],"pool":"home","target":{"host":"x","port":80}}`, "", `route page: http routes need`},
		{check(`"path":"/up"`), "", "", "pool home: gateways a and b: HAProxy asks the same page"},
		{"", "", `,"process":{"user":"a b"}`, "process.user"},
		{"", "", `,"process":{"group":"x\n"}`, "process.group"},
		{"", "", `,"process":{"files":"/etc/x y"}`, "process.files"},
		{"", "", `,"process":{"files":"/etc/../x"}`, "process.files"},
		{"", "", `,"process":{"state_file":"relative"}`, "process.state_file"},
		{"", "", `,"process":{"chroot":"/x\n/y"}`, "process.chroot"},
		{"", "", `,"process":{"socket":{"path":"/a#b"}}`, "process.socket.path"},
		{"", "", `,"process":{"socket":{"path":"/` + strings.Repeat("a", 100) + `"}}`, "process.socket.path"},
		{"", "", `,"process":{"socket":{"mode":"666"}}`, "process.socket.mode"},
		{"", "", `,"process":{"socket":{"mode":"600 level admin"}}`, "process.socket.mode"},
		{"", "", `,"process":{"socket":{"user":"root level"}}`, "process.socket.user"},
		{"", "", `,"process":{"log":"127.0.0.1:514 local0\n"}`, "process.log"},
		{"", "", `,"process":{"log":"logs.example:514"}`, "process.log"},
		{"", "", `,"process":{"facility":"local9"}`, "process.facility"},
		{"", "", `,"process":{"max_conn":-1}`, "process.max_conn"},
		{"", "", `,"process":{"drain":"10ms"}`, "process.drain"},
		{"", "", `,"process":{"buf_size":100}`, "process.buf_size"},
		{"", "", `,"process":{"resolvers":["127.0.0.1:0"]}`, "process.resolvers"},
		{"", "", `,"health":"both"`, "health"},
		{"", "", `,"listeners":[{"address":":443"},{"address":":443"}]`, "listeners[1].address"},
		{"", "", `,"listeners":[{"address":":443","hello_bytes":10}]`, "listeners[0].hello_bytes"},
		{"", "", `,"listeners":[{"address":":443","hello_time":"off"}]`, "listeners[0].hello_time"},
		{"", "", `,"listeners":[{"address":":443","limits":{"per_source":-1}}]`, "listeners[0].limits: per_source"},
		{"", "", `,"listeners":[{"address":":443","limits":{"total":100000000}}]`, "listeners[0].limits.total"},
		{"", "", `,"listeners":[{"address":":443","limits":{"total_rate":0.5}}]`, "listeners[0].limits.total_rate"},
		{"", "", `,"listeners":[{"address":":443","limits":{"wait":true}}]`, "listeners[0].limits.wait"},
		{"", "", `,"listeners":[{"address":":443","limits":{"rate":0.0001,"burst":1000}}]`, "listeners[0].limits.rate"},
		{"", "", `,"ports":{"host":"localhost"}`, "ports.host"},
		{"", "", `,"ports":{"host":"::1%lo"}`, "ports.host"},
	} {
		_, err := rendered(fmt.Sprintf(head, tc.gateway, tc.route, tc.more))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s%s%s: %v, want %s", tc.gateway, tc.route, tc.more, err, tc.want)
		}
	}
	if _, err := render.Render(render.Config{}); err == nil {
		t.Error("a config without a catalog is rendered")
	}
}

func TestStopped(t *testing.T) {
	member := func(name string, tier int8) pool.MemberView { return pool.MemberView{Gateway: name, Tier: tier} }
	got := render.Stopped([]pool.View{
		{Name: "home", Members: []pool.MemberView{member("a", pool.TierCooldown), member("b", pool.TierReady), member("c", pool.TierUnknown)}},
		{Name: "unknown", Members: []pool.MemberView{member("a", pool.TierUnknown), member("b", pool.TierUnknown)}},
		{Name: "down", Members: []pool.MemberView{member("a", pool.TierDown), member("b", pool.TierNone)}},
		{Name: "off", Members: []pool.MemberView{member("a", pool.TierNone)}},
	})
	for _, tc := range []struct {
		pool, gateway string
		want          bool
	}{
		{"home", "a", true},
		{"home", "b", false},
		{"home", "c", true},
		{"unknown", "a", false}, // unknown is not down
		{"unknown", "b", false},
		{"down", "a", false}, // the last resort, as in the relay
		{"down", "b", true},
		{"off", "a", true},
		{"other", "a", false},
	} {
		if got[tc.pool][tc.gateway] != tc.want {
			t.Errorf("%s in %s: stopped is %t", tc.gateway, tc.pool, !tc.want)
		}
	}
}
