package api

import (
	"context"
	"time"

	"github.com/gputally/gputally/internal/fault"
)

// Explanation identifies one GPU-hour: by the GPU, or by the pod or job that held it.
type Explanation struct {
	GPU     string `query:"gpu" maxLength:"500" doc:"The GPU's id, a unique beginning of it, or NODE/INDEX" example:"GPU-0137"`
	Pod     string `query:"pod" maxLength:"500" doc:"The GPU that this pod held: NAMESPACE/NAME, a name or a UID"`
	Job     string `query:"job" maxLength:"500" doc:"The GPU that this job held, by its id"`
	Hour    string `query:"hour" required:"true" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00Z$" doc:"Start of a UTC hour" example:"2026-10-03T14:00:00Z"`
	Cluster string `query:"cluster" maxLength:"500" doc:"Cluster of the GPU; needed if several clusters have this id"`
	Leaf    string `query:"leaf" maxLength:"500" doc:"Only this leaf, such as a MIG instance"`
	Tenant  string `query:"tenant" maxLength:"500" doc:"Only this tenant's part"`
	All     bool   `query:"all" doc:"Also list the batches, including those that another batch replaced"`
}

type explainOutput struct{ Body any }

func (a *api) explain(ctx context.Context, in *Explanation) (*explainOutput, error) {
	named := 0
	for _, name := range []string{in.GPU, in.Pod, in.Job} {
		if name != "" {
			named++
		}
	}
	if named != 1 {
		return nil, a.problem(ctx, fault.New(fault.Invalid, "name one of gpu, pod and job; %d are named", named))
	}
	hour, err := time.Parse(time.RFC3339, in.Hour)
	if err != nil {
		return nil, a.problem(ctx, fault.New(fault.Invalid, "hour %q: there is no such time", in.Hour))
	}
	answer, err := a.deps.Explain(ctx, in, hour)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &explainOutput{answer}, nil
}
