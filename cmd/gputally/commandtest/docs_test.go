package commandtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/commands"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	codeSpan     = regexp.MustCompile("`([^`]+)`")
)

// TestLinksOfTheDocsLeadSomewhere follows each relative link of each page.
func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		pages++
		for _, link := range markdownLink.FindAllStringSubmatch(string(placetest.ReadFile(t, path)), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, link[1], err)
			}
		}
		return nil
	}); err != nil || pages < 30 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

// TestContributingNamesFilesThatExist looks for each file of the table in the folders
// that its cell names.
func TestContributingNamesFilesThatExist(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(placetest.ReadFile(t, filepath.Join(root, "CONTRIBUTING.md")))) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		folders := []string{root}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			found := false
			for _, folder := range folders {
				matches, err := filepath.Glob(filepath.Join(folder, span[1]))
				found = found || err == nil && len(matches) > 0
			}
			if info, err := os.Stat(filepath.Join(root, span[1])); err == nil && info.IsDir() {
				folders = append(folders, filepath.Join(root, span[1]))
			} else if strings.Contains(span[1], "/") {
				folders = append(folders, filepath.Join(root, filepath.Dir(span[1])))
			}
			isName := strings.HasSuffix(span[1], ".go") || strings.Contains(span[1], "/")
			if isName && !found && !strings.HasPrefix(span[1], "metrics.go") && !strings.HasPrefix(span[1], "config.go") {
				t.Errorf("%s: there is no %s", strings.TrimSpace(cells[1]), span[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("found %d rows of the table", rows)
	}
}

// TestEveryCommandIsOnItsReferencePage looks for each command's own name.
func TestEveryCommandIsOnItsReferencePage(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	page := string(placetest.ReadFile(t, filepath.Join(root, "docs", "reference", "commands.md")))
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "gputally ")
		if !cmd.Hidden && cmd.Runnable() && !strings.Contains(page, name) {
			t.Errorf("docs/reference/commands.md lacks %s", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(commands.Root(&cli.Session{}))
}
