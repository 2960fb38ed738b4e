package commands

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

func importAllocationsCommand() cli.Command {
	f := &load.RecordFlags{}
	var columns, delimiter string
	return cli.Command{
		Use:   "allocations FILE",
		Short: "Import allocation records: who had how many GPUs, from when to when",
		Long: `Reads CSV with a header, or JSON lines, packed with gzip or not. --columns says which column has what:
tenant, project, user, account, job, node, device (a UUID, or several with commas), model, start, end or
duration, and gpus (at most three decimals); a field that is not mapped is read from the column of its name.

Times are RFC 3339, epoch seconds, or local times of --time-zone; of an ambiguous local time the first is used, one
that the clocks skipped is a bad row. Times are truncated to milliseconds.

GPUs without a device belong to a pool: of their node, else of the cluster, and one per model if records have
models. A record is identified by its job and start, else by its facts and start. Importing the same file again
changes nothing, and a corrected file replaces its records; give the same --pool, --capacity and --model with it.
With a window, a record that starts in it and is missing in the file is deleted, unless the file has bad rows,
which may be the missing ones. Records beyond a pool's capacity are refused, by start, then job. Held time is
unproven: records are no evidence of work. Bad rows are listed with line and reason, the others are imported, and
the exit code is then 1. A file has at most a million records and 100,000 bad rows, a record 1 MiB; split a longer
one.

In a cluster that collectors measure, records fill only the time that no collector reported, as unproven, and must
have node and device: a GPU's UUID, or that of a MIG instance. A collector's late batch replaces filled time. Time
that a collector reported is skipped and listed; a second holder of a GPU is refused.`,
		Examples: []string{
			"gputally import allocations jobs.csv --data DIR --cluster earth" +
				" --columns tenant=vc,start=start,end=end,gpus=running_gpus --time-zone Asia/Shanghai",
			"a trace with a column for everything",
			"gputally import allocations march.jsonl.gz --data DIR --cluster lab --capacity 512" +
				" --model 'NVIDIA A100-SXM4-80GB' --window-start 2026-03-01T00:00:00Z --window-end 2026-04-01T00:00:00Z",
			"a month of a pool of 512 GPUs",
			"gputally import allocations night.csv --data DIR --cluster live" +
				" --columns job=id,node=host,device=gpu_uuid --dry-run",
			"what the records of a night without collectors would fill",
		},
		Takes: cli.NewData,
		Flags: func(flags *pflag.FlagSet) {
			f.Define(flags, "allocations")
			flags.StringVar(&columns, "columns", "", "which of the file's columns has what, as `NAME=COLUMN,…`")
			flags.StringVar(&delimiter, "delimiter", ",", "`CHARACTER` between a CSV's fields: one of its own, tab, or auto")
		},
		Needs:   []string{"cluster"},
		Resumes: true,
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return load.ImportAllocations(ctx, s, args[0], f, columns, delimiter)
		},
	}
}

func importCommand() cli.Command {
	return cli.Command{
		Use:   "import",
		Short: "Import recorded history",
		Examples: []string{
			"gputally import batches FILE.jsonl --data DIR", "what collectors recorded",
			"gputally import sacct FILE --data DIR --cluster hpc", "what Slurm accounted",
			"gputally import allocations FILE.csv --data DIR --cluster lab", "who had how many GPUs, from any system",
			"gputally import prometheus --url http://prometheus:9090 --from 2026-03-01 --to 2026-04-01 --slot 15s --data DIR",
			"what a Prometheus kept of dcgm-exporters",
		},
		Commands: []cli.Command{
			importBatchesCommand(), importAllocationsCommand(), importSacctCommand(),
			importPrometheusCommand(), runsCommand(),
		},
	}
}

func importBatchesCommand() cli.Command {
	var future bool
	return cli.Command{
		Use:   "batches FILE.jsonl",
		Short: "Import batches as JSON lines, one per node and slot",
		Long: `Reads what collectors would have sent, one JSON object per line, in any order, with copies. They take the
same path as live data: spool, topic, ingest, ledger; importing twice changes nothing. If there are bad lines,
they are listed with line and reason, the good ones are imported, and the exit code is 1.`,
		Examples: []string{
			"gputally import batches FILE.jsonl --data DIR", "into a running or a stopped standalone, or a new directory",
		},
		Takes:   cli.NewData,
		Resumes: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&future, "allow-future", false, "take slots that begin after now")
		},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return load.ImportBatches(ctx, s, args[0], future)
		},
	}
}

func importPrometheusCommand() cli.Command {
	f := &load.HistoryFlags{}
	return cli.Command{
		Use:   "prometheus",
		Short: "Import what a Prometheus has kept of dcgm-exporters",
		Long: `Reads the DCGM_FI_* samples of a Prometheus, Thanos, Mimir or VictoriaMetrics between two times, as they were
scraped, and meters them as if gputally had scraped the exporters itself: the same rules (section exporter of
the configuration), spool, topic and ledger. Owners are the series' labels. Time in which a node has no
sample is unobserved. A slot shorter than the scrape interval is refused, unless the cluster has it already.

Importing again changes nothing, unless Prometheus has other samples by then, which replace the earlier ones. If the
command was stopped, give it again. Into a cluster that has batches from elsewhere, such as a running collector, only
the time before the first of them is imported.`,
		Examples: []string{
			"gputally import prometheus --url http://prometheus:9090 --from 2026-03-01T00:00:00Z" +
				" --to 2026-04-01T00:00:00Z --slot 15s --data DIR",
			"a month, scraped every 15 s",
			`gputally import prometheus --url https://thanos/ --match '{cluster="a"}' --bearer-token-file TOKEN` +
				" --cluster a --from 2026-03-01 --to 2026-03-08 --data DIR",
			"one cluster of several",
		},
		Takes:   cli.NewData,
		Resumes: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&f.URL, "url", "", "the Prometheus' `URL`, such as http://prometheus:9090")
			flags.Var(&f.From, "from", "first `TIME`, RFC 3339, the start of a slot")
			flags.Var(&f.To, "to", "`TIME` after the last, RFC 3339, the end of a slot that is over")
			flags.DurationVar(&f.Slot, "slot", 0,
				"slot `LENGTH` of a new cluster: the scrape interval or more (default: the configured one)")
			flags.StringVar(&f.Cluster, "cluster", "", "`NAME` of the cluster (default: the configured one)")
			flags.StringVar(&f.Match, "match", "", "only series that match the `SELECTOR` too, such as {cluster=\"a\"}")
			flags.StringVar(&f.TokenFile, "bearer-token-file", "", "`FILE` with the bearer token")
			flags.StringVar(&f.CAFile, "ca-file", "", "PEM `FILE` with the authorities to trust instead of the system's")
		},
		Needs: []string{"url", "from", "to"},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return load.ImportPrometheus(ctx, s, f)
		},
	}
}

func importSacctCommand() cli.Command {
	f := &load.RecordFlags{}
	var slurmCluster string
	var byNode bool
	return cli.Command{
		Use:   "sacct FILE",
		Short: "Import Slurm's accounting: the output of sacct -a -X -P",
		Long: "Reads what `sacct -a -X -P --format=JobID,User,Account,Start,End,ElapsedRaw,AllocTRES,NodeList` prints,\n" +
			"packed with gzip or not, with its columns in any order. Columns of text that users choose, such as JobName and\n" +
			"Comment, are refused: sacct escapes nothing, so a job's name could make a row of another job. A job's GPUs are\n" +
			"those of AllocTRES, typed and untyped ones counted once; a type is the model of its pool. A job that is listed\n" +
			"twice with one start is its last row; one that was requeued has several starts, and each counts. A job that\n" +
			"still runs ends with the window, without one where sacct saw it last. Local times are those of --time-zone.\n\n" +
			"sacct doesn't say how many of its GPUs a job had on which node. So all are of one pool, unless --by-node is\n" +
			"given: then a job's GPUs are spread evenly over its nodes' pools where their number divides; other jobs stay\n" +
			"in the cluster's. --capacity is of each pool. All else is as in `import allocations`.",
		Examples: []string{
			"gputally import sacct march.txt --data DIR --cluster hpc --capacity a100=256" +
				" --time-zone Europe/Berlin --window-start 2026-03-01T00:00:00Z --window-end 2026-04-01T00:00:00Z",
			"a month, the whole truth of it",
		},
		Takes: cli.NewData,
		Flags: func(flags *pflag.FlagSet) {
			f.Define(flags, "sacct")
			flags.StringVar(&slurmCluster, "slurm-cluster", "",
				"only jobs of the `CLUSTER` of Slurm, where the file lists several")
			flags.BoolVar(&byNode, "by-node", false, "spread jobs over pools of their nodes")
		},
		Needs:   []string{"cluster"},
		Resumes: true,
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return load.ImportSacct(ctx, s, args[0], f, slurmCluster, byNode)
		},
	}
}

func runsCommand() cli.Command {
	return cli.Command{
		Use:   "runs",
		Short: "Who may send batches that no live collector measured, until when",
		Long: `An imported, replayed or simulated batch, or a fill, is accepted only under an open run of its cluster,
collector and slots; otherwise it becomes a dead letter (reason origin). Imports and demo open and end their own;
the run of one that was killed stays open until the same command is given again, or ends by itself.`,
		Examples: []string{"gputally import runs list --data DIR", "all runs, with who opened them"},
		Commands: []cli.Command{runsListCommand(), runsOpenCommand(), runsCloseCommand()},
	}
}

func runsListCommand() cli.Command {
	var all bool
	return cli.Command{
		Use:   "list",
		Short: "The runs that are open",
		Examples: []string{
			"gputally import runs list --data DIR", "those that are open now",
			"gputally import runs list --data DIR --all --output csv", "all that ever were",
		},
		Takes: cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&all, "all", false, "those that have ended, too")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return load.ListRuns(ctx, s, all) },
	}
}

func runsOpenCommand() cli.Command {
	var r decisions.Run
	var slot time.Duration
	var from, to cli.Instant
	return cli.Command{
		Use:   "open",
		Short: "Open a run, such as to send dead letters of reason origin again",
		Examples: []string{
			"gputally import runs open --data DIR --cluster lab --sends import --collector import/lab/allocations" +
				" --slot 1h --from 2026-03-01 --to 2026-04-01",
			"for dlq replay --reason origin",
		},
		Takes: cli.Data | cli.By,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&r.Cluster, "cluster", "", "`NAME` of the cluster")
			flags.StringVar(&r.Sends, "sends", "", "`KIND` of batches: import, replay, simulated or fill")
			flags.StringVar(&r.Collector, "collector", "", "`ID` that the batches carry; '"+decisions.AnyCollector+"' takes any")
			flags.DurationVar(&slot, "slot", 0, "`LENGTH` of the cluster's slots, such as 10s")
			flags.Var(&from, "from", "first `TIME` of the slots, RFC 3339")
			flags.Var(&to, "to", "`TIME` after the last")
			flags.IntVar(&r.Hours, "hours", app.ImportRunHours, "`HOURS` after which it ends by itself")
		},
		Needs: []string{"cluster", "sends", "collector", "slot", "from", "to"},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return load.OpenRun(ctx, s, r, slot, from, to)
		},
	}
}

func runsCloseCommand() cli.Command {
	return cli.Command{
		Use:      "close ID",
		Short:    "End a run: what is appended from now on is not taken under it",
		Examples: []string{"gputally import runs close JXQ4V2KZ7TBNM --data DIR", "one that a killed import left open"},
		Takes:    cli.Data | cli.By,
		Run:      func(ctx context.Context, s *cli.Session, args []string) error { return load.CloseRun(ctx, s, args[0]) },
	}
}
