// Package shell quotes texts for the commands that messages suggest. Names that come over the wire may be in them, so
// that a command must be safe to paste into a shell.
package shell

import "strings"

// Quote returns one word of a POSIX shell's command line (POSIX.1-2017, XCU 2.2.2): nothing in it is expanded.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
