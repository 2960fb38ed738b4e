package prices

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// WithProfiles sets derived profile rates in the text of a book and leaves all
// else byte for byte as it is, comments and the order of keys included. Prices
// of profiles that are not among the derived stay. Errors name the line of a
// model that is written in a way that can't be changed in place. The result has been
// read again and says what the old text says but for those prices.
func WithProfiles(name string, data []byte, derived []Derivation) ([]byte, error) {
	book, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	root, err := document(name, data)
	if err != nil {
		return nil, fmt.Errorf("set profile rates in %s: %w", name, err)
	}
	e := &editor{walker: walker{name: name}, text: newText(data)}
	for _, d := range derived {
		e.set(root, book, d)
	}
	if err := e.err(); err != nil {
		return nil, fmt.Errorf("set profile rates: %w", err)
	}
	edited := e.text.apply(e.edits)
	if err := book.setProfiles(derived).equals(name, edited); err != nil {
		return nil, fmt.Errorf("set profile rates in %s: %w", name, err)
	}
	return edited, nil
}

// edit replaces the bytes from…to.
type edit struct {
	from, to int
	with     string
}

type editor struct {
	walker
	text  text
	edits []edit
}

// set finds the model of a derivation and changes its profiles.
func (e *editor) set(root *yaml.Node, book *Book, d Derivation) {
	versions, _ := child(root, "versions")
	for _, version := range versions.Content {
		effective, _ := child(version, "effective")
		at, err := time.Parse(time.RFC3339, effective.Value)
		if err != nil || !at.Equal(d.Effective) {
			continue
		}
		models, _ := child(version, "models")
		model, _ := child(models, d.Model)
		for _, n := range []*yaml.Node{versions, version, models, model} {
			if n.Kind == 0 {
				e.failf(n, d.Model, "is not found in the text")
				return
			}
		}
		e.setModel(model, d, book.Versions[book.At(d.Effective)].Models[d.Model])
	}
}

// setModel replaces the value of profiles, or puts the key after gpu_hour.
func (e *editor) setModel(model *yaml.Node, d Derivation, was Model) {
	flow := flowProfiles(d, was)
	profiles, key := child(model, "profiles")
	if key == nil {
		e.insert(model, d.Model, flow)
		return
	}
	if profiles.Kind != yaml.MappingNode {
		e.failf(key, d.Model, "profiles are written in a way that can't be changed in place; remove the key")
		return
	}
	from, ok := e.text.offset(profiles.Line, profiles.Column), true
	to := from
	if profiles.Style&yaml.FlowStyle != 0 {
		to, ok = e.text.endOfFlow(from)
	} else if len(profiles.Content) > 0 {
		// The block goes to the line of the key, so that it is one line as all
		// derived prices are.
		last := profiles.Content[len(profiles.Content)-1]
		from = e.text.offset(key.Line, key.Column)
		flow = "profiles: " + flow
		to, ok = e.text.endOfQuoted(e.text.offset(last.Line, last.Column))
	}
	if !ok {
		e.failf(key, d.Model, "profiles are written in a way that can't be changed in place; remove the key")
		return
	}
	e.edits = append(e.edits, edit{from, to, flow})
}

func (e *editor) insert(model *yaml.Node, name, flow string) {
	rate, key := child(model, "gpu_hour")
	end, ok := e.text.endOfQuoted(e.text.offset(rate.Line, rate.Column))
	if !ok {
		e.failf(rate, name, "gpu_hour is written in a way that can't be added to in place")
		return
	}
	if model.Style&yaml.FlowStyle != 0 {
		e.edits = append(e.edits, edit{end, end, ", profiles: " + flow})
		return
	}
	end, newline := e.text.endOfLine(end)
	line := newline + strings.Repeat(" ", key.Column-1) + "profiles: " + flow
	e.edits = append(e.edits, edit{end, end, line})
}

// child is a mapping's value and key; an empty node and nil without one.
func child(n *yaml.Node, name string) (value, key *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1], n.Content[i]
		}
	}
	return &yaml.Node{Line: n.Line, Column: n.Column}, nil
}

// flowProfiles is {1g.10gb: "0.3557", …}: the derived first, then what else
// the model had.
func flowProfiles(d Derivation, was Model) string {
	var list []string
	for _, rate := range d.Rates {
		list = append(list, fmt.Sprintf("%s: %q", rate.Profile, rate.Rate.StringFixed(ratePlaces)))
	}
	for _, name := range slices.Sorted(maps.Keys(was.Profiles)) {
		if !d.has(name) {
			list = append(list, fmt.Sprintf("%q: %q", name, was.Profiles[name].String()))
		}
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (d *Derivation) has(profile string) bool {
	return slices.ContainsFunc(d.Rates, func(r ProfileRate) bool { return r.Profile == profile })
}

// YAML is the derivations as a part of a book, to be pasted into one.
func YAML(derived []Derivation) string {
	var b strings.Builder
	b.WriteString("versions:\n")
	for i, d := range derived {
		if i == 0 || !d.Effective.Equal(derived[i-1].Effective) {
			fmt.Fprintf(&b, "- effective: %s\n  models:\n", d.Effective.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, "    %s: # %s\n      gpu_hour: %q\n      profiles: %s\n",
			yamlKey(d.Model), d.Board.Source, d.GPUHour.String(), flowProfiles(d, Model{}))
	}
	return b.String()
}

// yamlKey quotes a name where YAML would read it as something else.
func yamlKey(name string) string {
	text, err := yaml.Marshal(name)
	if err != nil {
		return fmt.Sprintf("%q", name)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// setProfiles is the book with the derived rates.
func (b *Book) setProfiles(derived []Derivation) *Book {
	changed := *b
	changed.Versions = slices.Clone(b.Versions)
	for i := range changed.Versions {
		version := &changed.Versions[i]
		version.Models = maps.Clone(version.Models)
		for _, d := range derived {
			model, ok := version.Models[d.Model]
			if !ok || !version.Effective.Equal(d.Effective) {
				continue
			}
			model.Profiles = maps.Clone(model.Profiles)
			for _, rate := range d.Rates {
				model.Profiles[rate.Profile] = rate.Rate
			}
			version.Models[d.Model] = model
		}
	}
	return &changed
}

// equals is an error where a text doesn't say what the book says.
func (b *Book) equals(name string, data []byte) error {
	read, err := Parse(name, data)
	if err != nil {
		return err
	}
	if changes := Diff(b, read, time.Time{}); len(changes) > 0 {
		return fmt.Errorf("the changed text would not say what it should of %s", changes[0].Key)
	}
	return nil
}
