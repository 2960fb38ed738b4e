package grafana

import (
	"encoding/hex"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

var update = flag.Bool("update", false, "write "+FileName)

func TestGolden(t *testing.T) {
	got, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(again)); diff != "" {
		t.Errorf("two builds differ (-first +second):\n%s", diff)
	}
	if *update {
		if err := os.WriteFile(FileName, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(FileName)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale, run go generate (-want +got):\n%s", FileName, diff)
	}
}

func mustRead() *layout {
	l, err := readLayout()
	if err != nil {
		panic(err)
	}
	return l
}

// panelsOf are those of a row.
func panelsOf(title string) []spec {
	all := mustRead().Rows
	return all[slices.IndexFunc(all, func(r row) bool { return r.Title == title })].Panels
}

// sqlOf is the query of a panel.
func sqlOf(title string) string {
	for _, r := range mustRead().Rows {
		for _, s := range r.Panels {
			if s.Title == title {
				return s.SQL
			}
		}
	}
	panic("no panel " + title)
}

// variableSQL is the query of a variable.
func variableSQL(name string) string {
	all := mustRead().Variables
	return all[slices.IndexFunc(all, func(v variable) bool { return v.Name == name })].SQL
}

var (
	totalsSQL       = sqlOf("Capacity")
	capacitySQL     = sqlOf("GPUs by bucket")
	tenantsSQL      = sqlOf("Usage by tenant and project")
	unobservedSQL   = sqlOf("Unobserved share of the capacity")
	strandedSQL     = sqlOf("Stranded by MIG layout")
	boardSQL        = sqlOf("Power and activity")
	energySQL       = sqlOf("Energy by tenant")
	idleByTenantSQL = sqlOf("Idle GPU-hours by tenant")

	clusterVariableSQL, tenantVariableSQL, gpuVariableSQL = variableSQL("cluster"), variableSQL("tenant"), variableSQL("gpu")
)

// Range of the test: the hour before and the two with rows.
const (
	rangeFrom = 1772445600 // 2026-03-02T10:00:00Z
	rangeTo   = rangeFrom + 3*3600
)

// choice is the values of the dashboard's variables.
type choice struct {
	clusters, tenants []string
	gpu               string
}

var everything = choice{[]string{"c", "it's"}, []string{"ml", "nlp"}, "GPU-1"}

// hexAll are the values that variables have for names.
func hexAll(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ToUpper(hex.EncodeToString([]byte(name))))
	}
	return all
}

// percentEncode is Grafana's formatter of that name: letters, digits and -_.~
// stay, several values are joined in braces first.
func percentEncode(values ...string) string {
	return strings.ReplaceAll(url.QueryEscape(strings.Join(values, ",")), "+", "%20")
}

// singleQuote is Grafana's formatter of that name.
func singleQuote(values ...string) string {
	var quoted []string
	for _, value := range values {
		quoted = append(quoted, "'"+strings.ReplaceAll(value, "'", `\'`)+"'")
	}
	return strings.Join(quoted, ",")
}

// expand does what Grafana and the ClickHouse data source do to a query: first
// the variables, then the macros. An unknown one stays and fails on the engine.
func expand(sql string) string { return everything.expand(sql) }

func (c choice) expand(sql string) string {
	return expandRaw(sql, hexAll(c.clusters), hexAll(c.tenants), hexAll([]string{c.gpu})[0])
}

// expandRaw is expand with the variables' values themselves.
func expandRaw(sql string, clusters, tenants []string, gpu string) string {
	braced := func(values []string) string { return percentEncode("{" + strings.Join(values, ",") + "}") }
	for name, value := range map[string]string{
		"${cluster:percentencode}": braced(clusters), "${cluster:singlequote}": singleQuote(clusters...),
		"${tenant:percentencode}": braced(tenants), "${tenant:singlequote}": singleQuote(tenants...),
		"${gpu:percentencode}": percentEncode(gpu), "${gpu:singlequote}": singleQuote(gpu),
	} {
		sql = strings.ReplaceAll(sql, name, value)
	}
	sql = strings.ReplaceAll(sql, "$__fromTime", "toDateTime(1772445600)")
	sql = strings.ReplaceAll(sql, "$__toTime", "toDateTime(1772456400)")
	sql = regexp.MustCompile(`\$__timeInterval\(([^)]*)\)`).ReplaceAllString(sql,
		"toStartOfInterval(toDateTime($1), INTERVAL 3600 second)")
	return strings.ReplaceAll(sql, "$__interval_s", "3600")
}

// The rows: in the hours 11 and 12 GPU-1 of seven slices has ml at work on
// three for all of the hour and nlp idle on two, one slice is free, one
// stranded; energy is 1 kWh for ml, 0.5 for the platform and 0.25 of no slot.
// In the hour 12 GPU-2 is unobserved, half of it for want of owners.
const (
	insertUsageSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version, free, stranded,
    platform_energy_mj, unattributed_mj, leaf, profile, profile_slices, owner, tenant, project, user, workload,
    active, idle, unproven, inferred, work, energy_mj)
SELECT 'c', toDateTime({at:Int64}, 'UTC') + number * 3600, 'GPU-1', 'n1', 'H100', 7, 3600000, 3600000, 1, 1, 3600000, 3600000,
    1800000000, 900000000, ['gi1', 'gi2'], ['3g.40gb', '2g.20gb'], [3, 2], [1, 2], ['ml', 'nlp'], ['p', 'q'], ['ann', 'bob'], ['train', 'tune'],
    [10800000, 0], [0, 7200000], [0, 0], [0, 0], [0, 0], [3600000000, 0]
FROM numbers(2)`
	insertUnobservedSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version, unobserved, unobserved_attribution)
SELECT 'c', toDateTime({at:Int64}, 'UTC') + 3600, 'GPU-2', 'n1', 'H100', 7, 3600000, 3600000, 1, 1, 25200000, 12600000`
	insertSamplesSQL = `
INSERT INTO samples (cluster, node, gpu, device, slot, rev, present, sm_active, tensor_active, dram_active, power_dw)
SELECT 'c', 'n1', 'GPU-1', d, toDateTime({at:Int64}, 'UTC') + number * 10, r, if(number = 0, 0, 45), 5000, 2500, 1000, 3500
FROM numbers(4) ARRAY JOIN ['', 'gi1'] AS d, [1, 2] AS r`
	insertAnomalySQL = `
INSERT INTO anomalies (id, kind, cluster, tenant, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted)
SELECT toString(number), 'idle_allocation', 'c', 'nlp', toDateTime({at:Int64}, 'UTC'), toDateTime({at:Int64}, 'UTC') + 7200, 0.571428571, 2, 'USD', 'because', 1, number
FROM numbers(2)`
)

func openLedger(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	for _, sql := range []string{insertUsageSQL, insertUnobservedSQL, insertSamplesSQL, insertAnomalySQL} {
		if err := db.Exec(t.Context(), sql, store.Named("at", rangeFrom+3600)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func TestEveryQueryRunsAndHasItsColumns(t *testing.T) {
	db := openLedger(t)
	queries := 0
	for _, r := range mustRead().Rows {
		for _, s := range r.Panels {
			if s.SQL == "" {
				continue
			}
			queries++
			t.Run(s.Title, func(t *testing.T) { checkQuery(t, db, s) })
		}
	}
	if queries < 12 {
		t.Errorf("only %d ClickHouse queries on the dashboard", queries)
	}
}

func checkQuery(t *testing.T, db *store.DB, s spec) {
	t.Helper()
	rows, err := db.Query(t.Context(), expand(s.SQL))
	if err != nil {
		t.Fatalf("%v\n%s", err, expand(s.SQL))
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("no rows")
	}
	if diff := cmp.Diff(s.Columns, rows.Columns()); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if overTime(s) && rows.ColumnTypes()[0].ScanType().String() != "time.Time" {
		t.Errorf("first column is %s, want a time", rows.ColumnTypes()[0].ScanType())
	}
	if s.View == viewStat && !slices.Contains(s.Columns, s.Field) {
		t.Errorf("stat shows %q, which is none of %v", s.Field, s.Columns)
	}
}

// TestUnaccountedTimeIsInGPUHours: the table's constraint must go first, since it lets
// no such row in. The row lacks half of one hour of a GPU of seven slices.
func TestUnaccountedTimeIsInGPUHours(t *testing.T) {
	db := openLedger(t)
	for _, sql := range []string{"ALTER TABLE usage_hourly DROP CONSTRAINT c6", `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, gpu_slices, present_ms, until_ms, inputs, version, free)
SELECT 'c', toDateTime({at:Int64}, 'UTC'), 'GPU-3', 'n1', 'H100', 7, 7, 3600000, 3600000, 1, 1, 12600000`} {
		if err := db.Exec(t.Context(), sql, store.Named("at", rangeFrom+3600)); err != nil {
			t.Fatal(err)
		}
	}
	var got []struct {
		Capacity    float64 `ch:"capacity_gpu_hours"`
		Held        float64 `ch:"held_share"`
		Active      float64 `ch:"active_share"`
		Idle        float64 `ch:"idle_gpu_hours"`
		Unaccounted float64 `ch:"unaccounted_gpu_hours"`
	}
	if err := db.Select(t.Context(), &got, expand(totalsSQL)); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Unaccounted != 0.5 {
		t.Errorf("totals %+v, want 0.5 GPU-hours unaccounted", got)
	}
}

// optionsOf runs a variable's query and answers its options' texts, by value.
func optionsOf(t *testing.T, db *store.DB, sql string) map[string]string {
	t.Helper()
	rows, err := db.Query(t.Context(), expand(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	options := map[string]string{}
	for rows.Next() {
		var value, text string
		if err := rows.Scan(&value, &text); err != nil {
			t.Fatal(err)
		}
		options[value] = text
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return options
}

func TestVariableQueries(t *testing.T) {
	db := openLedger(t)
	for sql, want := range map[string]map[string]string{
		clusterVariableSQL: {"63": "c"}, tenantVariableSQL: {"6D6C": "ml", "6E6C70": "nlp"},
		gpuVariableSQL: {"4750552D31": "GPU-1", "4750552D32": "GPU-2"},
	} {
		if diff := cmp.Diff(want, optionsOf(t, db, sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

// hostileNames would leave the string that Grafana's singlequote writes.
var hostileNames = []string{`\`, `) OR 1=1 -- `, `') OR 1=1 -- \`, `{a,b}`, `%27`}

const insertHostileSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version,
    leaf, profile, profile_slices, owner, tenant, project, user, workload, active, idle, unproven, inferred, work, energy_mj)
SELECT 'c', toDateTime({at:Int64}, 'UTC'), {gpu:String}, 'n1', 'H100', 1, 3600000, 3600000, 1, 1,
    [''], [''], [1], [1], [{tenant:String}], [''], [''], [''], [0], [3600000], [0], [0], [0], [1]`

// TestM9TenantsStayInTheirString: whoever is chosen, alone or together, only
// their rows come back; and a value that somebody puts into a page's address
// chooses nothing.
func TestM9TenantsStayInTheirString(t *testing.T) {
	db := openLedger(t)
	for i, name := range hostileNames {
		if err := db.Exec(t.Context(), insertHostileSQL, store.Named("at", rangeFrom+3600),
			store.Named("gpu", "GPU-h"+strconv.Itoa(i)+name), store.Named("tenant", name)); err != nil {
			t.Fatal(err)
		}
	}
	options := optionsOf(t, db, tenantVariableSQL)
	var values []string
	for value, name := range options {
		if slices.Contains(hostileNames, name) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	if len(values) != len(hostileNames) {
		t.Fatalf("options %v, want %q among them", options, hostileNames)
	}
	clusters := hexAll([]string{"c"})
	asked := map[string][]string{"all of them": values}
	for _, value := range values {
		asked[options[value]] = []string{value}
	}
	for name, values := range asked {
		var want []string
		for _, value := range values {
			want = append(want, options[value])
		}
		for _, sql := range []string{tenantsSQL, idleByTenantSQL} {
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)),
				tenantsOf(t, db, expandRaw(sql, clusters, values, ""))); diff != "" {
				t.Errorf("tenants of %q (-want +got):\n%s", name, diff)
			}
		}
	}
	for _, s := range slices.Concat(panelsOf("Waste"), panelsOf("Tenants"), panelsOf("GPU ${gpu:text}")) {
		sql := expandRaw(s.SQL, hostileNames, hostileNames, hostileNames[2])
		if found := tenantsOf(t, db, sql); len(found) > 0 {
			t.Errorf("%s: values that are no names choose %q", s.Title, found)
		}
	}
}

// tenantsOf runs a query and answers its column tenant, sorted, or account or
// the first one, where it has none.
func tenantsOf(t *testing.T, db *store.DB, sql string) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		dest := make([]any, len(rows.Columns()))
		for i, c := range rows.ColumnTypes() {
			dest[i] = reflect.New(c.ScanType()).Interface()
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		at := max(0, slices.Index(rows.Columns(), "tenant"))
		found = append(found, reflect.ValueOf(dest[at]).Elem().String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// lastRow reads the last float columns of the last row.
func lastRow(t *testing.T, db *store.DB, sql string, floats int) []float64 {
	t.Helper()
	rows, err := db.Query(t.Context(), expand(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := make([]float64, floats)
	for rows.Next() {
		dest := make([]any, len(rows.Columns()))
		for i, c := range rows.ColumnTypes() {
			dest[i] = reflect.New(c.ScanType()).Interface()
		}
		for i := range got {
			dest[len(dest)-floats+i] = &got[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestFiguresAreRight(t *testing.T) {
	db := openLedger(t)
	for _, tc := range []struct {
		name, sql string
		want      []float64
	}{
		{
			"totals: 3 GPU-hours, 10/21 held, 6/21 active, 4/7 h idle, 0 unaccounted", totalsSQL,
			[]float64{3, 10. / 21, 6. / 21, 4. / 7, 0},
		},
		{"buckets of the hour 12", capacitySQL, []float64{3. / 7, 2. / 7, 0, 1. / 7, 1. / 7, 0, 1}},
		{"nlp", tenantsSQL, []float64{4. / 7, 0, 4. / 7, 1, 0}},
		{"unobserved of two GPUs", unobservedSQL, []float64{0.25, 0.25}},
		{"stranded", strandedSQL, []float64{1. / 7}},
		{"power of the last interval", boardSQL, []float64{350, 0.5, 0.25, 0.1}},
		{"energy of ml, after the platform's and the unattributed", energySQL, []float64{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lastRow(t, db, tc.sql, len(tc.want))
			for i := range tc.want {
				if d := got[i] - tc.want[i]; d > 1e-9 || d < -1e-9 {
					t.Errorf("got %v, want %v", got, tc.want)
					break
				}
			}
		})
	}
}

// TestPrometheusQueriesParse has promtool read every expression as a recording
// rule.
func TestPrometheusQueriesParse(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool is needed in CI: %v", err)
		}
		t.Skipf("needs promtool, of the package prometheus: %v", err)
	}
	var file strings.Builder
	file.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, r := range mustRead().Rows {
		for _, s := range r.Panels {
			for _, q := range s.Prom {
				n++
				expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
				file.WriteString("  - {record: 'dashboard:" + strconv.Itoa(n) + "', expr: '" + expr + "'}\n")
			}
		}
	}
	name := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "check", "rules", name).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, out, file.String())
	}
	if n < 7 {
		t.Errorf("only %d Prometheus queries on the dashboard", n)
	}
}
