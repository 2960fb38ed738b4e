package rules

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// FileName is the rule file's name on disk.
const FileName = "gputally.rules.yml"

// header is the rule file's first line.
const header = "# Generated from dashboards/rules; load it by rule_files in prometheus.yml.\n"

type file struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string  `yaml:"name"`
	Rules []alert `yaml:"rules"`
}

// alert is one rule, in the fields of Prometheus' rule files.
type alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// YAML is the rule file. The same code gives the same bytes.
func YAML() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(header)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(file{Groups: groups()}); err != nil {
		return nil, fmt.Errorf("encode rules: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("encode rules: %w", err)
	}
	return out.Bytes(), nil
}

const (
	info     = "info"     // for a tenant's mail
	warning  = "warning"  // within the day
	critical = "critical" // facts are being lost, or soon will be
)

// text is what an alert says: a line, what it means, and what to do.
type text struct{ summary, description, runbook string }

func newAlert(name, severity, holds, expr string, t text) alert {
	return alert{
		Name: name, Expr: expr, For: holds,
		Labels:      map[string]string{"severity": severity},
		Annotations: map[string]string{"summary": t.summary, "description": t.description, "runbook": t.runbook},
	}
}

func groups() []group {
	return []group{
		{Name: "gputally-waste", Rules: wasteAlerts()},
		{Name: "gputally-collection", Rules: append(collectionAlerts(), ingestAlerts()...)},
		{Name: "gputally-devices", Rules: deviceAlerts()},
		{Name: "gputally-ledger", Rules: ledgerAlerts()},
		{Name: "gputally-billing", Rules: billingAlerts()},
	}
}
