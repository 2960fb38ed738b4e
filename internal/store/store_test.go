package store_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/store/storetest"
)

func TestSmoke(t *testing.T) {
	db := storetest.Open(t)
	var n uint64
	if err := db.QueryRow(t.Context(), "SELECT count() FROM usage").Scan(&n); err != nil {
		t.Fatal(err)
	}
	var v string
	if err := db.QueryRow(t.Context(), "SELECT version() || {x:String}", store.Named("x", "a'b\tc")).Scan(&v); err != nil {
		t.Fatal(err)
	}
	t.Log(v)
}
