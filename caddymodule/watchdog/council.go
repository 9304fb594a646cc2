package watchdog

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/watchdog/council"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// Council is the watchdogs of several homes that watch the same sites. One of them
// writes a site's records, by a lease of the cluster; the others look on, and take over
// when it is gone. A path is left only if most of those who can see it take it for dead.
//
// It needs the app edge_cluster, and the same sites and paths, by name, at each of them.
type Council struct {
	// This watchdog's name among them: lower-case letters, digits and hyphens.
	ID string `json:"id"`
	// The names of the others.
	Others []string `json:"others,omitempty"`
}

func (a *App) parseCouncil(d *caddyfile.Dispenser) error {
	names := d.RemainingArgs()
	if len(names) < 2 {
		return d.Err("want: council <this watchdog> <the others>...")
	}
	a.Council = &Council{names[0], names[1:]}
	return nil
}

// read checks the names, and returns what a council is made of but for the store.
func (c *Council) read(r *settings.Reader) (out council.Config) {
	out.ID, out.Others = r.Need("id", c.ID), r.Texts("others", c.Others)
	all := append([]string{out.ID}, out.Others...)
	for i, name := range all {
		switch {
		case slices.Index(all, name) < i:
			r.Failf("names", "%s is there twice", name)
		case name != "" && !isLabel(name):
			r.Failf("names", "%q: want lower-case letters, digits and hyphens", name)
		}
	}
	return out
}

func isLabel(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(name) <= 63
}

// errCluster says what a council needs.
var errCluster = errors.New("council needs a cluster: add the global option edge_cluster, or leave council out")

// meeting finds the store in which the watchdogs meet. Nil: there is no council.
func (a *App) meeting(ctx caddy.Context) (*meeting, error) {
	if a.Council == nil {
		return nil, nil
	}
	app, err := ctx.AppIfConfigured("edge_cluster")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errCluster, err)
	}
	store, ok := app.(interface{ Store() lease.Store })
	if !ok {
		return nil, errCluster
	}
	r := settings.New(settings.ThisMachine)
	config := a.Council.read(r)
	config.Store, config.Log = store.Store(), a.log
	return &meeting{config: config}, r.Err()
}

// meeting is a council that is there while an entry is in force.
type meeting struct {
	config  council.Config
	council *council.Council
}

// begin opens it.
func (m *meeting) begin() (*council.Council, error) {
	if m.council == nil {
		c, err := council.New(m.config)
		if err != nil {
			return nil, fmt.Errorf("council: %w", err)
		}
		m.council = c
	}
	return m.council, nil
}

// end closes it. Its leases end by themselves, so that nobody writes before a write of
// this watchdog has ended.
func (m *meeting) end(log *slog.Logger) {
	if m == nil || m.council == nil {
		return
	}
	m.council.Close()
	m.council = nil
	log.Debug("the council is left", "id", m.config.ID)
}
