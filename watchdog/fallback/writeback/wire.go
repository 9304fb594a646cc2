package writeback

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A stream is frames of JSON, each after its length in four bytes: a Hello and what
// came of it, then questions and answers. After the answer to a run it belongs to
// rsync.

// Hello says whose data a stream is about.
type Hello struct {
	Home string `json:"home"`
	Item string `json:"item"`
	// Path is that of [fallback.Data], which names the data at every home.
	Path string `json:"path"`
	// Epoch is that of the seat by which the asking home acts.
	Epoch uint64 `json:"epoch"`
	// Since is when the cover began.
	Since time.Time `json:"since"`
	// Run is when the writeback began: its undo copy has that name.
	Run time.Time `json:"run"`
}

// question is what is asked on a stream. One field is set.
type question struct {
	Stat []name  `json:"stat,omitempty"` // what is there of these
	Note []name  `json:"note,omitempty"` // these will be created
	Move []name  `json:"move,omitempty"` // move these to the undo copy
	Run  *launch `json:"run,omitempty"`  // run rsync on this stream
	End  bool    `json:"end,omitempty"`  // it is over: see that it stays
}

// launch is a run of rsync.
type launch struct {
	Step step     `json:"step"`
	Args []string `json:"args"`
}

// step is what a run is for.
type step string

const (
	scanning  step = "scan"   // what would be changed
	placing   step = "beside" // put what is in conflict beside theirs
	carrying  step = "carry"
	verifying step = "verify"
)

// reply is what is answered.
type reply struct {
	Error string `json:"error,omitempty"` // why not
	Place *place `json:"place,omitempty"` // after Hello
	Stats []Stat `json:"stats,omitempty"` // in the order of the names
	Undo  string `json:"undo,omitempty"`
}

// place is where the data goes.
type place struct {
	Now   time.Time `json:"now"`
	Empty bool      `json:"empty"`
	// Failed is what the last rsync said here that failed.
	Failed string `json:"failed,omitempty"`
	// Free is what may be written, and FreeUndo where the undo copy is, if that is
	// elsewhere; else -1.
	Free     int64 `json:"free"`
	FreeUndo int64 `json:"free_undo"`
}

// name is a path below the data, which need not be UTF-8.
type name = []byte

// maxFrame is the longest frame, and maxNames how many bytes of names go into one.
const (
	maxFrame = 16 << 20
	maxNames = 1 << 20
)

var errFrame = errors.New("the other home does not speak as it should")

func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	if len(body) > maxFrame {
		return fmt.Errorf("a frame of %d bytes: at most %d fit", len(body), maxFrame)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("writing to the stream: %w", err)
	}
	return nil
}

// readFrame reads no byte past the frame. It returns io.EOF if there is none.
func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("reading from the stream: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return errFrame
	}
	// Grown as it comes: a length is cheap to claim.
	body, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return fmt.Errorf("reading from the stream: %w", err)
	}
	if len(body) != int(size) || json.Unmarshal(body, v) != nil {
		return errFrame
	}
	return nil
}

// hangUp ends a stream in order: our direction first, so that the other side takes what
// it got for all there is, and then the rest, for which it is given a moment. A close
// with bytes unread would take with it what is still on its way.
func hangUp(conn net.Conn, moment time.Duration) {
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || moment == 0 {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(moment))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxFrame))
}

// linger is how long the other side may take to hang up, too.
const linger = 5 * time.Second

// portions splits names so that each part fits into a frame.
func portions(names []string) [][]name {
	var parts [][]name
	room := 0
	for _, n := range names {
		if room < len(n) || len(parts) == 0 {
			parts, room = append(parts, nil), maxNames
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], name(n))
		room -= len(n) + 64 // the rest is what its answer takes
	}
	return parts
}
