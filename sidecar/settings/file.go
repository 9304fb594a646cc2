package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// File is a config as it is written. Only gateways and routes are needed.
type File struct {
	// Version is that of a backup: 1, or left out.
	Version int `json:"version,omitzero"`
	// Preset sets what is not set otherwise: "oracle" is a relay for one home, with
	// careful limits. Default: none.
	Preset string `json:"preset,omitzero"`
	// Backup is a file of the relay's whose gateways, pools and routes come on top.
	// A relative path is beside this file.
	Backup string `json:"backup,omitzero"`
	// LeaveOut drops routes of kinds that HAProxy cannot carry: "udp", "http".
	LeaveOut  []string          `json:"leave_out,omitempty"`
	Gateways  []catalog.Gateway `json:"gateways"`
	Pools     []catalog.Pool    `json:"pools,omitempty"`
	Routes    []catalog.Route   `json:"routes"`
	Listeners []render.Listener `json:"listeners,omitempty"` // default: one at :443
	Ports     render.Ports      `json:"ports,omitzero"`
	Timeouts  render.Timeouts   `json:"timeouts,omitzero"`
	Process   render.Process    `json:"process,omitzero"`
	Health    render.Health     `json:"health,omitzero"` // default: haproxy
	HAProxy   HAProxy           `json:"haproxy,omitzero"`
	Reload    Reload            `json:"reload,omitzero"`
	// What follows is for "edge-sidecar run".
	Source     Source     `json:"source,omitzero"`
	Addresses  Addresses  `json:"addresses,omitzero"`
	AgentCheck AgentCheck `json:"agent_check,omitzero"`
	Run        Run        `json:"run,omitzero"`
}

// HAProxy says where it is.
type HAProxy struct {
	// Binary is its program. Default: /usr/sbin/haproxy.
	Binary string `json:"binary,omitzero"`
	// Config is the file to write. Default: /etc/haproxy/haproxy.cfg.
	Config string `json:"config,omitzero"`
	// CheckTimeout is how long a check of the config may take. Default: 30s.
	CheckTimeout catalog.Duration `json:"check_timeout,omitzero"`
}

// Reload says how a running HAProxy takes a new config.
type Reload struct {
	// Command does it. Default: systemctl reload haproxy, unless PIDFile is set.
	Command []string `json:"command,omitempty"`
	// PIDFile has the pid of the master, which gets SIGUSR2 in place of the command.
	PIDFile string `json:"pid_file,omitzero"`
	// Master is the master's socket, by which the new worker is confirmed. Default:
	// none; then the pid that the stats socket tells must change.
	Master string `json:"master,omitzero"`
	// Timeout is how long the new worker may take. Default: 10s.
	Timeout catalog.Duration `json:"timeout,omitzero"`
	// Off leaves HAProxy alone: the config is for its next start.
	Off bool `json:"off,omitzero"`
}

// Plan is a config that holds together.
type Plan struct {
	Render     render.Config
	HAProxy    HAProxy
	Reload     Reload
	Source     Source
	Addresses  Addresses
	AgentCheck AgentCheck
	Run        Run
	// LeftOut are routes that were dropped, by name.
	LeftOut []string
}

// Load reads a config, and the backup that it names. A preset that is not empty
// stands for the config's.
func Load(path, preset string) (Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the config: %w", err)
	}
	f, err := Decode(data)
	if err != nil {
		return Plan{}, fmt.Errorf("reading %s: %w", path, err)
	}
	f.Preset = cmp.Or(preset, f.Preset)
	if f.Backup != "" {
		if err := f.include(filepath.Dir(path)); err != nil {
			return Plan{}, err
		}
	}
	plan, err := f.Plan()
	if err != nil {
		return Plan{}, fmt.Errorf("%s: %w", path, err)
	}
	return plan, nil
}

// include puts the objects of the backup behind our own.
func (f *File) include(dir string) error {
	path := f.Backup
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the backup: %w", err)
	}
	var b catalog.Backup
	if err := strict(data, &b); err != nil {
		return fmt.Errorf("reading the backup %s: %w", path, err)
	}
	if b.Version != 1 {
		return fmt.Errorf("reading the backup %s: version is %d: want 1", path, b.Version)
	}
	f.Gateways, f.Pools, f.Routes = append(f.Gateways, b.Gateways...), append(f.Pools, b.Pools...), append(f.Routes, b.Routes...)
	return nil
}

// Decode reads a config strictly: known fields only, each once, and nothing behind.
func Decode(data []byte) (f File, err error) {
	err = strict(data, &f)
	return f, err
}

// Plan fills in presets and defaults, and checks what is said about gateways, pools
// and routes as the relay's admin API would.
func (f File) Plan() (p Plan, err error) {
	if f.Version > 1 || f.Version < 0 {
		return p, fmt.Errorf("version: %d: want 1, or leave it out", f.Version)
	}
	if err := f.preset(); err != nil {
		return p, err
	}
	if len(f.Listeners) == 0 {
		f.Listeners = []render.Listener{{Address: ":443"}}
	}
	if p.LeftOut, err = f.leaveOut(); err != nil {
		return p, err
	}
	c, err := f.catalog()
	if err != nil {
		return p, err
	}
	p.Render = render.Config{
		Catalog: c, Listeners: f.Listeners, Ports: f.Ports, Timeouts: f.Timeouts, Process: f.Process, Health: f.Health,
	}
	p.HAProxy, p.Reload = f.HAProxy, f.Reload
	p.HAProxy.Binary = cmp.Or(p.HAProxy.Binary, "/usr/sbin/haproxy")
	p.HAProxy.Config = cmp.Or(p.HAProxy.Config, "/etc/haproxy/haproxy.cfg")
	p.HAProxy.CheckTimeout = cmp.Or(p.HAProxy.CheckTimeout, catalog.Duration(30*time.Second))
	p.Reload.Timeout = cmp.Or(p.Reload.Timeout, catalog.Duration(10*time.Second))
	if len(p.Reload.Command) == 0 && p.Reload.PIDFile == "" {
		p.Reload.Command = []string{"systemctl", "reload", "haproxy"}
	}
	if err := f.check(); err != nil {
		return p, err
	}
	return p, f.running(&p)
}

// check looks at what only programs and files have to do with.
func (f File) check() error {
	var errs []error
	for _, path := range [][2]string{
		{"haproxy.binary", f.HAProxy.Binary},
		{"haproxy.config", f.HAProxy.Config},
		{"reload.pid_file", f.Reload.PIDFile},
		{"reload.master", f.Reload.Master},
	} {
		if path[1] != "" && !filepath.IsAbs(path[1]) {
			errs = append(errs, fmt.Errorf("%s: %.80q: want an absolute path", path[0], path[1]))
		}
	}
	if len(f.Reload.Command) > 0 && f.Reload.PIDFile != "" {
		errs = append(errs, errors.New("reload.command and reload.pid_file: want one of them"))
	}
	if f.Reload.Timeout < 0 || f.HAProxy.CheckTimeout < 0 {
		errs = append(errs, errors.New("reload.timeout and haproxy.check_timeout cannot be off: something must end the wait"))
	}
	return errors.Join(errs...)
}

// leaveOut drops routes of the kinds that are to be left out.
func (f *File) leaveOut() (names []string, err error) {
	for i, kind := range f.LeaveOut {
		if kind != "udp" && kind != "http" {
			return nil, fmt.Errorf("leave_out[%d]: %.40q: want udp or http", i, kind)
		}
	}
	f.Routes = slices.DeleteFunc(slices.Clone(f.Routes), func(r catalog.Route) bool {
		out := slices.Contains(f.LeaveOut, r.Kind.String())
		if out {
			names = append(names, r.Name)
		}
		return out
	})
	return names, nil
}

// catalog lets the relay's own rules look at gateways, pools and routes.
func (f *File) catalog() (*catalog.Catalog, error) {
	c := catalog.New()
	var err error
	if c.Listeners, err = render.Doors(f.Listeners); err != nil {
		return nil, err
	}
	routes, noName, err := f.noName()
	if err != nil {
		return nil, err
	}
	c, _, err = c.Restore(catalog.Backup{Version: 1, Gateways: f.Gateways, Pools: f.Pools, Routes: routes})
	if bad, ok := errors.AsType[*catalog.Error](err); ok {
		return nil, fmt.Errorf("%s: %s (%s)", cmp.Or(strings.TrimSuffix(bad.Field, "."), "config"), bad.Detail, bad.Code)
	} else if err != nil {
		return nil, err
	}
	for _, name := range noName {
		r := c.Routes[name]
		r.NoName = true
		c.Routes[name] = r
	}
	return c, nil
}

// noName takes no_name out of the routes: this file may say so, as a Caddyfile may,
// and the database may not. One route at each listener.
func (f *File) noName() (routes []catalog.Route, names []string, err error) {
	routes = slices.Clone(f.Routes)
	at := map[string]string{}
	for i := range routes {
		r := &routes[i]
		if !r.NoName {
			continue
		}
		if r.Kind != catalog.TLS {
			return nil, nil, fmt.Errorf("routes[%d].no_name: is for tls routes", i)
		}
		r.NoName = false
		if r.Disabled {
			continue
		}
		for _, l := range f.Listeners {
			if r.Listener != "" && r.Listener != l.Address {
				continue
			}
			if other := at[l.Address]; other != "" {
				return nil, nil, fmt.Errorf("routes[%d].no_name: route %s has the visitors without a name at %s already", i, other, l.Address)
			}
			at[l.Address] = r.Name
		}
		names = append(names, r.Name)
	}
	return routes, names, nil
}
