// Package preflight looks at a machine before the sidecar is set up on it: at what
// would fight over its firewall, and at HAProxy. It reads, and changes nothing.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/firewall"
	"github.com/edgeward/edgeward/sidecar/haproxy"
)

// Config says where to look.
type Config struct {
	Binary string // HAProxy's program
	Path   string // HAProxy's config
	Master string // the master's socket; empty: none is used
}

// System is how the machine is reached.
type System struct {
	Firewall firewall.System
	// Version asks HAProxy's program what it is.
	Version func(ctx context.Context, binary string) (string, error)
	// Stat looks at a path, and Workers at who answers on a master's socket.
	Stat    func(path string) (fs.FileInfo, error)
	Workers func(ctx context.Context, master string) (haproxy.Processes, error)
}

// Check returns all that should be known, what stops first.
func Check(ctx context.Context, sys System, c Config) []firewall.Finding {
	list := firewall.Judge(firewall.Gather(ctx, sys.Firewall))
	list = append(list, program(ctx, sys, c)...)
	list = append(list, folder(sys, c)...)
	list = append(list, master(ctx, sys, c)...)
	slices.SortStableFunc(list, func(a, b firewall.Finding) int {
		return cmp.Compare(rank(a.Severity), rank(b.Severity))
	})
	return list
}

func rank(s firewall.Severity) int {
	if s == firewall.Stop {
		return 0
	}
	return 1
}

func program(ctx context.Context, sys System, c Config) []firewall.Finding {
	version, err := sys.Version(ctx, c.Binary)
	switch {
	case err != nil:
		return []firewall.Finding{{
			Severity: firewall.Stop, What: fmt.Sprintf("HAProxy cannot be asked: %v", err),
			Why: "nothing can be checked or loaded without it", Do: `install it, like "apt-get install haproxy", or set haproxy.binary`,
		}}
	case !haproxy.AtLeast(version, 2, 6):
		return []firewall.Finding{{
			Severity: firewall.Stop, What: "HAProxy is " + version,
			Why: "the config needs 2.6 or later", Do: "install a newer one",
		}}
	}
	return nil
}

func folder(sys System, c Config) []firewall.Finding {
	dir := filepath.Dir(c.Path)
	info, err := sys.Stat(dir)
	switch {
	case err != nil:
		return []firewall.Finding{{
			Severity: firewall.Stop, What: fmt.Sprintf("the folder of the config cannot be seen: %v", err),
			Why: "the config is written beside itself and moved into place", Do: "make " + dir + ", or set haproxy.config",
		}}
	case !info.IsDir():
		return []firewall.Finding{{
			Severity: firewall.Stop, What: dir + " is no folder",
			Why: "the config is written there", Do: "set haproxy.config",
		}}
	case info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
		return []firewall.Finding{{
			Severity: firewall.Stop, What: dir + " is writable for everybody",
			Why: "anybody could put another config in place", Do: "chmod o-w " + dir,
		}}
	}
	return nil
}

func master(ctx context.Context, sys System, c Config) []firewall.Finding {
	if c.Master == "" {
		return []firewall.Finding{{
			Severity: firewall.Note, What: "no master socket is used",
			Why: "a reload is then known to have failed only when no new worker comes in time", Do: `start HAProxy with "-W -S <path>" and set reload.master`,
		}}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p, err := sys.Workers(ctx, c.Master)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []firewall.Finding{{
			Severity: firewall.Note, What: "there is no master socket at " + c.Master,
			Why: "a reload cannot be confirmed", Do: `start HAProxy with "-W -S ` + c.Master + `"`,
		}}
	case err != nil:
		return []firewall.Finding{{
			Severity: firewall.Note, What: err.Error(),
			Why: "a reload cannot be confirmed", Do: "see whether HAProxy runs, and who owns the socket",
		}}
	case p.Failed > 0:
		return []firewall.Finding{{
			Severity: firewall.Note, What: fmt.Sprintf("the last %d reloads of HAProxy failed", p.Failed),
			Why: "what runs is not what is in its file", Do: "see HAProxy's log",
		}}
	}
	return nil
}

// Host returns the real System.
func Host() System {
	return System{
		Firewall: firewall.Host(),
		Version: func(ctx context.Context, binary string) (string, error) {
			return haproxy.Checker{Binary: binary}.Version(ctx)
		},
		Stat: os.Stat,
		Workers: func(ctx context.Context, master string) (haproxy.Processes, error) {
			return haproxy.Master(master).Processes(ctx)
		},
	}
}
