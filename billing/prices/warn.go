package prices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/config"
)

// Warning is a valid but probably unintended value in a book.
type Warning struct {
	// Effective is the version's hour; zero for the book as a whole.
	Effective time.Time
	Key       Key
	Text      string
}

// Warnings returns the suspicious values of a valid book at an instant, by version.
func (b *Book) Warnings(now time.Time) []Warning {
	var all []Warning
	if first := b.Versions[0].Effective; first.After(now) {
		all = append(all, Warning{
			Key:  Key{Kind: KindBook, Item: "versions"},
			Text: fmt.Sprintf("the first version starts at %s: usage before it has no price", first.Format(time.RFC3339)),
		})
	}
	for i := range b.Versions {
		version := &b.Versions[i]
		w := warner{effective: version.Effective}
		for _, name := range slices.Sorted(maps.Keys(version.Models)) {
			w.model(name, version.Models[name])
		}
		for _, name := range slices.Sorted(maps.Keys(version.Tenants)) {
			w.tenant(name, version.Tenants[name], version)
		}
		if i > 0 {
			w.since(&b.Versions[i-1], version)
		}
		all = append(all, w.found...)
	}
	return all
}

// warner collects the warnings of one version.
type warner struct {
	effective time.Time
	found     []Warning
}

func (w *warner) addf(key Key, format string, args ...any) {
	w.found = append(w.found, Warning{w.effective, key, fmt.Sprintf(format, args...)})
}

func (w *warner) model(name string, model Model) {
	if model.GPUHour.IsZero() {
		w.addf(Key{KindModel, name, "gpu_hour"}, "is zero: the model is free")
	}
	w.profiles(name, model)
	before := model.GPUHour
	for _, tier := range model.Tiers {
		if tier.GPUHour.GreaterThan(before) {
			w.addf(Key{KindModel, name, "tiers.above " + tier.Above.String()},
				"%s is dearer than %s, the rate before it", tier.GPUHour, before)
		}
		before = tier.GPUHour
	}
}

// profiles checks for prices above the profile's part of the board, and for names that the board doesn't have, which
// would never be used.
func (w *warner) profiles(name string, model Model) {
	board, err := BoardOf(name)
	if err != nil {
		return
	}
	var dear []string
	for _, profile := range slices.Sorted(maps.Keys(model.Profiles)) {
		known, ok := board.profile(profile)
		if !ok {
			w.addf(Key{KindModel, name, "profiles." + profile}, "%s has no such profile (it has %s)", board.Name,
				board.profileNames())
			continue
		}
		share, err := board.Share(known, Dominant)
		if fair := roundShare(model.GPUHour, share); err == nil && model.Profiles[profile].GreaterThan(fair) {
			dear = append(dear, fmt.Sprintf("%s (%s for %s of the GPU, which is %s)", profile, model.Profiles[profile],
				share.RatString(), fair))
		}
	}
	if len(dear) > 0 {
		w.addf(Key{KindModel, name, "profiles"}, "dearer than the larger of their compute and memory share: %s",
			strings.Join(dear, ", "))
	}
}

func (b *Board) profileNames() string {
	list := make([]string, len(b.Profiles))
	for i, p := range b.Profiles {
		list[i] = p.Name
	}
	return strings.Join(list, ", ")
}

func (w *warner) tenant(name string, terms Terms, version *Version) {
	for _, r := range sortedReservations(terms.Reserved) {
		if r.GPUs.IsZero() {
			w.addf(Key{KindTenant, name, "reserved." + r.Model + ".gpus"},
				"is zero: nothing is reserved, but every month gets an invoice")
		}
		if rate := version.Models[r.Model].GPUHour; r.UnusedGPUHour.GreaterThan(rate) {
			w.addf(Key{KindTenant, name, "reserved." + r.Model + ".unused_gpu_hour"},
				"%s is dearer than %s, an hour that is used", r.UnusedGPUHour, rate)
		}
	}
	if facts := terms.facts(name); len(facts) == 0 {
		w.addf(Key{KindTenant, name, ""}, "has no terms")
	}
}

// since checks for terms that a version no longer has: nothing carries over.
func (w *warner) since(before, now *Version) {
	for _, name := range slices.Sorted(maps.Keys(before.Models)) {
		if _, ok := now.Models[name]; !ok {
			w.addf(Key{KindModel, name, "gpu_hour"},
				"has no rate from here on: a version carries nothing over, and usage of it is an error")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Tenants)) {
		was, is := before.Tenants[name], now.Tenants[name]
		if was.HasMinimum && !is.HasMinimum {
			w.addf(Key{KindTenant, name, "minimum"}, "was %s until here and is none from here on", was.Minimum)
		}
		if len(was.facts(name)) > 0 && len(is.facts(name)) == 0 && !was.HasMinimum {
			w.addf(Key{KindTenant, name, ""}, "had terms until here and has none from here on")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Tenants)) {
		if !before.Tenants[name].HasMinimum && now.Tenants[name].HasMinimum {
			w.addf(Key{KindTenant, name, "minimum"}, "starts here: a month that is cut gets its part of it")
		}
	}
	if slices.Equal(before.Facts(), now.Facts()) {
		w.addf(Key{Kind: KindVersion}, "says what the one before it says")
	}
}

// String is the warning with its place: version, then key.
func (w Warning) String() string {
	place := cmp.Or(w.Key.String(), "version") + ": " + w.Text
	if w.Effective.IsZero() {
		return place
	}
	return w.Effective.Format(time.RFC3339) + ": " + place
}

// String is the key as in a file: models.H100.gpu_hour.
func (k Key) String() string {
	path := map[string]string{KindSKU: "skus", KindModel: "models", KindTenant: "tenants"}[k.Kind]
	if k.Name != "" {
		path = config.Join(path, k.Name)
	}
	if k.Item != "" {
		path = strings.TrimPrefix(path+"."+k.Item, ".")
	}
	return path
}
