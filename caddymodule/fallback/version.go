package fallback

import (
	"runtime/debug"
	"sync"
)

const modulePath = "github.com/edgeward/edgeward"

// version is that of our module in this program, also in one that others have built.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == modulePath {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return "unknown"
})
