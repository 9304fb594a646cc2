package wizard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/huh"
	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// lines asks line by line.
func (t *talk) lines(ctx context.Context, in, out *os.File) error {
	reader, err := cancelreader.NewReader(in)
	if err != nil {
		return err
	}
	defer reader.Close()
	defer context.AfterFunc(ctx, func() { reader.Cancel() })()
	for i, q := range t.asked {
		line := &byteReader{r: reader}
		if i == t.firstSecret() {
			fmt.Fprintf(out, "\n%s\n\n", t.summary())
		}
		if q.field == "" {
			err = t.hidden(i, in, out, line)
		} else {
			err = t.line(i, out, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *talk) line(i int, out io.Writer, line *byteReader) error {
	q := t.asked[i]
	title := q.title + " (" + q.help + ")"
	if preset := t.preset(i); preset != "" {
		title += " [" + preset + "]"
	}
	err := huh.NewInput().Title(title+":").Accessor(slot{t, i}).
		Validate(func(text string) error { return t.check(i, text) }).
		RunAccessible(out, line)
	if line.err != nil { // it would pass for an empty answer
		return ended(line.err)
	}
	return err
}

// hidden asks without an echo. The library's own way could not be interrupted, and
// would leave the terminal without an echo.
func (t *talk) hidden(i int, in, out *os.File, line *byteReader) error {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), state) }()
	terminal := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{line, out}, "")
	for {
		text, err := terminal.ReadPassword(t.asked[i].title + " (" + t.asked[i].help + "): ")
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return ended(err)
		}
		if err := t.check(i, text); err != nil {
			fmt.Fprintf(terminal, "%v\n", err)
			continue
		}
		t.put(i, text)
		return nil
	}
}

// ended says that there is nobody to ask any more.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, cancelreader.ErrCanceled) {
		return huh.ErrUserAborted
	}
	return err
}

// byteReader hands out one byte at a time, so that nobody reads past the end of a
// line: what comes behind it belongs to the next question.
type byteReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (b *byteReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.r.Read(p[:1])
	if err != nil {
		b.err = err
	}
	return n, err
}
