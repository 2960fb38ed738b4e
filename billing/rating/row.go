package rating

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/fault"
)

// Row is usage of one key in one UTC hour; rows with one key are added before anything is rounded (R8). An empty
// tenant is the platform. If reports of an hour contradict each other about a profile's slices, each number is a key
// of its own: GPU-hours don't depend on it, but a profile's own price does.
type Row struct {
	// Hour is the start of the UTC hour.
	Hour    time.Time
	Tenant  string
	Project string
	Model   string
	// Profile is the MIG profile, empty for a whole GPU.
	Profile string
	// ProfileSlices are the profile's compute slices; 0: no profile.
	ProfileSlices int
	// Slices is the number of slices of the GPU.
	Slices int
	// Bucket is active, idle or unproven for a tenant; free, stranded,
	// unhealthy or unobserved for the platform.
	Bucket string
	// SliceMS is milliseconds × slices × share.
	SliceMS int64
	// EnergyMJ is in millijoules.
	EnergyMJ int64
}

// The buckets with different rules for money (docs/reference/price-book.md).
const (
	bucketActive     = "active"
	bucketIdle       = "idle"
	bucketUnproven   = "unproven"
	bucketFree       = "free"
	bucketStranded   = "stranded"
	bucketUnhealthy  = "unhealthy"
	bucketUnobserved = "unobserved"
)

// maxSliceMS keeps quantities in 64 bits: 140 million GPU-hours in one row.
const maxSliceMS = int64(3_600_000_000_000_000)

// maxEnergyMJ keeps sums within an hour in 64 bits: 27 GWh in one row.
const maxEnergyMJ = int64(100_000_000_000_000_000)

// key is the key by which rows are merged within an hour.
type key struct {
	tenant, project, model, profile, bucket string
	profileSlices                           int
}

func (r Row) key() key {
	return key{r.Tenant, r.Project, r.Model, r.Profile, r.Bucket, r.ProfileSlices}
}

// ReportedAs is the part of the GPU that a profile is according to the row, such as 1/7; empty for a whole GPU.
func (r Row) ReportedAs() string {
	if r.ProfileSlices == 0 || r.Slices == 0 {
		return ""
	}
	return big.NewRat(int64(r.ProfileSlices), int64(r.Slices)).RatString()
}

// Apart returns for each of an hour's rows, in the order of merged ones, whether another one differs from it only in
// the profile's number of slices.
func Apart(rows []Row) []bool {
	apart := make([]bool, len(rows))
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1].key(), rows[i].key()
		a.profileSlices, b.profileSlices = 0, 0
		if a == b {
			apart[i-1], apart[i] = true, true
		}
	}
	return apart
}

// owner is the tenant's name for display.
func (r Row) owner() string {
	if r.Tenant == "" {
		return "the platform"
	}
	return fmt.Sprintf("tenant %q", r.Tenant)
}

func (r Row) validate() error {
	if !r.Hour.Equal(r.Hour.Truncate(time.Hour)) {
		return fmt.Errorf("rate usage: hour %s is not the start of a UTC hour", r.Hour.Format(time.RFC3339))
	}
	held := r.Bucket == bucketActive || r.Bucket == bucketIdle || r.Bucket == bucketUnproven
	platform := r.Bucket == bucketFree || r.Bucket == bucketStranded || r.Bucket == bucketUnhealthy ||
		r.Bucket == bucketUnobserved
	switch {
	case !held && !platform:
		return r.failf("bucket %q is none of the seven", r.Bucket)
	case held && r.Tenant == "" || platform && r.Tenant != "":
		return r.failf("bucket %q cannot be one of %s", r.Bucket, r.owner())
	case r.Slices < 1:
		return r.failf("slices %d is not positive", r.Slices)
	case r.ProfileSlices < 0:
		return r.failf("profile_slices %d is negative", r.ProfileSlices)
	case r.SliceMS < 0 || r.SliceMS > maxSliceMS:
		return r.failf("slice_ms %d is not in 0…%d", r.SliceMS, maxSliceMS)
	case r.EnergyMJ < -maxEnergyMJ || r.EnergyMJ > maxEnergyMJ:
		return r.failf("energy_mj %d is beyond ±%d", r.EnergyMJ, maxEnergyMJ)
	}
	return nil
}

func (r Row) failf(format string, args ...any) error {
	return fmt.Errorf("rate usage of %s, project %q, model %q, profile %q at %s: %s",
		r.owner(), r.Project, r.Model, r.Profile, r.Hour.UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
}

// Billable returns why the rows of an hour can't be rated: a sum out of range, a profile without a size, or GPUs of
// two sizes in one key.
func Billable(rows []Row) error {
	for _, row := range rows {
		if row.Profile != "" && row.ProfileSlices == 0 {
			return row.failf("profile_slices 0 of a profile")
		}
	}
	_, err := merge(rows)
	return err
}

// Unpriced returns the models in an hour's rows for which the book has no rate, by name, once each. Before the book's
// first version nothing is priced: none.
func Unpriced(book *prices.Book, hour time.Time, rows []Row) []*MissingModelError {
	at := book.At(hour)
	if at < 0 {
		return nil
	}
	var missing []*MissingModelError
	for _, row := range rows {
		if _, known := book.Versions[at].Models[row.Model]; known {
			continue
		}
		n, found := slices.BinarySearchFunc(missing, row.Model,
			func(m *MissingModelError, model string) int { return cmp.Compare(m.Model, model) })
		if !found {
			missing = slices.Insert(missing, n, &MissingModelError{
				row.Model, hour.UTC(), book.Versions[at].Effective,
				book.Name,
			})
		}
	}
	return missing
}

// merge adds up the rows of one hour by key, in the order of their keys.
func merge(rows []Row) ([]Row, error) {
	index := make(map[key]int, len(rows))
	merged := make([]Row, 0, len(rows))
	for _, row := range rows {
		if err := row.validate(); err != nil {
			return nil, err
		}
		at, known := index[row.key()]
		if !known {
			index[row.key()] = len(merged)
			merged = append(merged, row)
			continue
		}
		sum := &merged[at]
		if sum.Slices != row.Slices {
			return nil, row.failf("bucket %s: slices %d and %d in one key", row.Bucket, sum.Slices, row.Slices)
		}
		sum.SliceMS += row.SliceMS
		sum.EnergyMJ += row.EnergyMJ
		if err := sum.validate(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(merged, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.ProfileSlices, b.ProfileSlices))
	})
	return merged, nil
}

// byteOrderMark is U+FEFF in UTF-8.
const byteOrderMark = "\ufeff"

// csvColumns are the columns of a usage file, in their order (docs/how-to/publish-prices.md).
var csvColumns = []string{
	"hour", "tenant", "project", "model", "profile", "profile_slices", "slices", "bucket",
	"slice_ms", "energy_mj",
}

// ReadCSV reads a usage file for simulation: RFC 4180, the header is exactly the columns hour, tenant, project,
// model, profile, profile_slices, slices, bucket, slice_ms, energy_mj; a byte order mark before it, as written by
// spreadsheets, is skipped. Errors name line, column and value.
func ReadCSV(r io.Reader) ([]Row, error) {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // already read
	}
	reader := bounded.NewCSV(buffered)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "read usage: the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	if !slices.Equal(header, csvColumns) {
		return nil, fault.New(fault.Invalid, "read usage: line 1: header is %q, want %q", strings.Join(header, ","),
			strings.Join(csvColumns, ","))
	}
	var rows []Row
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("read usage: %w", err)
		}
		row, err := parseRecord(record)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("read usage: line %d: %w", line, err)
		}
		rows = append(rows, row)
	}
}

func parseRecord(record []string) (Row, error) {
	hour, err := time.Parse(time.RFC3339, record[0])
	if err != nil {
		return Row{}, fmt.Errorf("hour %.60q is not an RFC 3339 time", record[0])
	}
	for i, cell := range record {
		if !utf8.ValidString(cell) {
			return Row{}, fmt.Errorf("%s %.60q is not UTF-8", csvColumns[i], cell)
		}
	}
	text := func(i int) string { return strings.Clone(record[i]) } // the cell alone would keep the record
	row := Row{Hour: hour.UTC(), Tenant: text(1), Project: text(2), Model: text(3), Profile: text(4), Bucket: text(7)}
	var numbers [4]int64
	for i, column := range []int{5, 6, 8, 9} {
		if column == 5 && record[column] == "" {
			continue // a whole GPU has no profile
		}
		bits := 64
		if column < 7 {
			bits = 16
		}
		if numbers[i], err = strconv.ParseInt(record[column], 10, bits); errors.Is(err, strconv.ErrRange) {
			return Row{}, fmt.Errorf("%s %.60q is beyond %d bits", csvColumns[column], record[column], bits)
		} else if err != nil {
			return Row{}, fmt.Errorf("%s %.60q is not an integer", csvColumns[column], record[column])
		}
	}
	row.ProfileSlices, row.Slices = int(numbers[0]), int(numbers[1])
	row.SliceMS, row.EnergyMJ = numbers[2], numbers[3]
	return row, row.validate()
}
