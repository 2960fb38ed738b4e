package month

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Config has the budgets by tenant.
type Config struct {
	Budgets map[string]Budget `yaml:"budgets"`
}

// Budget is what a tenant may use in a month; 0: no limit. Spend is in the currency of the
// price book.
type Budget struct {
	GPUHours float64 `yaml:"gpu_hours"`
	Spend    float64 `yaml:"spend"`
}

// Validate names the first budget that makes no sense.
func (c Config) Validate() error {
	for _, tenant := range slices.Sorted(maps.Keys(c.Budgets)) {
		b := c.Budgets[tenant]
		for _, v := range []float64{b.GPUHours, b.Spend} {
			if !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("budgets: %s: %v: want 0 or more", tenant, v)
			}
		}
		if b == (Budget{}) {
			return fmt.Errorf("budgets: %s: is empty: name gpu_hours or spend", tenant)
		}
	}
	return nil
}
