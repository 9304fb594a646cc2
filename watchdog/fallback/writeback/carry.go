package writeback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// The ways in which a writeback ends before it has changed anything, or in doubt.
var (
	// ErrRefused: the other home does not take it.
	ErrRefused = errors.New("the other home refuses")
	// ErrSpace: what is to be carried does not fit there.
	ErrSpace = errors.New("there is not enough space at the other home")
	// ErrEmpty: there is nothing here, and something there: is it mounted?
	ErrEmpty = errors.New("the data is empty here and not there: is it mounted?")
	// ErrClock: the clocks differ too much to say what is newer.
	ErrClock = errors.New("the clocks of the homes differ")
	// ErrMoving: something changed while it was carried. What is there now is not what
	// is here; it is carried again when both are stopped.
	ErrMoving = errors.New("the data changed while it was carried: is everything stopped that writes it?")
)

// job is one writeback.
type job struct {
	w     *Writeback
	c     control.Carry
	dir   string // the data here
	root  *os.Root
	temp  string
	run   time.Time
	moved atomic.Int64
}

// Carry makes the data at the other home what it is here, but for what is newer there.
// It may be asked again after any failure, and goes on where it was. ErrRefused,
// ErrSpace, ErrEmpty and ErrClock say that nothing was changed.
func (w *Writeback) Carry(ctx context.Context, c control.Carry, progress func(control.Progress)) (control.Carried, error) {
	if c.Data.Union {
		return control.Carried{}, nil
	}
	j, err := w.job(c)
	if err != nil {
		return control.Carried{}, fmt.Errorf("carrying %s to %s: %w", c.Data.Path, c.To, err)
	}
	defer j.close()
	done, err := j.carry(ctx, progress)
	done.Bytes, done.Took = j.moved.Load(), time.Since(j.run)
	if err != nil {
		return done, fmt.Errorf("carrying %s to %s: %w", c.Data.Path, c.To, err)
	}
	w.cfg.Log.Info("data is carried", "item", c.Item, "to", c.To, "path", c.Data.Path, "files", done.Files, "bytes", done.Bytes,
		"took", done.Took, "conflicts", len(done.Conflicts), "undo", done.Undo)
	return done, nil
}

func (w *Writeback) job(c control.Carry) (*job, error) {
	switch {
	case !supported:
		return nil, errors.New("writeback works on Linux only")
	case c.Since.IsZero():
		return nil, errors.New("it is not said when the cover began")
	case c.To == w.cfg.ID || c.To == "":
		return nil, errors.New("it is not said which other home gets it")
	}
	if err := Check(c.Data); err != nil {
		return nil, err
	}
	j := &job{w: w, c: c, dir: at(c.Data, w.cfg.ID), run: time.Now()}
	var err error
	if j.root, err = os.OpenRoot(j.dir); err != nil {
		return nil, fmt.Errorf("opening the data: is it mounted? %w", err)
	}
	if j.temp, err = os.MkdirTemp(w.cfg.Temp, "edgeward-"); err != nil {
		return nil, errors.Join(fmt.Errorf("making a directory for rsync: %w", err), j.root.Close())
	}
	return j, nil
}

func (j *job) close() {
	_ = j.root.Close()
	_ = os.RemoveAll(j.temp)
}

func (j *job) carry(ctx context.Context, progress func(control.Progress)) (control.Carried, error) {
	there, err := j.look(ctx)
	if err != nil {
		return control.Carried{}, err
	}
	before, err := j.listing(ctx)
	if err != nil {
		return control.Carried{}, err
	}
	items, err := j.scan(ctx)
	if err != nil {
		return control.Carried{}, err
	}
	p, err := j.plan(ctx, items)
	if err != nil {
		return control.Carried{}, err
	}
	done := control.Carried{Files: int64(len(p.carried)), Conflicts: p.beside}
	if err := j.fits(p, there); err != nil {
		return done, err
	}
	besides, err := j.besides(ctx, p)
	if err != nil {
		return done, err
	}
	if err := j.prepare(ctx, p, besides); err != nil {
		return done, err
	}
	if err := j.place(ctx, besides); err != nil {
		return done, err
	}
	if err := j.transfer(ctx, p, progress); err != nil {
		return done, err
	}
	if err := j.prove(ctx, p, before); err != nil {
		return done, err
	}
	done.Undo, err = j.end(ctx)
	return done, err
}

// look asks what is there, and refuses what cannot go well.
func (j *job) look(ctx context.Context) (place, error) {
	asked := time.Now()
	conn, there, err := j.open(ctx)
	if err != nil {
		return there, err
	}
	defer hangUp(conn, 0)
	took := time.Since(asked)
	if skew := there.Now.Sub(asked.Add(took/2)).Abs() - took/2; skew > maxSkew {
		return there, fmt.Errorf("%w by %s", ErrClock, skew.Round(time.Second))
	}
	d, err := j.root.Open(".")
	if err != nil {
		return there, fmt.Errorf("opening the data: %w", err)
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); errors.Is(err, io.EOF) && !there.Empty {
		return there, fmt.Errorf("%s: %w", j.dir, ErrEmpty)
	}
	return there, nil
}

// open opens a stream, which says what is at its end. ctx bounds the wait for the
// answer alone: who uses the stream closes it.
func (j *job) open(ctx context.Context) (net.Conn, place, error) {
	conn, err := j.w.cfg.Dial(ctx, j.c.To)
	if err != nil {
		return nil, place{}, fmt.Errorf("connecting to %s: %w", j.c.To, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := ask(conn, Hello{Home: j.c.Home, Item: j.c.Item, Path: j.c.Data.Path, Epoch: j.c.Epoch, Since: j.c.Since, Run: j.run})
	if err == nil && r.Place == nil {
		err = errFrame
	}
	if err != nil {
		conn.Close()
		return nil, place{}, err
	}
	return conn, *r.Place, nil
}

// ask asks one question. A refusal is an ErrRefused.
func ask(conn net.Conn, question any) (reply, error) {
	var r reply
	if err := writeFrame(conn, question); err != nil {
		return r, err
	}
	if err := readFrame(conn, &r); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return r, fmt.Errorf("waiting for the other home's answer: %w", err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("%w: %s", ErrRefused, strings.ToValidUTF8(r.Error, "?"))
	}
	return r, nil
}

// askAll asks several questions on one stream.
func (j *job) askAll(ctx context.Context, questions []question, take func(reply) error) error {
	if len(questions) == 0 {
		return nil
	}
	conn, _, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn, 0)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for _, q := range questions {
		r, err := ask(conn, q)
		if err == nil && take != nil {
			err = take(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rsync runs rsync with the patterns of what is left alone.
func (j *job) rsync(ctx context.Context, s step, keep []string, dir string, line func(string) error, args ...string) error {
	exclude, err := j.exclude(keep)
	if err != nil {
		return err
	}
	err = j.w.rsync(ctx, j.temp, run{
		step: s, args: append(common(exclude), args...), dir: dir + "/", line: line, moved: &j.moved,
		open: func(ctx context.Context) (net.Conn, error) {
			conn, _, err := j.open(ctx)
			return conn, err
		},
	})
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return errors.Join(err, j.why(ctx, failed))
	}
	return err
}

// why is what rsync said at the other end when it failed here, too.
func (j *job) why(ctx context.Context, failed *exec.ExitError) error {
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	conn, there, err := j.open(ctx)
	if err != nil {
		return nil // what is known is said
	}
	hangUp(conn, 0)
	if there.Failed == "" {
		return nil
	}
	return fmt.Errorf("%s says (%s): %s", j.c.To, failed, strings.ToValidUTF8(there.Failed, "?"))
}

// exclude writes the patterns of what is left alone, for rsync to read.
func (j *job) exclude(keep []string) (string, error) {
	patterns := append([]string{partialDir + "/", tempDir + "/"}, j.c.Data.Exclude...)
	for _, name := range keep {
		patterns = append(patterns, literal(name))
	}
	return j.write("exclude", patterns)
}

// write makes a file of names for rsync to read, each with a NUL after it.
func (j *job) write(file string, names []string) (string, error) {
	path := filepath.Join(j.temp, file)
	var list strings.Builder
	for _, n := range names {
		list.WriteString(n + "\x00")
	}
	if err := os.WriteFile(path, []byte(list.String()), 0o600); err != nil {
		return "", fmt.Errorf("preparing rsync: %w", err)
	}
	return path, nil
}

// scan is a dry run: what would be changed.
func (j *job) scan(ctx context.Context) ([]item, error) {
	var items []item
	args := []string{"--dry-run", outFormat}
	if j.w.cfg.Delete {
		args = append(args, "--delete")
	}
	err := j.rsync(ctx, scanning, nil, j.dir, func(line string) error {
		if remark.MatchString(line) {
			return nil
		}
		i, err := parseItem(line)
		if i.name != "." {
			items = append(items, i)
		}
		return err
	}, args...)
	return items, err
}

// plan looks at both ends of each change, and decides.
func (j *job) plan(ctx context.Context, items []item) (plan, error) {
	var changes []change
	var names []string
	for _, i := range items {
		if i.update == '.' && !i.new {
			continue
		}
		c := change{item: i, journals: map[string]Stat{}, here: look(j.root, i.name)}
		if !c.deleted() && c.here.Kind == "" {
			continue // only there, and kept from being deleted by what is in it
		}
		names = append(names, i.name)
		if c.kind == File && !i.deleted() {
			for _, suffix := range suffixes {
				if journal := i.name + suffix; look(j.root, journal).Kind == "" {
					c.journals[journal] = Stat{}
					names = append(names, journal)
				}
			}
		}
		changes = append(changes, c)
	}
	there, err := j.stats(ctx, names)
	if err != nil {
		return plan{}, err
	}
	for i, c := range changes {
		changes[i].there = there[c.name]
		for name := range c.journals {
			c.journals[name] = there[name]
		}
	}
	return decide(changes, rules{since: j.c.Since, synced: j.synced(), delete: j.w.cfg.Delete}), nil
}

// synced is when the data was last synced to here, if there is a stamp that says so.
func (j *job) synced() time.Time {
	info, err := os.Stat(j.c.Data.Stamp)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// stats asks what is at names at the other home.
func (j *job) stats(ctx context.Context, names []string) (map[string]Stat, error) {
	var questions []question
	for _, part := range portions(names) {
		questions = append(questions, question{Stat: part})
	}
	there := make(map[string]Stat, len(names))
	n := 0
	err := j.askAll(ctx, questions, func(r reply) error {
		asked := questions[n].Stat
		if n++; len(r.Stats) != len(asked) {
			return errFrame
		}
		for i, s := range r.Stats {
			there[string(asked[i])] = s
		}
		return nil
	})
	return there, err
}

// spare is what a file system needs for itself.
const spare = 16 << 20

// fits reckons with all files at their full size: new ones are complete before the
// old ones go.
func (j *job) fits(p plan, there place) error {
	need := p.bytes
	for _, name := range p.beside {
		need += look(j.root, name).Size
	}
	if len(p.carried)+len(p.beside) > 0 && need+need/100+spare > there.Free {
		return fmt.Errorf("%w: %d bytes are needed and %d are free", ErrSpace, need+need/100+spare, there.Free)
	}
	if there.FreeUndo >= 0 && p.old > 0 && p.old+spare > there.FreeUndo {
		return fmt.Errorf("%w for the undo copy: %d bytes are needed and %d are free", ErrSpace, p.old+spare, there.FreeUndo)
	}
	return nil
}

// prepare has the other home write down what will be new, and move away what must not
// be found beside what is carried.
func (j *job) prepare(ctx context.Context, p plan, besides map[string]string) error {
	var questions []question
	created := slices.Concat(p.created, slices.Sorted(maps.Keys(besides)))
	for _, part := range portions(created) {
		questions = append(questions, question{Note: part})
	}
	for _, part := range portions(p.move) {
		questions = append(questions, question{Move: part})
	}
	return j.askAll(ctx, questions, nil)
}

// transfer carries.
func (j *job) transfer(ctx context.Context, p plan, progress func(control.Progress)) error {
	args := []string{"--update", "--delay-updates", "--info=progress2", "--outbuf=N"}
	if b := j.c.Bandwidth; b > 0 {
		args = append(args, fmt.Sprintf("--bwlimit=%d", max(1, b>>10)))
	}
	g := gauge{p.bytes, time.Now(), progress}
	if progress != nil {
		progress(control.Progress{Total: p.bytes})
	}
	return j.rsync(ctx, carrying, p.keep, j.dir, func(line string) error {
		g.line(line)
		return nil
	}, args...)
}

// end has the other home see that it stays, and returns where the undo copy is.
func (j *job) end(ctx context.Context) (kept string, err error) {
	err = j.askAll(ctx, []question{{End: true}}, func(r reply) error {
		kept = r.Undo
		return nil
	})
	return kept, err
}
