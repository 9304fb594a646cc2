package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// mapForm is the path of a map, as render makes them.
	mapForm   = regexp.MustCompile(`\A(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+\z`)
	entryForm = regexp.MustCompile(`\A[A-Za-z0-9_.:*-]{1,400}\z`)
	madeForm  = regexp.MustCompile(`\A\[6\]: New version created: (\d+)\z`)
	listForm  = regexp.MustCompile(`\A-?\d+ \((.*)\) pattern loaded from file `)
)

// maxPayload is how many bytes of entries go at once: with 20 kB, 2.6 drops all of
// them and says nothing.
const maxPayload = 7 << 10

// Maps returns the paths of the maps in use.
func (c *Client) Maps(ctx context.Context) ([]string, error) {
	text, err := c.lines(ctx, "show map")
	if err != nil {
		return nil, err
	}
	var paths []string
	for i, line := range text {
		if i == 0 && line == "# id (file) description" {
			continue
		}
		if m := listForm.FindStringSubmatch(line); m != nil {
			paths = append(paths, m[1])
		}
	}
	return paths, nil
}

// Map returns the entries of a map, which must not hold a key twice.
func (c *Client) Map(ctx context.Context, path string) (map[string]string, error) {
	if !mapForm.MatchString(path) {
		return nil, fmt.Errorf("%.80q is not the path of a map", path)
	}
	return c.entries(ctx, path)
}

// ReplaceMap gives a map other entries in one step: visitors see those from before,
// or all of the new ones. What is there afterwards is compared.
func (c *Client) ReplaceMap(ctx context.Context, path string, entries map[string]string) error {
	if !mapForm.MatchString(path) {
		return fmt.Errorf("%.80q is not the path of a map", path)
	}
	for key, value := range entries {
		if !entryForm.MatchString(key) || !entryForm.MatchString(value) {
			return fmt.Errorf("%.60q: %.60q cannot stand in a map", key, value)
		}
	}
	version, err := c.prepare(ctx, path)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("@%d %s", version, path)
	for chunk := range payloads(entries) {
		// The client adds the line break that makes the blank line at the end.
		if _, err := c.quiet(ctx, "add map "+at+" <<\n"+chunk); err != nil {
			return err
		}
	}
	if have, err := c.entries(ctx, at); err != nil {
		return err
	} else if !maps.Equal(have, entries) {
		return c.failed(fmt.Errorf("could not confirm the new entries of %s: %d of %d are there", path, len(have), len(entries)))
	}
	if _, err := c.quiet(ctx, "commit map "+at); err != nil {
		return err
	}
	have, err := c.entries(ctx, path)
	if err == nil && !maps.Equal(have, entries) {
		err = c.failed(fmt.Errorf("could not confirm the commit of %s", path))
	}
	return err
}

func (c *Client) prepare(ctx context.Context, path string) (int, error) {
	text, err := c.ask(ctx, "prepare map "+path)
	if err != nil {
		return 0, err
	}
	m := madeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, c.failed(fmt.Errorf("prepare map: %.200q", text))
	}
	return strconv.Atoi(m[1])
}

// quiet passes a command that answers nothing when all is well. So does one that was
// cut off: what it did must be read back.
func (c *Client) quiet(ctx context.Context, command string) (string, error) {
	text, err := c.ask(ctx, command)
	if err == nil && text != "" {
		err = c.failed(fmt.Errorf("%.40q: %.200q", command, text))
	}
	return text, err
}

// payloads are entries in what fits into one command.
func payloads(entries map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			line := key + " " + entries[key] + "\n"
			if b.Len()+len(line) > maxPayload {
				if !yield(b.String()) {
					return
				}
				b.Reset()
			}
			b.WriteString(line)
		}
		if b.Len() > 0 {
			yield(b.String())
		}
	}
}

// entries reads a map, at a version if of names one.
func (c *Client) entries(ctx context.Context, of string) (map[string]string, error) {
	list, err := c.lines(ctx, "show map "+of)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(list))
	for _, line := range list {
		f := strings.Split(line, " ")
		if len(f) != 3 || !strings.HasPrefix(f[0], "0x") || f[1] == "" || f[2] == "" {
			return nil, c.failed(fmt.Errorf("an entry of %s has another form: %.120q", of, line))
		}
		if _, twice := found[f[1]]; twice {
			return nil, c.failed(fmt.Errorf("%s holds %.60q twice", of, f[1]))
		}
		found[f[1]] = f[2]
	}
	return found, nil
}

// lines returns the answer to one command, which is whole, line by line.
func (c *Client) lines(ctx context.Context, command string) ([]string, error) {
	text, err := c.ask(ctx, command+";"+last)
	if err != nil {
		return nil, err
	}
	i := strings.LastIndexByte(text, '\n')
	if _, complete := levels[text[i+1:]]; !complete {
		return nil, c.failed(fmt.Errorf("the answer to %.60q is cut short, or empty: it ends in %.80q", command, tail(text)))
	}
	body := strings.Trim(text[:max(i, 0)], "\n")
	switch {
	case body == "":
		return nil, nil
	case saidForm(body):
		return nil, c.failed(errors.New(body))
	case strings.Contains(body, "\n\n"):
		return nil, c.failed(fmt.Errorf("the answer to %.60q has more than one part", command))
	}
	return strings.Split(body, "\n"), nil
}
