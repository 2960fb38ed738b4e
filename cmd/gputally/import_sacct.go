package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest/imports"
)

func (s *session) importSacctCommand() *cobra.Command {
	f := &recordFlags{}
	var slurmCluster string
	var byNode bool
	cmd := &cobra.Command{
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
		Example: examples(
			"gputally import sacct march.txt --data DIR --cluster hpc --capacity a100=256 --time-zone Europe/Berlin --window-start 2026-03-01T00:00:00Z --window-end 2026-04-01T00:00:00Z", "a month, the whole truth of it",
		),
		Args: argumentsOfUse,
	}
	f.add(cmd, "sacct")
	cmd.Flags().StringVar(&slurmCluster, "slurm-cluster", "", "only jobs of the `CLUSTER` of Slurm, where the file lists several")
	cmd.Flags().BoolVar(&byNode, "by-node", false, "spread jobs over pools of their nodes")
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		o, how, err := f.resolve(s.clock.Now())
		if err != nil {
			return usageError{err}
		}
		how.SlurmCluster, how.ByNode = slurmCluster, byNode
		return s.importRecords(ctx, args[0], f, o, how, imports.ReadSacct)
	})
	return cmd
}
