package wizard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
)

// Options of a Run.
type Options struct {
	// What is known already. It goes before what the file says.
	Answers Answers
	// A JSON file with answers. Default: none.
	File string
	// A file with the token, or - for standard input. Default: it is asked for.
	TokenFile string
	// Where to write.
	Files Files
	// Do not ask the provider about the token and the records.
	Offline bool
	// Ask line by line.
	Accessible bool
}

// Terminal is where people are. Questions are asked if In and Err are terminals.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
}

// tokenTries is how often the token may be asked for.
const tokenTries = 3

// Run is the whole wizard. The result goes to Out, all else to Err. It writes files
// or returns an error, never both, but for a disk that fails between the two. The
// error is a [*cloudflare.Error] within if the provider could not be asked.
func Run(ctx context.Context, o Options, t Terminal) error {
	r := &run{Options: o, Terminal: t}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.complete(ctx); err != nil {
		return err
	}
	findings, err := r.review(ctx)
	if err != nil {
		return err
	}
	return r.again(r.finish(findings))
}

// run is one Run.
type run struct {
	Options
	Terminal

	answers      Answers
	token        secret.String
	typed        bool     // the token was
	keys, screen *os.File // the terminal, see asks
}

// prepare refuses what needs no questions.
func (r *run) prepare() error {
	r.answers = r.Answers
	if r.File != "" {
		more, err := ReadFile(r.File)
		if err != nil {
			return err
		}
		r.answers = r.answers.Or(more)
	}
	given, err := r.answers.Given()
	if err != nil {
		return err
	}
	r.answers = given
	return r.Files.Check()
}

// complete gets what is missing.
func (r *run) complete(ctx context.Context) error {
	missing := r.answers.Missing()
	if r.TokenFile == "" {
		missing = append(missing, "--token-file")
	}
	var asks bool
	if r.asks() {
		asks = len(missing) > 0
	} else if len(missing) > 0 {
		return fmt.Errorf("this is no terminal, so that nothing can be asked: set %s", strings.Join(missing, " "))
	}
	if r.TokenFile == "-" && asks {
		return fmt.Errorf("standard input cannot have both the token and the answers: set %s", strings.Join(missing, " "))
	}
	if asks {
		r.typed = r.TokenFile == ""
		if err := r.ask(ctx); err != nil {
			return err
		}
	}
	var err error
	if r.answers, err = r.answers.Normalise(); err != nil {
		return err
	}
	fmt.Fprintln(r.Err, managed(r.answers))
	if r.typed {
		return nil
	}
	r.token, err = r.readToken()
	return err
}

// asks reports whether there is somebody to ask.
func (r *run) asks() bool {
	var in, out bool
	r.keys, in = isTerminal(r.In)
	r.screen, out = isTerminal(r.Err)
	return in && out
}

func (r *run) ask(ctx context.Context) (err error) {
	plain := r.Accessible || os.Getenv("TERM") == "dumb"
	r.answers, r.token, err = Form(ctx, r.keys, r.screen, r.answers, r.typed, plain)
	return err
}

func (r *run) readToken() (secret.String, error) {
	if r.TokenFile == "-" {
		return tokenFrom(r.In)
	}
	token, notice, err := secret.Read(r.TokenFile)
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return secret.String{}, fmt.Errorf("--token-file: %w", err)
	}
	if notice != "" {
		fmt.Fprintln(r.Err, notice)
	}
	return token, nil
}

// tokenFrom reads a token up to its end.
func tokenFrom(in io.Reader) (secret.String, error) {
	data, err := io.ReadAll(io.LimitReader(in, 2*secret.MaxBytes))
	if err != nil {
		return secret.String{}, fmt.Errorf("reading the token from standard input: %w", err)
	}
	token := secret.New(strings.TrimSpace(string(data)))
	if err := checkToken(token); err != nil {
		return secret.String{}, fmt.Errorf("reading the token from standard input: %w", err)
	}
	return token, nil
}

// review asks the provider. A token that was typed may be typed again.
func (r *run) review(ctx context.Context) (Findings, error) {
	if r.Offline {
		fmt.Fprintln(r.Err, "Offline: neither the token nor the DNS records were looked at.")
		return Findings{}, nil
	}
	for try := 1; ; try++ {
		f, err := r.reviewOnce(ctx)
		refused, ok := errors.AsType[*cloudflare.Error](err)
		if err == nil || !r.typed || try == tokenTries || !ok || refused.Kind != cloudflare.KindAuth {
			return f, r.again(err)
		}
		fmt.Fprintln(r.Err, err)
		if err := r.ask(ctx); err != nil {
			return Findings{}, err
		}
	}
}

func (r *run) reviewOnce(ctx context.Context) (Findings, error) {
	c, err := cloudflare.New(cloudflare.Config{Token: r.token, BaseURL: r.answers.API})
	if err != nil {
		return Findings{}, err
	}
	defer c.Close()
	f, err := Review(ctx, c, r.answers)
	if err == nil {
		err = f.Err()
	}
	return f, err
}

// again saves whoever has typed the answers from typing them once more.
func (r *run) again(err error) error {
	if err == nil || !r.typed {
		return err
	}
	return fmt.Errorf("%w\nTo repeat that with the same answers:\n  edge-watchdog init %s", err, r.answers.Flags())
}

// finish writes the files and says what is next.
func (r *run) finish(f Findings) error {
	if f.Zone.ID != "" {
		r.answers.Zone = f.Zone.ID // it needs no permission to look it up
	}
	if _, err := r.answers.Config(r.token); err != nil {
		return err
	}
	config := Render(r.answers, r.Files.TokenFile())
	w, err := r.Files.Write(r.token, config)
	if err != nil {
		return err
	}
	for _, note := range f.Notes {
		fmt.Fprintln(r.Err, "Note:", note)
	}
	for _, kept := range w.Kept {
		fmt.Fprintln(r.Err, "The former file is now", kept)
	}
	if f.On != "" {
		fmt.Fprintf(r.Err, "The site is on the path %s.\n", f.On)
	}
	fmt.Fprintf(r.Err, "The token is in %s, and this is %s:\n\n", w.Token, w.Config)
	if _, err := io.WriteString(r.Out, config); err != nil {
		return fmt.Errorf("printing the Caddyfile: %w", err)
	}
	fmt.Fprint(r.Err, Next(r.answers, f, w))
	return nil
}
