package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// object is a kind of JSON object of a line: the names of its fields, and which of them hold objects.
type object struct {
	fields  map[string]bool // false: refused, though it is a number
	parts   map[string]*object
	metrics bool // fields with other names are metrics, if they are numbers
}

// batchObject is a whole line.
var batchObject = func() *object {
	owner := &object{fields: namesOf(reflect.TypeFor[Owner]())}
	hold := &object{fields: namesOf(reflect.TypeFor[jsonHold]()), parts: map[string]*object{"owner": owner}}
	leaf := &object{fields: namesOf(reflect.TypeFor[jsonLeaf]()), metrics: true}
	gpu := &object{
		fields: namesOf(reflect.TypeFor[jsonGPU]()), metrics: true,
		parts: map[string]*object{"leaves": leaf, "holds": hold},
	}
	leaf.fields["from_ms"], leaf.fields["to_ms"] = false, false // of the topic: here a mistake that would change who pays
	return &object{fields: namesOf(reflect.TypeFor[jsonBatch]()), parts: map[string]*object{"gpus": gpu}}
}()

// namesOf are the JSON names of a struct's fields and of the structs embedded in it.
func namesOf(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[name] = true
		}
	}
	return names
}

// checkKeys returns an error if a line of valid JSON has a field that doesn't exist, or one twice: encoding/json would
// ignore them, and a misspelt field can change who pays.
func checkKeys(line []byte) error {
	return batchObject.check(json.NewDecoder(bytes.NewReader(line)), "")
}

// check reads one value: an object, a list of such, or something else.
func (o *object) check(d *json.Decoder, place string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := o.check(d, fmt.Sprintf("%s[%d]", place, i)); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := o.checkFields(d, place); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = d.Token() // the end
	return err
}

func (o *object) checkFields(d *json.Decoder, place string) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := strings.TrimPrefix(place+"."+name, ".")
		if seen[name] {
			return fmt.Errorf("%.80q: the field is there twice", at)
		}
		seen[name] = true
		if part := o.parts[name]; part != nil {
			err = part.check(d, at)
		} else {
			err = o.checkValue(d, name, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *object) checkValue(d *json.Decoder, name, at string) error {
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return err
	}
	number := value[0] == '-' || (value[0] >= '0' && value[0] <= '9') || string(value) == "null"
	if exists, named := o.fields[name]; exists || (!named && o.metrics && number) {
		return nil
	}
	return fmt.Errorf("%.80q: there is no such field", at)
}
