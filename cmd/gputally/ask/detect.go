package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gputally/gputally/analyzer/stream"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/files"
)

// Detect looks for anomalies in series of timestamps and values, each a CSV file. It
// writes a file of the same name into the folder output for each, an older one is
// replaced; without output, the only one is written to stdout.
func Detect(ctx context.Context, s *cli.Session, inputs []string, output string) error {
	if output == "" {
		if len(inputs) > 1 {
			return cli.UsageError(errors.New("--output FOLDER is missing: several files don't fit on stdout"))
		}
		return detect(ctx, s.Stdout, inputs[0])
	}
	targets := map[string]string{}
	for _, input := range inputs {
		target := filepath.Join(output, filepath.Base(input))
		if first, twice := targets[target]; twice {
			return cli.UsageError(fmt.Errorf("--input %s and %s have the same name: both would be written to %s",
				first, input, target))
		}
		if err := apart(input, target); err != nil {
			return err
		}
		targets[target] = input
	}
	if err := os.MkdirAll(output, 0o700); err != nil {
		return fmt.Errorf("create folder of --output: %w", err)
	}
	for _, input := range inputs {
		target := filepath.Join(output, filepath.Base(input))
		err := files.Replace(target, func(w io.Writer) error { return detect(ctx, w, input) })
		if err != nil {
			return err
		}
		if err := s.Writef("%s\n", target); err != nil {
			return err
		}
	}
	return nil
}

// apart refuses a target that is the input itself, which would be replaced.
func apart(input, target string) error {
	in, err := os.Stat(input)
	if err != nil {
		return fmt.Errorf("read --input: %w", err)
	}
	if out, err := os.Stat(target); err == nil && os.SameFile(in, out) {
		return cli.UsageError(fmt.Errorf("--output has --input %s itself, which would be replaced: name another folder", input))
	}
	return nil
}

func detect(ctx context.Context, w io.Writer, path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read --input: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := stream.Detect(ctx, w, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
