package edge

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/edgeward/edgeward/relay/event"
)

// emitter gives what happens to Caddy's events app, so that its handlers can act
// on it: an event has the name that the log and the admin API have, and its data
// has the same members as there.
type emitter struct {
	ctx    caddy.Context
	events *caddyevents.App
}

// newEmitter returns nil where the config has no events app.
func newEmitter(ctx caddy.Context) *emitter {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return nil // or it has failed, and Caddy says so
	}
	return &emitter{ctx, app.(*caddyevents.App)}
}

func (e *emitter) emit(ev event.Event) {
	e.events.Emit(e.ctx, string(ev.Kind), dataOf(ev))
}

// dataOf are an event's members, without those that are empty.
func dataOf(ev event.Event) map[string]any {
	data := map[string]any{"id": ev.ID, "at": ev.At.Format(time.RFC3339Nano)}
	for name, value := range map[string]string{
		"actor": ev.Actor, "gateway": ev.Gateway, "pool": ev.Pool, "from": ev.From, "to": ev.To, "reason": ev.Reason,
	} {
		if value != "" {
			data[name] = value
		}
	}
	if len(ev.Routes) > 0 {
		data["routes"] = ev.Routes
	}
	return data
}
