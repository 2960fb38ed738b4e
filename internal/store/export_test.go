package store

import (
	"context"
	"io/fs"
)

// MigrateFrom is Migrate with other files.
func (db *DB) MigrateFrom(ctx context.Context, fsys fs.FS) (int, error) {
	known, err := loadMigrations(fsys, onOneServerDir)
	if err != nil {
		return 0, err
	}
	return db.migrate(ctx, known, nil)
}

var SplitStatements = splitStatements

// EveryServer gives the cluster and the local table of a Distributed engine.
func EveryServer(engine string) (string, error) {
	u, err := parseDistributed(engine)
	return u.cluster + "." + u.local, err
}
