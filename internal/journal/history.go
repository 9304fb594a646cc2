package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxRecordBytes is the largest record that Append takes.
const MaxRecordBytes = 128 << 10

const (
	defaultHistoryBytes = 8 << 20
	defaultHistoryFiles = 4

	// A history file is named after the number of its first record, so that
	// rotating renames nothing and a crash in the middle of it leaves no gap.
	historyPrefix = "history-"
	historySuffix = ".jsonl"
	historyDigits = 16
)

// line is one record in a history file. What queries look at stands in front.
type line struct {
	Seq    uint64          `json:"seq"`
	At     time.Time       `json:"at"`
	Site   string          `json:"site,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Record json.RawMessage `json:"record"`
}

// history is the writing side.
type history struct {
	fs      files
	log     *slog.Logger
	perFile int64
	keep    int

	mu    sync.Mutex // one Append at a time; held for one write
	out   file       // nil until the first record
	size  int64      // of out: where its last whole line ends
	torn  bool       // out holds a part of a line beyond size that could not be removed
	seq   uint64     // of the last record
	names []string   // oldest first; the last one is out
	done  bool       // closed
}

func openHistory(fs files, log *slog.Logger, o Options) (*history, error) {
	total := cmp.Or(max(o.HistoryBytes, 0), defaultHistoryBytes)
	h := &history{fs: fs, log: log, keep: max(cmp.Or(max(o.HistoryFiles, 0), defaultHistoryFiles), 2)}
	h.perFile = max(total/int64(h.keep), 1)
	var err error
	if h.names, err = historyFiles(fs); err != nil {
		return nil, err
	}
	if len(h.names) == 0 {
		return h, nil
	}
	last := h.names[len(h.names)-1]
	if h.seq, h.size, err = h.lastWhole(last); err != nil {
		// The disk lost it. The history goes on in a new file, with numbers that are
		// certainly above those in the old one.
		log.Error("a history file is unreadable: starting a new one", "file", last, "error", err)
		h.seq, h.size = max(h.seq, firstOf(last))+1<<20, h.perFile
		return h, nil
	}
	return h, h.resume(last)
}

// historyFiles returns them oldest first.
func historyFiles(fs files) ([]string, error) {
	names, err := fs.list()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return firstOf(n) == 0 })
	slices.Sort(names)
	return names, nil
}

// firstOf returns the number of a file's first record; 0 if it is none of ours.
func firstOf(name string) uint64 {
	rest, ok := strings.CutPrefix(name, historyPrefix)
	digits, ok2 := strings.CutSuffix(rest, historySuffix)
	if !ok || !ok2 || len(digits) != historyDigits {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// lastWhole returns the highest number in the file and where its last whole line
// ends.
func (h *history) lastWhole(name string) (seq uint64, end int64, err error) {
	f, err := h.fs.open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	seq = firstOf(name) - 1
	for l, err := range backwards(f, info.Size()) {
		if err != nil {
			return 0, 0, err
		}
		if end == 0 && l.complete {
			end = l.end
		}
		var r struct{ Seq uint64 }
		if l.complete && json.Unmarshal(l.text, &r) == nil && r.Seq < maxSeq {
			seq = max(seq, r.Seq)
		}
	}
	return seq, end, nil
}

// maxSeq is what fits the digits of a file's name: a number beyond it is damage.
const maxSeq = 1e15

// resume goes on in a file, without the torn line that a crash may have left.
func (h *history) resume(name string) error {
	out, err := h.fs.extend(name)
	if err != nil {
		return err
	}
	if err := out.Truncate(h.size); err != nil {
		out.Close()
		return fmt.Errorf("removing a torn line: %w", err)
	}
	h.out = out
	return nil
}

// Append adds a record to the history. It must marshal to a JSON object; its "at"
// (RFC 3339; now if missing), "site" and "kind" are what Query looks for. The
// record is one write: it survives the death of this process. It is not synced: a
// power cut may lose the last seconds, but what must survive that is a document.
func (j *Journal) Append(record any) error {
	if err := j.append(record); err != nil {
		return fmt.Errorf("adding to the history: %w", err)
	}
	return nil
}

func (j *Journal) append(record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if len(data) > MaxRecordBytes {
		return fmt.Errorf("the record has %d bytes, at most %d are allowed", len(data), MaxRecordBytes)
	}
	var l line
	if err := json.Unmarshal(data, &l); err != nil || !bytes.HasPrefix(data, []byte("{")) {
		return fmt.Errorf("the record is no JSON object with a time in at: %w", err)
	}
	l.Record = data
	if l.At.IsZero() {
		l.At = time.Now()
	}
	l.At = l.At.UTC()
	if err := j.writable(); err != nil {
		return err
	}
	return j.history.add(l)
}

func (h *history) add(l line) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return fs.ErrClosed
	}
	l.Seq = h.seq + 1
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if h.out == nil || h.size > 0 && h.size+int64(len(text)) > h.perFile {
		if err := h.rotate(l.Seq); err != nil {
			return err
		}
	}
	if h.torn {
		text = append([]byte{'\n'}, text...) // ends it, so that only it is lost
	}
	n, err := h.out.Write(text)
	if err != nil {
		h.mend(n)
		return err
	}
	h.torn = false
	h.size += int64(n)
	h.seq = l.Seq
	return nil
}

// mend removes what a failed write left of a line.
func (h *history) mend(n int) {
	if n == 0 {
		return
	}
	if err := h.out.Truncate(h.size); err != nil {
		h.torn = true
		h.size += int64(n)
		h.log.Error("the history has a torn line", "error", err)
	}
}

// rotate starts a file, then removes the oldest. A file that cannot be removed now
// is removed next time.
func (h *history) rotate(first uint64) error {
	name := fmt.Sprintf("%s%0*d%s", historyPrefix, historyDigits, first, historySuffix)
	out, err := h.fs.extend(name)
	if err != nil {
		return fmt.Errorf("starting a file: %w", err)
	}
	if h.out != nil {
		h.settle()
	}
	h.out, h.size, h.torn = out, 0, false
	h.names = append(h.names, name)
	for len(h.names) > h.keep {
		if err := h.fs.remove(h.names[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.log.Error("an old history file could not be removed", "file", h.names[0], "error", err)
			break
		}
		h.names = h.names[1:]
	}
	return nil
}

// settle syncs a file that is full, and closes it.
func (h *history) settle() {
	if err := errors.Join(h.out.Sync(), h.out.Close()); err != nil {
		h.log.Error("the history may lose records in a power cut", "error", err)
	}
}

func (h *history) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
	if h.out == nil {
		return nil
	}
	out := h.out
	h.out = nil
	return errors.Join(out.Sync(), out.Close())
}
