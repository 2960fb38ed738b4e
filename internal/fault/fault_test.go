package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestTheClassIsThatOfTheFirstErrorThatStatesOne(t *testing.T) {
	gone := New(NotFound, "no such month %s", "2026-03")
	for name, test := range map[string]struct {
		err  error
		want Class
	}{
		"nothing":            {nil, Internal},
		"an error":           {errors.New("x"), Internal},
		"classified":         {gone, NotFound},
		"wrapped":            {fmt.Errorf("read: %w", gone), NotFound},
		"joined":             {errors.Join(errors.New("x"), gone), NotFound},
		"classified anew":    {New(Conflict, "decide: %w", gone), Conflict},
		"of the system":      {fmt.Errorf("read: %w", fs.ErrNotExist), Environment},
		"of a wrong request": {New(Invalid, "read: %w", fs.ErrNotExist), Invalid},
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%s: class %d, want %d", name, got, test.want)
		}
	}
	if err := New(Conflict, "decide: %w", gone); !errors.Is(err, gone) || err.Error() != "decide: no such month 2026-03" {
		t.Errorf("%v hides what it wraps", err)
	}
}

func TestEveryClassHasExitCodeAndStatus(t *testing.T) {
	for c := Internal; c <= Environment; c++ {
		if c.Exit() < 1 || c.Exit() > 3 || c.Status() < 400 || c.Status() > 599 {
			t.Errorf("class %d: exit code %d, status %d", c, c.Exit(), c.Status())
		}
	}
}
