package store

import (
	"context"
	"io/fs"
)

// MigrateFrom is Migrate with other files.
func (db *DB) MigrateFrom(ctx context.Context, fsys fs.FS) (int, error) {
	known, err := loadMigrations(fsys)
	if err != nil {
		return 0, err
	}
	return db.migrate(ctx, known)
}

var SplitStatements = splitStatements
