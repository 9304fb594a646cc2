package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// reload reads the settings again. What cannot be used changes nothing.
func (d *daemon) reload(ctx context.Context) {
	next, err := d.Load()
	if err == nil {
		err = d.take(ctx, next)
	}
	if err != nil {
		d.Log.Error("the settings are not taken: all goes on as before", "error", err)
	}
}

// fixed names a setting that only a restart changes, if it is another.
func fixed(was, is settings.Plan) string {
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"health", was.Render.Health != is.Render.Health},
		{"source", was.Source != is.Source},
		{"addresses", fmt.Sprint(was.Addresses) != fmt.Sprint(is.Addresses)},
		{"agent_check", fmt.Sprint(was.AgentCheck) != fmt.Sprint(is.AgentCheck)},
		{"run.dir", was.Run.Dir != is.Run.Dir},
		{"run.metrics", was.Run.Metrics != is.Run.Metrics},
		{"run.reconcile", was.Run.Reconcile != is.Run.Reconcile},
		{"process.socket.path", was.Render.Process.Socket.Path != is.Render.Process.Socket.Path},
		{"process.files", was.Render.Process.Files != is.Render.Process.Files},
	} {
		if f.changed {
			return f.name
		}
	}
	return ""
}

// take puts settings into use: gateways, pools and routes at once, HAProxy's config if
// that is asked for.
func (d *daemon) take(ctx context.Context, next settings.Plan) error {
	if name := fixed(d.plan, next); name != "" {
		return fmt.Errorf("%s has changed: restart the sidecar for that", name)
	}
	was := d.plan
	d.plan = next
	out, err := d.render()
	if err == nil {
		err = d.watch()
	}
	if err != nil {
		d.plan = was
		return err
	}
	if d.book != nil {
		d.book.SetHosts(next.Hosts())
	}
	d.stale.Store(nil)
	if err := d.compare(ctx, out); err != nil {
		d.stale.Store(new(err.Error()))
		d.Log.Error("HAProxy has another config", "error", err)
	}
	if d.follower != nil {
		d.follower.SetMembers(out.Members)
	}
	d.Log.Info("the settings were read again")
	return nil
}

// compare looks whether the config in place is that of the settings, and applies it if
// that is asked for.
func (d *daemon) compare(ctx context.Context, out render.Output) error {
	have, err := os.ReadFile(d.plan.HAProxy.Config)
	if err == nil && string(have) == out.Text {
		return nil
	}
	if !d.plan.Run.ApplyOnChange {
		return fmt.Errorf(`%s is not what the settings say: run "edge-sidecar apply", or set run.apply_on_change`, d.plan.HAProxy.Config)
	}
	c := Applying(d.plan)
	if d.client != nil {
		c.Maps = d.client
	}
	r, err := apply.Apply(ctx, c, out)
	for _, text := range r.Notices {
		d.Log.Warn("applying the config", "note", text)
	}
	if err != nil {
		return err
	}
	d.Log.Info("the config is in force", "worker", r.Worker, "carried", r.Carried, "names", r.Names)
	return nil
}

// Applying says how a plan is applied.
func Applying(p settings.Plan) apply.Config {
	c := apply.Config{Path: p.HAProxy.Config, Checker: haproxy.Checker{Binary: p.HAProxy.Binary, Timeout: time.Duration(p.HAProxy.CheckTimeout)}}
	if r := p.Reload; !r.Off {
		c.Reload = apply.Reload{Command: r.Command, PIDFile: r.PIDFile, Master: r.Master, Timeout: time.Duration(r.Timeout)}
	}
	return c
}
