package origin

import (
	"testing"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// FuzzParse: what comes out of an answer is one address of the family asked for.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"9.9.9.10\n", "2600::10", "fl=1\nip=9.9.9.10\n", "ip=fe80::1%eth0", "::ffff:9.9.9.10", "ip=\nip="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, format := range []Format{Text, Trace} {
			for _, family := range []resolve.Family{resolve.IPv4, resolve.IPv6} {
				addr, err := Source{Format: format}.parse(body, family)
				if err != nil {
					if addr.IsValid() {
						t.Errorf("%s and %v", addr, err)
					}
					continue
				}
				if addr.Zone() != "" || family == resolve.IPv4 && !addr.Is4() || family == resolve.IPv6 && (!addr.Is6() || addr.Is4In6()) {
					t.Errorf("%q gave %s for %s", body, addr, family)
				}
			}
		}
	})
}
