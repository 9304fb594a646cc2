// Package table prints what commands show, in aligned columns.
//
//	t := table.New(os.Stdout, "GATEWAY", "PHASE", "SINCE")
//	t.Row("nuc", "alive", table.Ago(since))
//	t.End()
package table

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table aligns columns.
type Table struct{ w *tabwriter.Writer }

// New begins a table with its heads.
func New(out io.Writer, columns ...any) Table {
	t := Table{tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)}
	t.Row(columns...)
	return t
}

// Row adds a row.
func (t Table) Row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, OneLine(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.w)
}

// End prints it.
func (t Table) End() { _ = t.w.Flush() }

// OneLine keeps what came from a network from moving the cursor, or a column. Nothing
// is a dash.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	return cmp.Or(text, "-")
}

// Ago is how long ago a time was, in seconds; a dash for no time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return time.Since(t).Round(time.Second).String()
}
