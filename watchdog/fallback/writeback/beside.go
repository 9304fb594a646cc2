package writeback

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// besideName is what a file of ours is called beside theirs: the same in each attempt.
func (j *job) besideName(name string) string {
	const longest = 255 // of a name in a directory
	suffix := ".from-" + strings.ReplaceAll(j.w.cfg.ID, "/", "-") + "-" + j.c.Since.UTC().Format("20060102T150405Z")
	dir, base := filepath.Split(name)
	return dir + base[:min(len(base), max(1, longest-len(suffix)))] + suffix
}

// besides are the files to put beside theirs, by the name they get there. What another
// attempt has put there is not among them, nor what is no file: that stays here.
func (j *job) besides(ctx context.Context, p plan) (map[string]string, error) {
	list := map[string]string{}
	for _, name := range p.beside {
		if p.here[name].Kind == File {
			list[j.besideName(name)] = name
		}
	}
	there, err := j.stats(ctx, slices.Collect(maps.Keys(list)))
	maps.DeleteFunc(list, func(beside, name string) bool {
		a, b := p.here[name], there[beside]
		return a.Kind == b.Kind && a.Size == b.Size && a.Mod.Equal(b.Mod)
	})
	return list, err
}

// place puts what is in conflict beside theirs. rsync cannot give a file another name,
// so links with these names lead to the files.
func (j *job) place(ctx context.Context, besides map[string]string) error {
	stage := filepath.Join(j.temp, "beside")
	var list []string
	for beside, name := range besides {
		to := filepath.Join(stage, beside)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("preparing what is in conflict: %w", err)
		}
		if err := os.Symlink(filepath.Join(j.dir, name), to); err != nil {
			return fmt.Errorf("preparing what is in conflict: %w", err)
		}
		list = append(list, "./"+beside)
	}
	if len(list) == 0 {
		return nil
	}
	from, err := j.write("names", list)
	if err != nil {
		return err
	}
	return j.rsync(ctx, placing, nil, stage, nil, "--copy-links", "--no-implied-dirs", "--files-from="+from, "--update", "--delay-updates")
}
