package resolve

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// FuzzRead: whatever a resolver sends, there is an answer or an error; an answer
// is of the right family and comes from the asked name.
func FuzzRead(f *testing.F) {
	owner := dnsmessage.MustNewName("a.example.com.")
	other := dnsmessage.MustNewName("b.example.com.")
	header := func(n dnsmessage.Name) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: n, Class: dnsmessage.ClassINET, TTL: 60}
	}
	for _, records := range [][]dnsmessage.Resource{
		nil,
		{{Header: header(owner), Body: &dnsmessage.AResource{A: [4]byte{1, 1, 1, 1}}}},
		{{Header: header(owner), Body: &dnsmessage.AAAAResource{AAAA: [16]byte{0x20}}}},
		{
			{Header: header(owner), Body: &dnsmessage.CNAMEResource{CNAME: other}},
			{Header: header(other), Body: &dnsmessage.AResource{A: [4]byte{8, 8, 8, 8}}},
		},
	} {
		for _, family := range []Family{IPv4, IPv6} {
			m := dnsmessage.Message{
				Header:    dnsmessage.Header{Response: true},
				Questions: []dnsmessage.Question{{Name: owner, Type: family.record(), Class: dnsmessage.ClassINET}},
				Answers:   records,
			}
			packed, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed, family == IPv6)
		}
	}
	f.Fuzz(func(t *testing.T, message []byte, six bool) {
		family := IPv4
		if six {
			family = IPv6
		}
		q, err := ask("a.example.com", family)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := q.read(message)
		if err != nil {
			if len(answer.Addrs) > 0 {
				t.Error("addresses with an error")
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Kind != NoName && e.Kind != NoAddress {
				t.Errorf("a kind of %s", e.Kind)
			}
			return
		}
		if len(answer.Addrs) == 0 || !slices.IsSortedFunc(answer.Addrs, netip.Addr.Compare) {
			t.Errorf("%v", answer.Addrs)
		}
		var m dnsmessage.Message
		if m.Unpack(message) == nil && !slices.ContainsFunc(m.Answers, func(r dnsmessage.Resource) bool { return lower(r.Header.Name) == "a.example.com." }) {
			t.Error("an answer without a record of the asked name")
		}
		for _, a := range answer.Addrs {
			if a.Is4() == six {
				t.Errorf("%s is of the wrong family", a)
			}
		}
	})
}
