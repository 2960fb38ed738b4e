package check

import "context"

// Func returns a Check that calls run with a Result of this name, which passes unless run changes it.
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
