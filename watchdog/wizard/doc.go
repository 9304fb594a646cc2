// Package wizard writes the first config of a watchdog: one site, with a path through
// a relay and a path through Cloudflare.
//
//	err := wizard.Run(ctx, wizard.Options{Answers: fromFlags, Dir: dir}, wizard.Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
//
// It asks for what is not given, in a terminal; without one everything has to be
// given, see Answers. Names are checked, and those that will be managed are shown,
// before the token is asked for. Then it reads the DNS records of the site and says
// what stands in the way, and which of them have to be adopted. It writes two files,
// the token and a Caddyfile, and nothing else: never a DNS record.
package wizard
