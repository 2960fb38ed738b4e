package shell_test

import (
	"os/exec"
	"testing"

	"github.com/gputally/gputally/internal/shell"
)

func TestTheShellReadsAQuotedTextAsItIs(t *testing.T) {
	for _, text := range []string{"", "prod", "a b", "$(reboot)", "`reboot`", "it's", `"; reboot; "`, `\`, "$HOME", "a\nb", "'"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shell.Quote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is read as %q, %v", text, out, err)
		}
	}
}
