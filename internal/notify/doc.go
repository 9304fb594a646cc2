// Package notify tells people what the watchdog did, and tells a dead-man service
// that it is alive.
//
// An Outbox takes events and keeps them on disk until every channel has them: a
// message that cannot leave during an outage arrives after it, in order, with the
// time at which it happened. What was said already is not said again; what is still
// wrong is repeated now and then, until an event with Severity Resolved ends it.
// Whether an event is true is the caller's matter: post it when the effect has been
// verified, not when it was asked for.
//
//	channel, err := notify.New(notify.Config{URL: secret.New("https://discord.com/api/webhooks/1/token")})
//	outbox, err := notify.NewOutbox(journal, []notify.Channel{channel}, notify.Options{})
//	go outbox.Run(ctx)
//	err = outbox.Post(notify.Event{
//		Incident: "example.com/relay", Site: "example.com", Kind: notify.Switched,
//		Severity: notify.Warning, From: "relay", To: "cloudflare", Reason: "4 failed probes",
//	})
//
// A URL holds secrets. No error, log, statistic or message of this package holds
// one, or a part of one other than its scheme.
package notify
