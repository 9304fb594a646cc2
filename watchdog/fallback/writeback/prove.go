package writeback

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
)

// prove reads back what was carried, byte by byte, and looks at the rest once more. A
// difference means that somebody writes, here or there.
func (j *job) prove(ctx context.Context, p plan, before [sha256.Size]byte) error {
	differs := func(line string) error {
		if remark.MatchString(line) {
			return nil
		}
		i, err := parseItem(line)
		if err != nil || i.update == '.' || i.deleted() || i.kind == Dir && !i.new {
			return err
		}
		return fmt.Errorf("%w (%q)", ErrMoving, i.name)
	}
	if len(p.carried) > 0 {
		list := make([]string, len(p.carried))
		for i, name := range p.carried {
			list[i] = "./" + name
		}
		from, err := j.write("names", list)
		if err != nil {
			return err
		}
		if err := j.rsync(ctx, verifying, p.keep, j.dir, differs, "--dry-run", "--checksum", "--files-from="+from, outFormat); err != nil {
			return err
		}
	}
	if err := j.rsync(ctx, verifying, p.keep, j.dir, differs, "--dry-run", outFormat); err != nil {
		return err
	}
	return j.still(ctx, p, before)
}

// still fails if something has changed here since before.
func (j *job) still(ctx context.Context, p plan, before [sha256.Size]byte) error {
	for name, was := range p.here {
		if look(j.root, name) != was {
			return fmt.Errorf("%w (%q)", ErrMoving, name)
		}
	}
	after, err := j.listing(ctx)
	if err == nil && after != before {
		err = ErrMoving
	}
	return err
}

// listing sums up what is here, but for what is excluded.
func (j *job) listing(ctx context.Context) ([sha256.Size]byte, error) {
	exclude, err := j.exclude(nil)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	cmd := exec.CommandContext(ctx, j.w.cfg.Rsync, "-rl", "--list-only", "--from0", "--exclude-from="+exclude, "--", j.dir+"/")
	alone(cmd)
	cmd.Env = environment()
	sum := sha256.New()
	var said tail
	cmd.Stdout, cmd.Stderr = sum, &said
	err = cmd.Run()
	reap(cmd)
	if err != nil {
		return [sha256.Size]byte{}, verdict(ctx, "list", nil, nil, err, said.String())
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}
