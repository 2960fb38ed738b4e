package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Site is a place in a file that can be changed, with the change.
type Site struct {
	File       string // from the module's root
	Line       int
	from, to   int // bytes of the file
	Was, Is    string
	Kind       string // what is changed: comparison, bound, arithmetic, logic, condition, statement or error
	PackageDir string
}

func (s Site) String() string {
	is := s.Is
	if is == "" {
		is = "(dropped)"
	}
	return fmt.Sprintf("%s:%d: %s: %s → %s", s.File, s.Line, s.Kind, oneLine(s.Was), oneLine(is))
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 120)]
}

// swaps has the replacement of each operator.
var swaps = map[token.Token]struct {
	is   token.Token
	kind string
}{
	token.LSS: {token.LEQ, "comparison"}, token.LEQ: {token.LSS, "comparison"}, token.GTR: {token.GEQ, "comparison"},
	token.GEQ: {token.GTR, "comparison"}, token.EQL: {token.NEQ, "comparison"}, token.NEQ: {token.EQL, "comparison"},
	token.ADD: {token.SUB, "arithmetic"}, token.SUB: {token.ADD, "arithmetic"}, token.MUL: {token.QUO, "arithmetic"},
	token.QUO: {token.MUL, "arithmetic"}, token.REM: {token.QUO, "arithmetic"},
	token.LAND: {token.LOR, "logic"}, token.LOR: {token.LAND, "logic"},
}

// finder collects the sites of one file.
type finder struct {
	set   *token.FileSet
	text  []byte
	file  string
	dir   string
	sites []Site
}

// Find returns the sites in a package's files, without tests and generated code.
func Find(root, dir string) ([]Site, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var sites []Site
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		f := &finder{set: set, text: text, file: filepath.Join(dir, filepath.Base(path)), dir: dir}
		ast.Inspect(parsed, f.visit)
		sites = append(sites, f.sites...)
	}
	return sites, nil
}

func (f *finder) add(from, to token.Pos, is, kind string) {
	a, b := f.set.Position(from), f.set.Position(to)
	f.sites = append(f.sites, Site{
		File: f.file, Line: a.Line, from: a.Offset, to: b.Offset, Was: string(f.text[a.Offset:b.Offset]), Is: is, Kind: kind,
		PackageDir: f.dir,
	})
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl: // constants and types have tests of what they do
		return n.Tok == token.VAR
	case *ast.CallExpr:
		if called(n.Fun) == "make" && len(n.Args) == 3 {
			ast.Inspect(n.Args[1], f.visit)
			return false
		}
		return !unobserved(n)
	case *ast.BinaryExpr:
		if s, ok := swaps[n.Op]; ok {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), s.is.String(), s.kind)
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 10, 64); n.Kind == token.INT && err == nil {
			f.add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10), "bound")
		}
	case *ast.IfStmt:
		if onlyLogs(n) {
			if n.Init != nil {
				ast.Inspect(n.Init, f.visit)
			}
			return false
		}
		f.add(n.Cond.Pos(), n.Cond.End(),
			"!("+string(f.text[f.set.Position(n.Cond.Pos()).Offset:f.set.Position(n.Cond.End()).Offset])+")", "condition")
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.ReturnStmt:
		return f.returned(n)
	}
	return true
}

// returned changes what a function returns: nil instead of an error. It doesn't change
// values beside an error or false, because a caller must not use them.
func (f *finder) returned(n *ast.ReturnStmt) (within bool) {
	if len(n.Results) == 0 {
		return false
	}
	last := n.Results[len(n.Results)-1]
	if name, ok := last.(*ast.Ident); ok && name.Name == "err" {
		f.add(name.Pos(), name.End(), "nil", "error")
	}
	switch name := called(last); {
	case name == "false", strings.HasPrefix(strings.ToLower(name), "err"):
		return false
	default:
		return true
	}
}

// onlyLogs reports whether an if statement only writes log lines.
func onlyLogs(n *ast.IfStmt) bool {
	for _, s := range n.Body.List {
		line, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		if call, ok := line.X.(*ast.CallExpr); !ok || !logs(call) {
			return false
		}
	}
	return n.Else == nil
}

// statements adds sites that remove one statement: a call, assignment, increment or jump.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || !unobserved(call) {
				f.add(s.Pos(), s.End(), "", "statement")
			}
		case *ast.IncDecStmt, *ast.BranchStmt:
			f.add(s.Pos(), s.End(), "", "statement")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add(s.Pos(), s.End(), "", "statement")
			}
		}
	}
}

// logs reports whether a call writes a log line.
func logs(call *ast.CallExpr) bool {
	switch called(call.Fun) {
	case "Debug", "Info", "Warn", "Error":
		method, ok := call.Fun.(*ast.SelectorExpr)
		return ok && strings.EqualFold(called(method.X), "log")
	}
	return false
}

// unobserved reports whether a call isn't changed, because no test should depend on it:
// log lines, histogram buckets, preallocation.
func unobserved(call *ast.CallExpr) bool {
	switch called(call.Fun) {
	case "ExponentialBuckets", "ExponentialBucketsRange", "LinearBuckets", "Grow":
		return true
	case "make":
		_, isMap := call.Args[0].(*ast.MapType)
		return isMap
	}
	return logs(call)
}

// called returns the last name of an expression: Warn for deps.Log.Warn.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return called(e.Fun)
	}
	return ""
}
