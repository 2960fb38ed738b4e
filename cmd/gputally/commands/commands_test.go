package commands

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoCommandRefersToAnother holds that only the table in commands.go knows commands:
// each of the other files can be read, changed and removed by itself.
func TestNoCommandRefersToAnother(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d files, %v", len(paths), err)
	}
	files, declaredIn := map[string]*ast.File{}, map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || path == "commands.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = file
		for name := range file.Scope.Objects { //nolint:staticcheck // names of one package's files are all that is asked
			declaredIn[name] = path
		}
	}
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if ok && declaredIn[name.Name] != "" && declaredIn[name.Name] != path {
				t.Errorf("%s refers to %s, which %s declares", path, name.Name, declaredIn[name.Name])
			}
			return true
		})
	}
}
