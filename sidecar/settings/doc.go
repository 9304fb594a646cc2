// Package settings reads the sidecar's config: the relay's description of gateways,
// pools and routes as JSON, and what concerns HAProxy.
//
//	plan, err := settings.Load("/etc/edgeward/sidecar.json", "")
//	if err != nil {
//		return err
//	}
//	out, err := render.Render(plan.Render)
//
// A backup that "edge-relay edge backup" wrote is such a config by itself, and can be
// named by one. Everything is read strictly, and an error names the field.
package settings
