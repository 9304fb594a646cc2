package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/secret"
)

// World is what reading a config may touch: [ThisMachine] or [OnPaper].
type World struct {
	// expand replaces placeholders; one that has no value is an error.
	expand     func(string) (string, error)
	file       func(path string) ([]byte, error)
	secret     func(path string) (s secret.String, notice string, err error)
	credential func(name string) (secret.String, error)
}

// ThisMachine is the world of a config that is about to be used.
var ThisMachine = World{
	expand:     func(s string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(s, true, true) },
	file:       readSmall,
	secret:     secret.Read,
	credential: secret.Credential,
}

// OnPaper is the world of a Caddyfile that is adapted, perhaps on another machine: there
// are no files, and what a placeholder stands for is known later.
var OnPaper = World{
	expand: func(s string) (string, error) {
		if strings.Contains(s, "{") {
			return "", errLater
		}
		return s, nil
	},
	file:       func(string) ([]byte, error) { return nil, errLater },
	secret:     func(string) (secret.String, string, error) { return secret.New("later"), "", nil },
	credential: func(string) (secret.String, error) { return secret.New("later"), nil },
}

// errLater says that something is known only when the config loads.
var errLater = errors.New("not known before the config loads")

// maxFileBytes is as much as is read of a file that a config names.
const maxFileBytes = 1 << 20

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%s is %d bytes long: want at most %d", path, info.Size(), maxFileBytes)
	}
	return os.ReadFile(path)
}
