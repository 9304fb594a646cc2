package watchdog

import (
	"errors"
	"log/slog"
	"os"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/journal"
)

// leaveToOther ends the process if it has just been started and another watchdog has
// the state directory: with 2, as check and once do, so that a unit or a script can
// tell that from a start that may go better next time. Caddy ends with 1 whatever an
// app says when it starts, so the app has to do it.
//
// Where a config is in force already it returns: then it was a reload, and what runs
// goes on.
func leaveToOther(log *slog.Logger, err error) {
	if !errors.Is(err, journal.ErrLocked) || caddy.ActiveContext().Context != nil {
		return
	}
	log.Error("ending: another watchdog is at work", "event", "fatal", "error", err)
	os.Exit(exitCode(err))
}
