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
	return db.migrate(ctx, known, nil)
}

var SplitStatements = splitStatements

// RenderFrom gives the statements of other files for a cluster.
func RenderFrom(fsys fs.FS, name, database string) (all []string, err error) {
	known, err := loadMigrations(fsys)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(name, database)
	if err != nil {
		return nil, err
	}
	rendered, err := c.renderAll(known)
	for _, m := range rendered {
		all = append(all, m.statements...)
	}
	return all, err
}

// EveryServer gives the cluster and the local table of a Distributed engine.
func EveryServer(engine string) (string, error) {
	u, err := parseDistributed(engine)
	return u.cluster + "." + u.local, err
}
