package firewall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Gather reads what [Judge] needs. It runs programs that list and nothing else.
func Gather(ctx context.Context, sys System) Snapshot {
	g := gatherer{ctx: ctx, sys: sys, s: Snapshot{Services: map[string]Service{}}}
	if _, ok := sys.Find("nft"); ok {
		g.s.Ruleset = g.list("nft", "list", "ruleset")
	} else {
		g.failed("nft is not installed")
	}
	if _, ok := sys.Find("iptables-save"); ok {
		g.s.V4 = g.list("iptables-save")
	}
	if _, ok := sys.Find("ip6tables-save"); ok {
		g.s.V6 = g.list("ip6tables-save")
	}
	g.warnings()
	g.legacy("ip", "/proc/net/ip_tables_names")
	g.legacy("ip6", "/proc/net/ip6_tables_names")
	for _, name := range services {
		g.service(name)
	}
	g.s.UFWConf = g.file("/etc/ufw/ufw.conf")
	return g.s
}

type gatherer struct {
	ctx context.Context
	sys System
	s   Snapshot
}

func (g *gatherer) failed(format string, args ...any) {
	g.s.Failed = append(g.s.Failed, fmt.Sprintf(format, args...))
}

// list returns what a program prints.
func (g *gatherer) list(name string, args ...string) string {
	path, _ := g.sys.Find(name)
	out, said, err := g.sys.Run(g.ctx, "", path, args...)
	if err != nil {
		g.failed("could not read the rules: %v", err)
		return ""
	}
	for line := range strings.Lines(said) {
		// nft says this of every table of iptables, to people who would edit it.
		if line = strings.TrimSpace(line); !strings.Contains(line, "is managed by iptables-nft") {
			g.s.Said = append(g.s.Said, line)
		}
	}
	return out
}

// warnings finds those that iptables-save puts among the rules.
func (g *gatherer) warnings() {
	for _, text := range []string{g.s.V4, g.s.V6} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "# Warning:") || strings.HasPrefix(line, "# Table `") {
				g.s.Said = append(g.s.Said, strings.TrimSpace(strings.TrimPrefix(line, "# ")))
			}
		}
	}
}

// legacy notes which tables of the old interface the kernel holds.
func (g *gatherer) legacy(family, path string) {
	for table := range strings.FieldsSeq(g.file(path)) {
		g.s.Legacy = append(g.s.Legacy, family+" "+table)
	}
}

// file returns the content of one that need not be there.
func (g *gatherer) file(path string) string {
	text, err := g.sys.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.failed("could not read %s: %v", path, err)
	}
	return string(text)
}

// programs of the services, besides their own names.
var programs = map[string]string{"docker": "dockerd", "nftables": ""}

func (g *gatherer) service(name string) {
	var s Service
	known := false
	if systemctl, ok := g.sys.Find("systemctl"); ok {
		// Both exit with an error for "no", so their word counts.
		active, _, _ := g.sys.Run(g.ctx, "", systemctl, "is-active", name+".service")
		enabled, _, _ := g.sys.Run(g.ctx, "", systemctl, "is-enabled", name+".service")
		s.Active = strings.TrimSpace(active) == "active"
		s.Enabled = strings.HasPrefix(enabled, "enabled")
		known = s.Active || s.Enabled
	}
	// OpenRC keeps a link for each service that starts.
	if _, err := g.sys.ReadFile("/etc/runlevels/default/" + name); err == nil {
		s.Enabled, known = true, true
	}
	for _, program := range []string{name, programs[name]} {
		if name == "nftables" || program == "" {
			continue
		}
		if _, ok := g.sys.Find(program); ok {
			known = true
		}
	}
	if known {
		g.s.Services[name] = s
	}
}
