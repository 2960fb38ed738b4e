package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func detectCommand() cli.Command {
	var inputs []string
	var output string
	return cli.Command{
		Use:   "detect",
		Short: "Find anomalies in any series of timestamps and values",
		Long: `
Reads CSV with the columns timestamp (RFC 3339, or YYYY-MM-DD HH:MM:SS in UTC) and value, at regular or irregular
intervals, and writes timestamp,value,anomaly_score,label. Each point is judged by the points before it. The score is
from 0 to 1; label is 1 at an alarm, which is a score of at least 0.5. The first 256 points score 0. There is nothing
to set. A row that is wrong ends it: the error names file, row, field and value, and no file is written.`,
		Examples: []string{
			"gputally detect --input load.csv > scored.csv", "one series",
			"gputally detect --input load.csv --input power.csv --output scored", "into scored/load.csv and scored/power.csv",
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.StringArrayVar(&inputs, "input", nil, "CSV `FILE` to read; repeat it for more")
			flags.StringVar(&output, "output", "",
				"write a file of the same name to this `FOLDER` for each input (default: the only one to stdout)")
		},
		Needs: []string{"input"},
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Detect(ctx, s, inputs, output) },
	}
}
