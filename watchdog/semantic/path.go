package semantic

import (
	"fmt"
	"strconv"
	"strings"
)

// step is one part of a path: a name, or an index if name is empty.
type step struct {
	name  string
	index int
}

// parsePath reads a path such as a.b[0].c. The empty one is the document.
func parsePath(text string) ([]step, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("has %d bytes: want at most %d", len(text), maxText)
	}
	if text == "" {
		return nil, nil
	}
	var steps []step
	for i, part := range strings.Split(text, ".") {
		name, indexes, _ := strings.Cut(part, "[")
		if name != "" {
			steps = append(steps, step{name: name})
		} else if i > 0 || indexes == "" {
			return nil, fmt.Errorf("%q has an empty name", text)
		}
		if strings.Contains(name, "]") {
			return nil, fmt.Errorf("%q has ] without [", text)
		}
		if len(name) == len(part) {
			continue
		}
		more, err := parseIndexes(part[len(name):])
		if err != nil {
			return nil, fmt.Errorf("%q %w", text, err)
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

// parseIndexes reads [0][1] and so on.
func parseIndexes(text string) (steps []step, err error) {
	for text != "" {
		number, rest, closed := strings.Cut(text[1:], "]")
		n, err := strconv.ParseUint(number, 10, 32)
		if text[0] != '[' || !closed || err != nil || n > maxIndex {
			return nil, fmt.Errorf("has an index that is not one like [0]")
		}
		steps = append(steps, step{index: int(n)})
		text = rest
	}
	return steps, nil
}

// find returns the value at a path. ok is false if there is none.
func find(v any, path []step) (_ any, ok bool) {
	for _, s := range path {
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[s.name]; !ok || s.name == "" {
				return nil, false
			}
		case []any:
			if s.name != "" || s.index >= len(in) {
				return nil, false
			}
			v = in[s.index]
		default:
			return nil, false
		}
	}
	return v, true
}
