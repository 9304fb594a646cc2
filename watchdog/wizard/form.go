package wizard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/huh"
	"golang.org/x/term"

	"github.com/edgeward/edgeward/internal/secret"
)

// ErrAborted says that whoever was asked did not want to go on.
var ErrAborted = errors.New("aborted: nothing was written")

// Form asks for the answers that are not given, and for the token if that is wanted,
// in a terminal: in is read, and out is written to. Accessible, it asks line by line
// and redraws nothing, for screen readers and terminals that cannot.
func Form(ctx context.Context, in, out *os.File, given Answers, token, accessible bool) (Answers, secret.String, error) {
	t := newTalk(given, token)
	var err error
	if accessible {
		err = t.lines(ctx, in, out)
	} else {
		err = t.pages(ctx, in, out)
	}
	switch {
	case ctx.Err() != nil:
		return given, secret.String{}, fmt.Errorf("%w: %w", ErrAborted, context.Cause(ctx))
	case errors.Is(err, huh.ErrUserAborted), errors.Is(err, tea.ErrInterrupted):
		return given, secret.String{}, ErrAborted
	case err != nil:
		return given, secret.String{}, fmt.Errorf("asking: %w", err)
	}
	answers, typed := t.result()
	return answers, typed, nil
}

// isTerminal reports whether somebody can be asked there.
func isTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// pages runs the form. The library's own way to run it with a context kills it, and
// then closes the input under whoever reads it.
func (t *talk) pages(ctx context.Context, in, out *os.File) error {
	form := t.form()
	form.SubmitCmd, form.CancelCmd = tea.Quit, tea.Quit
	p := tea.NewProgram(form, tea.WithInput(in), tea.WithOutput(out))
	defer context.AfterFunc(ctx, p.Quit)()
	_, err := p.Run()
	if err == nil && form.State != huh.StateCompleted {
		return huh.ErrUserAborted
	}
	return err
}

// form makes a page of each group of questions.
func (t *talk) form() *huh.Form {
	pages := map[int][]huh.Field{}
	for i, q := range t.asked {
		if i == t.firstSecret() {
			pages[q.page] = append(pages[q.page], huh.NewNote().Title("Names").DescriptionFunc(t.note, &t.texts))
		}
		pages[q.page] = append(pages[q.page], t.input(i))
	}
	var groups []*huh.Group
	for page := range len(questions) {
		if list := pages[page]; len(list) > 0 {
			groups = append(groups, huh.NewGroup(list...))
		}
	}
	return huh.NewForm(groups...)
}

// note is the summary for a note, in which a star makes bold.
func (t *talk) note() string { return strings.ReplaceAll(t.summary(), "*", `\*`) }

func (t *talk) input(i int) *huh.Input {
	q := t.asked[i]
	input := huh.NewInput().Title(q.title).Description(q.help).
		Validate(func(text string) error { return t.check(i, text) }).
		Accessor(slot{t, i}).
		PlaceholderFunc(func() string { return t.preset(i) }, &t.texts)
	if q.field == "" {
		input.EchoMode(huh.EchoModePassword)
	}
	return input
}

// slot is where the form keeps one answer.
type slot struct {
	t *talk
	i int
}

// Get implements huh.Accessor.
func (s slot) Get() string { return s.t.text(s.i) }

// Set implements huh.Accessor.
func (s slot) Set(text string) { s.t.put(s.i, text) }
