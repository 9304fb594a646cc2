package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"
)

// Wall is what of a machine's traffic is cut off.
type Wall struct {
	// Far are the endpoints that this machine dials: other homes, members of the cluster.
	Far []netip.AddrPort
	// Near are ports here that Hosts may not reach.
	Near  []uint16
	Hosts []netip.Addr
	// Open is the far end of the one connection that stays.
	Open netip.AddrPort
	// For is how long it lasts, if nobody ends it before.
	For time.Duration
}

// table is the name of ours.
const table = "edgeward_drill"

// liftTime is how long taking it away may last.
const liftTime = 10 * time.Second

// NFTables cuts the machine off with a table of its own. What matches are elements of
// sets that expire by themselves: a process that is killed leaves a table that does
// nothing, and the next drill replaces it.
func NFTables(ctx context.Context, w Wall) (lift func() error, err error) {
	if err := nft(ctx, w.ruleset()); err != nil {
		return nil, fmt.Errorf("cutting the machine off with nftables: %w", err)
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liftTime)
		defer cancel()
		if err := nft(ctx, "add table inet "+table+"\ndelete table inet "+table+"\n"); err != nil {
			return fmt.Errorf("ending that the machine is cut off; it ends by itself in %s: %w", w.For, err)
		}
		return nil
	}, nil
}

func nft(ctx context.Context, ruleset string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(ruleset)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

// ruleset is the table, as nft(8) reads it. It is put in force as a whole.
func (w Wall) ruleset() string {
	seconds := max(int(w.For.Round(time.Second)/time.Second), 1)
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n", table)
	set := func(name, kind string, elements []string) {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n\t\tflags timeout\n", name, kind)
		if len(elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s timeout %ds }\n", strings.Join(elements, fmt.Sprintf(" timeout %ds, ", seconds)), seconds)
		}
		b.WriteString("\t}\n")
	}
	pairs := func(list []netip.AddrPort, six bool) (out []string) {
		for _, a := range list {
			if addr := a.Addr().Unmap(); addr.Is6() == six {
				out = append(out, fmt.Sprint(addr.WithZone(""), " . ", a.Port()))
			}
		}
		return out
	}
	var inbound []netip.AddrPort // Hosts and ports here
	for _, h := range w.Hosts {
		for _, port := range w.Near {
			inbound = append(inbound, netip.AddrPortFrom(h, port))
		}
	}
	open := []netip.AddrPort{}
	if w.Open.IsValid() {
		open = append(open, w.Open)
	}
	for _, f := range []struct {
		name string
		six  bool
		kind string
	}{{"4", false, "ipv4_addr"}, {"6", true, "ipv6_addr"}} {
		for _, s := range []struct {
			name string
			list []netip.AddrPort
		}{{"far", w.Far}, {"near", inbound}, {"open", open}} {
			set(s.name+f.name, f.kind+" . inet_service", unique(pairs(s.list, f.six)))
		}
	}
	b.WriteString(`	chain out {
		type filter hook output priority -10; policy accept;
		ip daddr . tcp dport @open4 accept
		ip6 daddr . tcp dport @open6 accept
		ip daddr . tcp dport @far4 drop
		ip6 daddr . tcp dport @far6 drop
		ip daddr . tcp sport @near4 drop
		ip6 daddr . tcp sport @near6 drop
	}
	chain in {
		type filter hook input priority -10; policy accept;
		ip saddr . tcp sport @open4 accept
		ip6 saddr . tcp sport @open6 accept
		ip saddr . tcp sport @far4 drop
		ip6 saddr . tcp sport @far6 drop
		ip saddr . tcp dport @near4 drop
		ip6 saddr . tcp dport @near6 drop
	}
}
`)
	return b.String()
}

// unique leaves out what is there twice, which a set refuses.
func unique(list []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
