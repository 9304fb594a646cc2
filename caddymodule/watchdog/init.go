package watchdog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

func init() {
	caddycmd.RegisterCommand(initCommand())
}

// systemDir is where a service has its config.
const systemDir = "/etc/edgeward"

// initCommand is the wizard for the first config.
func initCommand() caddycmd.Command {
	return caddycmd.Command{
		Name: "init", Usage: "[--domain <name>] [--relay <ip>] ...", Short: "Asks what it has to know, and writes the first config",
		Long: `
Writes a Caddyfile for one site with two paths, through a relay and through Cloudflare,
and a file with the API token. It asks for what is not given by flags or by --answers;
without a terminal all has to be given. It reads the DNS records, says what stands in
the way, and never writes one.
` + exits,
		CobraFunc: func(cmd *cobra.Command) {
			o := &wizard.Options{}
			addInitFlags(cmd, o)
			ours(cmd, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return runInit(cmd, *o) })
		},
	}
}

func addInitFlags(cmd *cobra.Command, o *wizard.Options) {
	f, a := cmd.Flags(), &o.Answers
	f.StringVar(&a.Domain, "domain", "", "domain of the site, like example.com")
	f.StringVar(&a.Relay, "relay", "", "IPv4 address of the relay")
	f.StringVar(&a.Relay6, "relay6", "", "IPv6 address of the relay (default: none)")
	f.StringVar(&a.Home, "home", "", "public IPv4 address of the home")
	f.StringArrayVar(&a.Names, "name", nil, "name to move; may be repeated (default: the domain and *.<domain>)")
	f.StringVar(&a.HealthHost, "health-host", "", "host of the health check (default: edge-health.<domain>)")
	f.StringVar(&a.Canary, "canary", "", "proxied name that never moves (default: the health host, or edge-canary.<domain>)")
	f.StringVar(&a.Zone, "zone", "", "id or name of the zone (default: looked up)")
	f.StringVar(&a.Local, "local", "", "private address of the home's TLS server (default port: 443)")
	f.StringVar(&a.StateDir, "state-dir", "", "where the watchdog keeps its state (default: Caddy's data directory)")
	f.StringVar(&a.Preset, "preset", "", "fast or careful (default: fast)")
	f.StringVar(&a.API, "api", "", "base URL of the API (default: Cloudflare's)")
	f.BoolVar(&a.Apply, "apply", false, "permit writes in the config (default: a dry run)")
	f.StringVar(&o.File, "answers", "", "JSON file with answers; flags go before it")
	f.StringVar(&o.TokenFile, "token-file", "", "file with the API token, or - for standard input (default: it is asked for)")
	f.StringVar(&o.Files.Dir, "dir", "", "where to write (default: edgeward in your config directory; with --system "+systemDir+")")
	f.BoolVar(&o.Files.System, "system", false, "write for a service: the files belong to root, --user may read them")
	f.StringVar(&o.Files.User, "user", wizard.DefaultUser, "whom the service runs as, with --system")
	f.BoolVar(&o.Files.Force, "force", false, "replace a former config, which is kept under another name")
	f.BoolVar(&o.Offline, "offline", false, "do not ask the provider about the token and the DNS records")
	f.BoolVar(&o.Accessible, "accessible", false, "ask line by line and redraw nothing, as for TERM=dumb")
}

func runInit(cmd *cobra.Command, o wizard.Options) (err error) {
	if o.Files.Dir, err = initDir(o.Files); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = wizard.Run(ctx, o, wizard.Terminal{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()})
	if _, ok := errors.AsType[*cloudflare.Error](err); ok {
		return fmt.Errorf("%w: %w", errProvider, err)
	}
	return err
}

func initDir(f wizard.Files) (string, error) {
	if f.Dir == "" && !f.System {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("finding your config directory: %w: set --dir", err)
		}
		return filepath.Join(dir, "edgeward"), nil
	}
	return filepath.Abs(cmp.Or(f.Dir, systemDir))
}
