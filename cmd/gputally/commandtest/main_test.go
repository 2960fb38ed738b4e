package commandtest

import (
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }
