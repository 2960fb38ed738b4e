package check

import "context"

// Func is a Check out of a function: run gets a Result of this name that passes
// until it is told otherwise.
func Func(name, title string, run func(ctx context.Context, res *Result) error) Check {
	return funcCheck{name, title, run}
}

type funcCheck struct {
	name, title string
	run         func(ctx context.Context, res *Result) error
}

func (c funcCheck) Name() string { return c.name }

func (c funcCheck) Run(ctx context.Context) (Result, error) {
	res := New(c.name, c.title)
	err := c.run(ctx, &res)
	return res, err
}
