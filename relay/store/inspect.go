package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// inspect tells which version of the schema the file has, 0 if it is new, and
// refuses one that is damaged or not ours. It does not change it: what is damaged
// may still be rescued, and a log beside it may be the better half.
func inspect(path string) (version int, err error) {
	empty, err := isEmpty(path)
	if empty || err != nil {
		return 0, err
	}
	flags := sqlite.OpenReadOnly
	if _, err := os.Stat(path + "-journal"); err == nil {
		flags = sqlite.OpenReadWrite // only a kill at the very first start leaves one, and it must be undone
	}
	c, err := openConn(path, flags)
	if err != nil {
		return 0, err
	}
	version, err = identify(c)
	if err == nil {
		err = sound(c, path)
	}
	return version, errors.Join(err, c.Close())
}

// isEmpty refuses an empty file with a log: SQLite would throw the log away.
func isEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > 0 {
		return false, err
	}
	wal, err := os.Stat(path + "-wal")
	if err == nil && wal.Size() > 0 {
		return false, damaged(path, errors.New("the file is empty though its log is not"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// identify reads whose database it is, and which version.
func identify(c *sqlite.Conn) (int, error) {
	tables, err := number(c, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	id, err := number(c, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := number(c, "PRAGMA user_version")
	switch {
	case err != nil:
		return 0, err
	case id == 0 && version == 0 && tables == 0:
		return 0, nil // made and not yet filled
	case id != applicationID || version < 1:
		return 0, fmt.Errorf("%w: name another file", ErrForeign)
	case version > int64(len(migrations)):
		return 0, fmt.Errorf("%w: it has version %d of the schema, this one knows %d: install the newer one again, or start with a backup from before",
			ErrNewer, version, len(migrations))
	}
	return int(version), nil
}

// sound looks at each page, each reference and, where c may write, each CHECK.
func sound(c *sqlite.Conn, path string) error {
	var found []error
	err := each(c, "PRAGMA quick_check(10)", func(row *sqlite.Stmt) error {
		if s := row.ColumnText(0); s != "ok" {
			found = append(found, errors.New(s))
		}
		return nil
	})
	if err == nil {
		err = each(c, "PRAGMA foreign_key_check", func(row *sqlite.Stmt) error {
			found = append(found, fmt.Errorf("a row of %s belongs to none of %s", row.ColumnText(0), row.ColumnText(2)))
			return nil
		})
	}
	if err == nil && len(found) > 0 {
		err = damaged(path, errors.Join(found...))
	}
	return err
}

// migrate brings the schema from version to the present one, whole or not at all.
func migrate(c *sqlite.Conn, path string, version int, log *slog.Logger) error {
	if version > 0 && version < len(migrations) {
		kept := fmt.Sprintf("%s.v%d", path, version)
		if err := copyTo(c, kept); err != nil {
			return fmt.Errorf("keeping a copy of the older version: %w", err)
		}
		log.Info("bringing the database up to date", "file", path, "from", version, "to", len(migrations), "copy", kept)
	}
	if version < len(migrations) {
		if err := upgrade(c, version, len(migrations)); err != nil {
			return fmt.Errorf("bringing the schema from version %d to %d: %w", version, len(migrations), err)
		}
	}
	return pragmas(c, "foreign_keys = on") // not before: a table may be replaced above
}

func upgrade(c *sqlite.Conn, from, to int) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	for _, script := range migrations[from:to] {
		if err := sqlitex.ExecuteScript(c, script, nil); err != nil {
			return err
		}
	}
	if err := each(c, "PRAGMA foreign_key_check", func(row *sqlite.Stmt) error {
		return fmt.Errorf("a row of %s would belong to none of %s", row.ColumnText(0), row.ColumnText(2))
	}); err != nil {
		return err
	}
	return pragmas(c, fmt.Sprintf("user_version = %d", to), fmt.Sprintf("application_id = %d", applicationID))
}
