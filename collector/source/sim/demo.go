package sim

import (
	_ "embed"

	"github.com/gputally/gputally/internal/config"
)

//go:embed demo.yaml
var demoYAML []byte

// description is the whole of demo.yaml.
type description struct {
	Models    map[string]*model
	Layouts   map[string]layout
	Nodes     []node
	Tenants   []*tenant
	Workloads []workload
	Incidents []incidentRule
	Failures  []failure
}

func describe() (d description, err error) {
	err = config.Decode("demo.yaml", demoYAML, &d)
	return d, err
}
