package proxyproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/proxyproto"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// v2 is a header of version 2 (specification section 2.2).
func v2(command, family byte, block string) string {
	b := append([]byte(signature), 0x20|command, family)
	return string(binary.BigEndian.AppendUint16(b, uint16(len(block)))) + block
}

const block4 = "\xc6\x33\x64\x07\xcb\x00\x71\x01\x12\x67\x01\xbb" // 198.51.100.7:4711 to 203.0.113.1:443

func TestParse(t *testing.T) {
	src, dst := addr("198.51.100.7:4711"), addr("203.0.113.1:443")
	known := proxyproto.Header{Source: src, Destination: dst}
	none := proxyproto.Header{}
	for _, tc := range []struct {
		name string
		in   string
		want proxyproto.Header
	}{
		{"v1 TCP4", "PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\n", known},
		{"v1 TCP6", "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", proxyproto.Header{Source: addr("[2001:db8::1]:1"), Destination: addr("[2001:db8::2]:65535")}},
		{"v1 mapped", "PROXY TCP6 ::ffff:198.51.100.7 ::ffff:203.0.113.1 4711 443\r\n", known},
		{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", none},
		{"v1 UNKNOWN with addresses", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", none},
		{"v1 longest", "PROXY UNKNOWN " + strings.Repeat("f", 91) + "\r\n", none},
		{"v2 TCP4", v2(1, 0x11, block4), known},
		{"v2 TCP4 with TLVs", v2(1, 0x11, block4+"\x04\x00\x03abc"), known},
		{"v2 LOCAL", v2(0, 0x00, ""), none},
		{"v2 LOCAL with addresses", v2(0, 0x11, block4), none},
		{"v2 UNSPEC", v2(1, 0x00, ""), none},
		{"v2 longest", v2(1, 0x11, block4+"\x04\x0f\xe1"+strings.Repeat("\x00", 4096-16-12-3)), known},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, rest := range []string{"", "\x16\x03\x01", "PROXY \r\n"} {
				h, n, err := proxyproto.Parse([]byte(tc.in + rest))
				if err != nil || n != len(tc.in) || h != tc.want {
					t.Errorf("with %q behind: %+v, %d of %d, %v", rest, h, n, len(tc.in), err)
				}
			}
			for i := range len(tc.in) {
				if _, n, err := proxyproto.Parse([]byte(tc.in[:i])); n != 0 || err != nil {
					t.Fatalf("cut at %d: %d, %v", i, n, err)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		none bool
	}{
		{"hello", "\x16\x03\x01", true},
		{"text", "GET / HTTP/1.1\r\n", true},
		{"almost v1", "PROXX", true},
		{"almost v2", "\r\n\r\n\x00\r\nQUIX", true},
		{"v1 without an end", "PROXY " + strings.Repeat("x", 101), false},
		{"v1 one too long", "PROXY UNKNOWN " + strings.Repeat("f", 92) + "\r\n", false},
		{"v1 LF only", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", false},
		{"v1 no address", "PROXY TCP4\r\n", false},
		{"v1 bad address", "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", false},
		{"v1 bad port", "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", false},
		{"v1 wrong family", "PROXY TCP4 ::1 ::2 1 2\r\n", false},
		{"v1 empty", "PROXY \r\n", false},
		{"v2 bad version", signature + "\x11\x11\x00\x0c" + block4, false},
		{"v2 bad command", v2(2, 0x11, block4), false},
		{"v2 short block", v2(1, 0x11, block4[:8]), false},
		{"v2 too long", v2(1, 0x11, strings.Repeat("\x00", 4096-16+1)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, n, err := proxyproto.Parse([]byte(tc.in))
			if err == nil || n != 0 || h != (proxyproto.Header{}) {
				t.Fatalf("%+v, %d, %v", h, n, err)
			}
			if errors.Is(err, proxyproto.ErrNone) != tc.none {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestTooLongIsToldEarly: nobody has to wait for bytes that will be refused.
func TestTooLongIsToldEarly(t *testing.T) {
	long := v2(1, 0x11, strings.Repeat("\x00", 65535))
	if _, _, err := proxyproto.Parse([]byte(long[:16])); err == nil {
		t.Error("accepted")
	}
}

func TestRoundTrip(t *testing.T) {
	for _, pair := range [][2]string{
		{"198.51.100.7:4711", "203.0.113.1:443"},
		{"[2001:db8::7]:4711", "[2001:db8::1]:443"},
		{"0.0.0.0:0", "255.255.255.255:65535"},
	} {
		for version := byte(1); version <= 2; version++ {
			want := proxyproto.Header{Source: addr(pair[0]), Destination: addr(pair[1])}
			b := proxyproto.Append([]byte("before"), version, want.Source, want.Destination)
			h, n, err := proxyproto.Parse(bytes.TrimPrefix(b, []byte("before")))
			if err != nil || h != want || n != len(b)-6 {
				t.Errorf("v%d %v: %+v, %d, %v", version, pair, h, n, err)
			}
		}
	}
}

// TestNothingToSay: where the addresses cannot be told together, the header
// says that the source is not known.
func TestNothingToSay(t *testing.T) {
	four, six, none := addr("198.51.100.7:1"), addr("[2001:db8::1]:2"), netip.AddrPort{}
	for _, pair := range [][2]netip.AddrPort{{none, none}, {four, none}, {none, four}, {six, none}} {
		for version := byte(1); version <= 2; version++ {
			b := proxyproto.Append(nil, version, pair[0], pair[1])
			h, n, err := proxyproto.Parse(b)
			if len(b) == 0 || err != nil || n != len(b) || h.Source.IsValid() {
				t.Errorf("v%d %v: %q is read as %+v, %d, %v", version, pair, b, h, n, err)
			}
		}
	}
}

// TestMixedFamilies keeps the source, or says that it is not known; it never
// tells a wrong one.
func TestMixedFamilies(t *testing.T) {
	four, six := addr("198.51.100.7:1"), addr("[2001:db8::1]:2")
	for _, pair := range [][2]netip.AddrPort{{four, six}, {six, four}} {
		for version := byte(1); version <= 2; version++ {
			b := proxyproto.Append(nil, version, pair[0], pair[1])
			h, n, err := proxyproto.Parse(b)
			if err != nil || n != len(b) || h.Source.IsValid() && h.Source != pair[0] {
				t.Errorf("v%d %v: %q is read as %+v, %d, %v", version, pair, b, h, n, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\nrest"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte(v2(1, 0x11, block4) + "rest"))
	f.Add([]byte(v2(1, 0x21, strings.Repeat("\x01", 40))))
	f.Add([]byte(v2(1, 0x31, strings.Repeat("\x01", 216))))
	f.Add([]byte(v2(0, 0, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		h, n, err := proxyproto.Parse(b)
		if !bytes.Equal(b, before) {
			t.Fatal("changed what it read")
		}
		if n < 0 || n > len(b) || err != nil && (n != 0 || h != (proxyproto.Header{})) {
			t.Fatalf("%+v, %d of %d, %v", h, n, len(b), err)
		}
		if n == 0 {
			return
		}
		for i := range n { // no cut says anything else
			if _, m, err := proxyproto.Parse(b[:i]); m != 0 || err != nil {
				t.Fatalf("cut at %d of %d: %d, %v", i, n, m, err)
			}
		}
		if !h.Source.IsValid() {
			return
		}
		for version := byte(1); version <= 2; version++ {
			again, _, err := proxyproto.Parse(proxyproto.Append(nil, version, h.Source, h.Destination))
			if err != nil || again.Source.IsValid() && again != h {
				t.Fatalf("v%d: %+v became %+v, %v", version, h, again, err)
			}
		}
	})
}
