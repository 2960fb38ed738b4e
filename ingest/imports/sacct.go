package imports

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/hostlist"
)

// ReadSacct reads the output of `sacct -a -X -P`: a header, then one job per line,
// fields separated by "|", in any order of columns. JobID or JobIDRaw, Start, End and
// AllocTRES are required; User, Account, ElapsedRaw, NodeList and Cluster are used if
// present (source: sacct(1), "Job Accounting Fields"). A header with columns of free
// text is refused. Errors and bad lines are as in ReadAllocations.
func ReadSacct(in io.Reader, how Reading) (*File, error) {
	text, err := plain(in)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 64<<10), bounded.MaxRecord)
	s := &sacctReader{how: &how, file: &File{}, index: map[string]int{}}
	line := 0
	for lines.Scan() {
		line++
		fields := strings.Split(strings.TrimSuffix(lines.Text(), "\r"), "|")
		switch {
		case strings.TrimSpace(lines.Text()) == "":
		case len(s.index) == 0 || slices.Equal(fields, s.header): // concatenated files repeat the header
			if err := s.readHeader(fields); err != nil {
				return nil, err
			}
		default:
			s.file.Rows++
			s.add(line, fields)
		}
		if err := s.file.full(); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read line %d: %w", line+1, err)
	}
	if len(s.index) == 0 {
		return nil, errors.New("the file is empty")
	}
	if len(s.clusters) > 1 && how.SlurmCluster == "" {
		return nil, fmt.Errorf("the file has jobs of the clusters %s, whose job ids may collide: choose one with "+
			"--slurm-cluster", strings.Join(s.clusters, ", "))
	}
	s.file.distinct(true)
	return s.file, nil
}

// sacctFormat is the command that prints the required columns, for errors.
const sacctFormat = "--format=JobID,User,Account,Start,End,ElapsedRaw,AllocTRES,NodeList"

// freeText are columns with text that a user can choose (sacct(1), "Job Accounting
// Fields"). sacct -P escapes nothing: a bar or a line feed in a job's name would forge
// other columns, or rows of other jobs.
var freeText = map[string]bool{
	"jobname": true, "comment": true, "admincomment": true, "systemcomment": true, "extra": true, "submitline": true,
	"workdir": true, "container": true, "constraints": true, "licenses": true, "wckey": true, "reason": true,
	"reservation": true, "stdin": true, "stdout": true, "stderr": true, "reqnodes": true, "mcslabel": true,
}

// maxListed bounds the clusters named in an error, and the types of GPUs of a job.
const maxListed = 64

type sacctReader struct {
	how      *Reading
	file     *File
	header   []string
	index    map[string]int // by lower-case name
	clusters []string
}

func (s *sacctReader) readHeader(fields []string) error {
	s.header = slices.Clone(fields)
	for i, name := range fields {
		name = strings.ToLower(strings.TrimSpace(name))
		name, _, _ = strings.Cut(name, "%") // a width, as in JobID%20
		if freeText[name] {
			return fmt.Errorf(
				"read header: column %s holds text that users choose, and sacct doesn't escape it, so rows can't be told apart: "+
					"print %s with -a -X -P",
				strings.TrimSpace(fields[i]), sacctFormat)
		}
		if name != "" {
			s.index[name] = i
		}
	}
	for _, one := range [][]string{{"jobid", "jobidraw"}, {"start"}, {"end", "elapsedraw"}, {"alloctres"}} {
		if !slices.ContainsFunc(one, func(name string) bool { _, ok := s.index[name]; return ok }) {
			return fmt.Errorf("read header: column %s is missing; print %s with -a -X -P",
				strings.Join(one, " or "), sacctFormat)
		}
	}
	return nil
}

func (s *sacctReader) add(line int, fields []string) {
	if len(fields) != len(s.header) {
		s.file.bad(line, fmt.Errorf("%d fields, but the header has %d", len(fields), len(s.header)))
		return
	}
	get := func(name string) string {
		i, ok := s.index[name]
		if !ok {
			return ""
		}
		return s.file.clean(fields[i])
	}
	if err := s.job(line, get); err != nil {
		s.file.bad(line, err)
	}
}

func (s *sacctReader) job(line int, get func(string) string) error {
	cluster := get("cluster")
	if want := s.how.SlurmCluster; want != "" && cluster != want {
		s.file.Counts.Outside++
		return nil
	}
	if cluster != "" && len(s.clusters) < maxListed && !slices.Contains(s.clusters, cluster) {
		s.clusters = append(s.clusters, strings.Clone(cluster))
	}
	rec := Record{Line: line, Job: cmp.Or(get("jobid"), get("jobidraw")), User: get("user"), Account: get("account")}
	switch {
	case rec.Job == "":
		return errors.New("JobID: must not be empty")
	case strings.Contains(rec.Job, "."):
		s.file.Counts.Steps++
		return nil
	}
	ran, err := s.span(&rec, get)
	if err != nil || !ran {
		return err
	}
	held, err := gpusOf(get("alloctres"))
	if err != nil {
		return err
	}
	if len(held) == 0 {
		s.file.Counts.NoGPUs++
	}
	for _, h := range held {
		one := rec
		one.Model, one.MilliGPUs = h.model, h.gpus*1000
		if err := s.spread(one, h.gpus, get("nodelist")); err != nil {
			return err
		}
	}
	return nil
}

// span counts all records; a job that still runs ends with the window, or else with
// the time that sacct printed.
func (s *sacctReader) span(rec *Record, get func(string) string) (bool, error) {
	end, elapsed := get("end"), get("elapsedraw")
	if s.how.windowed() || !absentWords[strings.ToLower(end)] {
		elapsed = "" // needed only without a known end
	}
	return s.file.span(rec, s.how, get("start"), end, elapsed)
}

// spread divides a job among its nodes, if that was requested and the number of GPUs
// is a multiple of the number of nodes. Otherwise it stays without a node, in the
// cluster's pool: sacct doesn't print how many GPUs a job had on each node.
func (s *sacctReader) spread(rec Record, gpus uint32, list string) error {
	if !s.how.ByNode {
		s.file.keep(rec)
		return nil
	}
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("NodeList: %w", err)
	}
	if gpus%uint32(len(nodes)) != 0 {
		s.file.keep(rec)
		return nil
	}
	rec.MilliGPUs /= uint32(len(nodes))
	for _, node := range nodes {
		rec.Node = node
		if s.file.keep(rec); s.file.full() != nil {
			break
		}
	}
	return nil
}

// typedGPUs is a number of GPUs of one type of gres.
type typedGPUs struct {
	model string // empty: unknown
	gpus  uint32
}

// gpusOf reads AllocTRES, such as "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2": the
// untyped number includes the typed ones, and GPUs without a type.
func gpusOf(tres string) ([]typedGPUs, error) {
	var out []typedGPUs
	var all, typed uint32
	untyped := false
	for entry := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(entry, "=")
		kind, model, _ := strings.Cut(strings.TrimSpace(name), ":")
		if kind != "gres/gpu" {
			continue
		}
		milli, err := parseMilliGPUs(strings.TrimSpace(value))
		if err != nil || milli%1000 != 0 {
			return nil, fmt.Errorf("AllocTRES %q: %q must be a number of GPUs", tres, entry)
		}
		n := milli / 1000
		switch {
		case len(out) == maxListed:
			return nil, fmt.Errorf("AllocTRES %.60q: more than %d types of GPUs", tres, maxListed)
		case model == "" && untyped, slices.ContainsFunc(out, func(t typedGPUs) bool { return t.model == model }):
			return nil, fmt.Errorf("AllocTRES %q: %q occurs twice", tres, name)
		case model == "":
			all, untyped = n, true
		default:
			out, typed = append(out, typedGPUs{model, n}), typed+n
		}
	}
	if untyped && typed > all {
		return nil, fmt.Errorf("AllocTRES %q: the typed GPUs, %d, are more than all GPUs, %d", tres, typed, all)
	}
	if all > typed {
		out = append(out, typedGPUs{"", all - typed})
	}
	return slices.DeleteFunc(out, func(t typedGPUs) bool { return t.gpus == 0 }), nil
}
