package journal

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

const (
	blockBytes = 64 << 10
	// maxLineBytes: Append writes no line that long, so a longer one is damage.
	maxLineBytes = 4 * MaxRecordBytes
)

// piece is a line of a file.
type piece struct {
	// text is without the newline. nil: longer than maxLineBytes. It is only valid
	// until the next one is asked for.
	text []byte
	// end is where the line ends, newline included.
	end int64
	// complete: it has its newline.
	complete bool
}

// backwards reads the lines of a file from its end, holding a block and a line.
func backwards(r io.ReaderAt, size int64) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		var rest []byte // of a line whose beginning is not read yet
		long := false   // rest was given up
		complete := false
		end := size // of the line that rest belongs to
		for at := size; at > 0; {
			n := min(at, blockBytes)
			at -= n
			block := make([]byte, n, int(n)+len(rest))
			if got, err := r.ReadAt(block, at); int64(got) < n {
				if err == nil || errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF // it shrank meanwhile
				}
				yield(piece{}, err)
				return
			}
			block = append(block, rest...)
			for {
				i := bytes.LastIndexByte(block, '\n')
				if i < 0 {
					break
				}
				if !send(yield, block[i+1:], end, complete, long) {
					return
				}
				block, end, complete, long = block[:i], at+int64(i)+1, true, false
			}
			if rest = block; long || len(rest) > maxLineBytes {
				rest, long = nil, true
			}
		}
		send(yield, rest, end, complete, long)
	}
}

func send(yield func(piece, error) bool, text []byte, end int64, complete, long bool) bool {
	switch {
	case long:
		return yield(piece{nil, end, complete}, nil)
	case len(text) == 0:
		return true // after the last newline, or an empty line
	}
	return yield(piece{text, end, complete}, nil)
}
