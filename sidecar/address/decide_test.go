package address_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/sidecar/address"
)

func TestDecide(t *testing.T) {
	const home, moved, other, home6, moved6 = "8.8.4.4", "8.8.8.8", "9.9.9.9", "2606:4700::1111", "2606:4700::1001"
	fails := "fails"
	for _, tc := range []struct {
		name    string
		known   string
		answers []string // of each server, separated by spaces
		allow   string
		want    string // an address, or a part of why not
	}{
		{"the same", home, []string{home}, "", home},
		{"another", home, []string{moved}, "", moved},
		{"the first one", "", []string{home}, "", home},
		{"the known one among others", home, []string{moved + " " + home}, "", home},
		{"the same family", home, []string{moved6 + " " + moved}, "", moved},
		{"the same family, IPv6", home6, []string{moved + " " + moved6}, "", moved6},
		{"another family, where there is no other", home, []string{moved6}, "", moved6},
		{"in another form", home, []string{"::ffff:" + home}, "", home},
		{"empty", home, []string{""}, "", "the answer is empty"},
		{"a failure", home, []string{fails}, "", "no route"},
		{"nobody was asked", home, nil, "", "empty"},
		{"private", home, []string{"192.168.1.1"}, "", "addresses.allow"},
		{"private and allowed", home, []string{"192.168.1.1"}, "192.168.0.0/16", "192.168.1.1"},
		{"loopback", home, []string{"127.0.0.1"}, "192.168.0.0/16", "loopback"},
		{"private beside a public one", home, []string{"10.0.0.1 " + moved}, "", moved},
		{"a zone", home, []string{"fe80::1%eth0"}, "fe80::/10", "addresses.allow"},
		{"two agree", home, []string{moved, moved + " " + other}, "", moved},
		{"two disagree", home, []string{moved, other}, "", "do not agree"},
		{"one of two", home, []string{moved, fails}, "", "only one of 2"},
		{"one of two, the other is empty", home, []string{moved, ""}, "", "only one of 2"},
		{"two of three", home, []string{moved, fails, moved}, "", moved},
		{"three, one says otherwise", home, []string{moved, home, moved}, "", "do not agree"},
		{"one says private", home, []string{"10.0.0.1", moved}, "", "addresses.allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var known netip.Addr
			if tc.known != "" {
				known = netip.MustParseAddr(tc.known)
			}
			var allow []netip.Prefix
			if tc.allow != "" {
				allow = []netip.Prefix{netip.MustParsePrefix(tc.allow)}
			}
			var answers []address.Answer
			for _, text := range tc.answers {
				a := address.Answer{}
				if text == fails {
					a.Err = errors.New("no route to the server")
					text = ""
				}
				for field := range strings.FieldsSeq(text) {
					a.Addrs = append(a.Addrs, netip.MustParseAddr(field))
				}
				answers = append(answers, a)
			}
			v := address.Decide(known, answers, allow)
			if want, err := netip.ParseAddr(tc.want); err == nil {
				if v.Addr != want {
					t.Errorf("%v, want %s", v, want)
				}
			} else if v.Addr.IsValid() || !strings.Contains(v.Why, tc.want) {
				t.Errorf("%v, want %q", v, tc.want)
			}
		})
	}
}

// TestNever: what is decided was said by every server that answers, and is allowed.
func TestNever(t *testing.T) {
	all := []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2606:4700::1"), {}}
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SampledFrom(all).Draw(t, "known")
		var answers []address.Answer
		for range rapid.IntRange(0, 4).Draw(t, "servers") {
			a := address.Answer{Addrs: rapid.SliceOfN(rapid.SampledFrom(all), 0, 3).Draw(t, "answer")}
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				a.Err = errors.New("x")
			}
			answers = append(answers, a)
		}
		v := address.Decide(known, answers, nil)
		if v.Addr.IsValid() == (v.Why != "") {
			t.Fatalf("%+v", v)
		}
		if !v.Addr.IsValid() {
			return
		}
		if v.Addr == all[2] {
			t.Fatal("a private address is believed")
		}
		agree := 0
		for _, a := range answers {
			if a.Err != nil || len(a.Addrs) == 0 {
				continue
			}
			said := false
			for _, addr := range a.Addrs {
				said = said || addr == v.Addr
			}
			if !said {
				t.Fatalf("%v was not said by all", v.Addr)
			}
			agree++
		}
		if agree == 0 || len(answers) > 1 && agree < 2 {
			t.Fatalf("%d of %d say so", agree, len(answers))
		}
	})
}
