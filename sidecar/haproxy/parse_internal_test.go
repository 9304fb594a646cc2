package haproxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProblems(t *testing.T) {
	const said = `[NOTICE]   (7) : haproxy version is 2.6.12-1+deb12u4
[ALERT]    (7) : config : parsing [/x/haproxy.cfg:21]: forbidden first char in environment variable name at position 68:
  tcp-request content set-var
                ^
[ALERT]    (7) : config : Error(s) found in configuration file : /x/haproxy.cfg
[WARNING]  (7) : config : [/x/haproxy.cfg:38] : 'server pool:home/c' : could not resolve address 'nuc.invalid', disabling server.
[WARNING]  (7) : config : [/x/other.cfg:3] : elsewhere
[ALERT]    (7) : Starting frontend f: cannot bind socket
[ALERT]    (7) : config : Fatal errors found in configuration.
`
	want := []Problem{
		{true, 21, "forbidden first char in environment variable name at position 68: tcp-request content set-var"},
		{false, 38, "'server pool:home/c' : could not resolve address 'nuc.invalid', disabling server."},
		{false, 0, "elsewhere"},
		{true, 0, "Starting frontend f: cannot bind socket"},
	}
	got := parseProblems(said, "/x/haproxy.cfg")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := (&Invalid{got}).Error(); !strings.Contains(text, "line 21: forbidden") || !strings.Contains(text, "1 more") {
		t.Error(text)
	}
	if text := (&Invalid{}).Error(); !strings.Contains(text, "does not say why") {
		t.Error(text)
	}
}

func TestParseProcesses(t *testing.T) {
	const reply = "#<PID>          <type>          <reloads>       <uptime>        <version>      \n7201            master          5 [failed: 2]   0d00h11m22s     2.6.12\n# workers\n30700           worker          0               0d00h00m01s     2.6.12\n# old workers\n7203            worker          5               0d00h11m22s     2.6.12\n7204            worker          5               0d00h11m22s     2.6.12\n# programs\n\n"
	got, err := parseProcesses(reply)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Processes{[]int{30700}, []int{7203, 7204}, 2}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "\n", "Unknown command.", "# workers\n1 worker x\n", strings.Replace(reply, "30700", "99999999999999999999", 1)} {
		if got, err := parseProcesses(bad); err == nil {
			t.Errorf("%.40q: %+v", bad, got)
		}
	}
}

const (
	rows = "1\n" + stateHeader + " srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n" +
		"3 pool:home 1 nuc 10.8.0.8 2 0 1 1 619 6 3 4 6 0 0 0 - 443 - 0 0 - - 0\n" +
		"3 pool:home 2 nas 2001:db8::2 0 1 1 1 619 8 2 0 6 0 0 0 - 18443 - 0 0 - - 0\n" +
		"3 pool:home 3 vps 192.0.2.1 2 0 1 1 619 8 3 0 6 0 0 0 vps.example 443 - 0 0 - - 0\n\n"
	none = "1\n" + stateHeader + " srvrecord\n\n"
)

func TestParseStates(t *testing.T) {
	list, err := ParseStates(rows)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	if !list[0].Up() || list[1].Up() || !list[0].Checked() || list[1].Checked() || list[2].Name != "vps.example" || list[1].Port != 18443 {
		t.Errorf("%+v", list)
	}
	if list, err := ParseStates(none); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	for _, bad := range []string{
		"", "1\n", "2\n" + rows[2:], "Permission denied\n", rows[:len(rows)-1], rows[:len(rows)-20],
		strings.Replace(rows, "pool:home 1", "pool/home 1", 1), strings.Replace(rows, " 443 ", " x ", 1),
		strings.Replace(rows, "nuc 10.8", "nuc\x00 10.8", 1), strings.Replace(rows, "nuc 10", "nuc  10", 1),
	} {
		if list, err := ParseStates(bad); err == nil {
			t.Errorf("%.60q: %+v", bad, list)
		}
	}
}

func TestStateFile(t *testing.T) {
	list, err := ParseStates(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		next map[string]string
		want []string
	}{
		{"all", map[string]string{"pool:home/nuc": "10.8.0.8:443", "pool:home/nas": "[2001:db8::2]:18443", "pool:home/vps": "vps.example:443"}, []string{"nuc", "nas", "vps"}},
		{"another address", map[string]string{"pool:home/nuc": "10.8.0.9:443", "pool:home/nas": "[2001:db8::2]:443", "pool:home/vps": "other.example:443"}, nil},
		{"a name before, elsewhere", map[string]string{"pool:home/vps": "192.0.2.2:443"}, nil},
		{"another pool", map[string]string{"pool:other/nuc": "10.8.0.8:443"}, nil},
		{"nothing", nil, nil},
	} {
		text, carried := StateFile(list, tc.next)
		lines := strings.Split(text, "\n")
		if lines[0] != "1" || !strings.HasPrefix(lines[1], "# be_id") || lines[len(lines)-1] != "" || carried != len(tc.want) {
			t.Errorf("%s: %d carried: %q", tc.name, carried, text)
		}
		for _, s := range list {
			if got := slices.Contains(lines, s.line); got != slices.Contains(tc.want, s.Server) {
				t.Errorf("%s: %s is in it: %t", tc.name, s.Server, got)
			}
		}
	}
}

// TestStateOfAName: what a name had become is written as an address, and as one
// without a name.
func TestStateOfAName(t *testing.T) {
	list, err := ParseStates(rows)
	if err != nil {
		t.Fatal(err)
	}
	text, carried := StateFile(list, map[string]string{"pool:home/vps": "192.0.2.1:443"})
	if carried != 1 || !strings.Contains(text, " vps 192.0.2.1 ") || strings.Contains(text, "vps.example") {
		t.Errorf("%d carried in %q", carried, text)
	}
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{"2.6.12-1+deb12u4": true, "2.6": true, "2.5.9": false, "3.0.1": true, "1.9": false, "2.10-dev3": true, "": false, "x.y": false, "3": false} {
		if AtLeast(version, 2, 6) != want {
			t.Errorf("%q: %t", version, !want)
		}
	}
}

func FuzzReplies(f *testing.F) {
	f.Add(rows)
	f.Add(none)
	f.Add("[ALERT] (1) : config : parsing [x:1]: y\n  z\n")
	f.Add("1 master 1 [failed: 1]\n# workers\n2 worker 1\n")
	f.Fuzz(func(t *testing.T, reply string) {
		list, err := ParseStates(reply)
		if err != nil && list != nil {
			t.Error("both states and an error")
		}
		next := map[string]string{}
		for _, s := range list {
			next[s.Backend+"/"+s.Server] = s.Name + ":1"
		}
		text, carried := StateFile(list, next)
		if strings.Count(text, "\n") != carried+2 {
			t.Errorf("%d carried in %q", carried, text)
		}
		_, _ = parseProcesses(reply)
		for _, p := range parseProblems(reply, "x") {
			if strings.Contains(p.String(), "\n") {
				t.Errorf("a problem has two lines: %q", p)
			}
		}
	})
}
