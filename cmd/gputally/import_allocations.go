package main

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest/imports"
)

func (s *session) importAllocationsCommand() *cobra.Command {
	f := &recordFlags{}
	var columns, delimiter string
	cmd := &cobra.Command{
		Use:   "allocations FILE",
		Short: "Import allocation records: who had how many GPUs, from when to when",
		Long: "Reads CSV with a header, or JSON lines, packed with gzip or not. --columns says which column has what:\n" +
			"tenant, project, user, account, job, node, device (a UUID, or several with commas), model, start, end or\n" +
			"duration, and gpus (thousandths at the finest); a column that is not mapped is the one of its own name.\n\n" +
			"Times are RFC 3339, epoch seconds, or local times of --time-zone; a local time that came twice is its first\n" +
			"coming, one that the clocks skipped is a bad row. Milliseconds count, what is finer is cut off.\n\n" +
			"GPUs that no device names belong to a pool: of their node, else one for the cluster, and one per model where\n" +
			"records tell models. A record is told by its job and start, else by its facts and start. The same file again\n" +
			"changes nothing, and a corrected one corrects; give the same --pool, --capacity and --model with it. With a\n" +
			"window, a record that starts in it and is missing is deleted, unless the file has bad rows: then nobody knows\n" +
			"what is missing. Records beyond a pool's capacity are refused, by start, then job. Held time is unproven:\n" +
			"records are no evidence of work. Bad rows are listed with line and reason and the good ones go in; then the\n" +
			"exit code is 1. A file has at most a million records and 100,000 bad rows, a record 1 MiB; split a longer one.\n\n" +
			"In a cluster that collectors measure, records fill only the time that no collector told anything of, as\n" +
			"unproven, and must name node and device: a GPU's UUID, or that of a MIG instance. A collector's batch that comes\n" +
			"late replaces what was filled. What was seen is skipped and listed; a second holder of a GPU is refused.",
		Example: examples(
			"gputally import allocations jobs.csv --data DIR --cluster earth --columns tenant=vc,start=start,end=end,gpus=running_gpus --time-zone Asia/Shanghai", "a trace with a column for everything",
			"gputally import allocations march.jsonl.gz --data DIR --cluster lab --capacity 512 --model 'NVIDIA A100-SXM4-80GB' --window-start 2026-03-01T00:00:00Z --window-end 2026-04-01T00:00:00Z", "a month of a pool of 512 GPUs",
			"gputally import allocations night.csv --data DIR --cluster live --columns job=id,node=host,device=gpu_uuid --dry-run", "what the records of a night without collectors would fill",
		),
		Args: argumentsOfUse,
	}
	f.add(cmd, "allocations")
	cmd.Flags().StringVar(&columns, "columns", "", "which of the file's columns has what, as `NAME=COLUMN,…`")
	cmd.Flags().StringVar(&delimiter, "delimiter", ",", "`CHARACTER` between a CSV's fields: one of its own, tab, or auto")
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		o, how, err := f.resolve(s.clock.Now())
		if err != nil {
			return usageError{err}
		}
		if how.Columns, err = imports.ParseColumns(columns); err != nil {
			return usageError{fmt.Errorf("--columns: %w", err)}
		}
		if how.Delimiter, err = parseDelimiter(delimiter); err != nil {
			return usageError{err}
		}
		return s.importRecords(ctx, args[0], f, o, how, imports.ReadAllocations)
	})
	return cmd
}

func parseDelimiter(text string) (rune, error) {
	switch text {
	case "auto":
		return 0, nil
	case "tab", `\t`:
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || r == utf8.RuneError || r == '"' || r == '\n' || r == '\r' {
		return 0, fmt.Errorf("--delimiter %q: want one character, tab, or auto", text)
	}
	return r, nil
}
