package hostiletest

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const deepest = 4

// fill sets about half of a message's fields to random values.
func (g *Generator) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if g.percent(50) {
			g.set(m, fields.Get(i), depth)
		}
	}
}

// alter changes one field of a message or of a message in it.
func (g *Generator) alter(m protoreflect.Message) {
	for {
		f := pick(g, fieldsOf(m))
		inner := f.Message() != nil && !f.IsMap() && m.Has(f) && g.percent(80)
		switch {
		case inner && f.IsList():
			list := m.Get(f).List()
			m = list.Get(g.random.IntN(list.Len())).Message()
		case inner:
			m = m.Get(f).Message()
		default:
			g.set(m, f, 0)
			return
		}
	}
}

func fieldsOf(m protoreflect.Message) (fields []protoreflect.FieldDescriptor) {
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		fields = append(fields, all.Get(i))
	}
	return fields
}

// set sets a field to a random value. A list is emptied or gets more elements.
func (g *Generator) set(m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	switch {
	case g.percent(10) || depth > deepest:
		m.Clear(f)
	case f.IsMap():
		for range g.few() {
			m.Mutable(f).Map().Set(g.scalar(f.MapKey()).MapKey(), g.scalar(f.MapValue()))
		}
	case f.IsList():
		g.extend(m, f, depth)
	case f.Message() != nil:
		g.fill(m.Mutable(f).Message(), depth+1)
	default:
		m.Set(f, g.scalar(f))
	}
}

// extend adds elements to a list: new ones, or copies of its own.
func (g *Generator) extend(m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	list, again := m.Mutable(f).List(), g.percent(50)
	for range g.few() {
		switch {
		case again && list.Len() > 0:
			list.Append(list.Get(g.random.IntN(list.Len())))
		case f.Message() != nil:
			v := list.NewElement()
			g.fill(v.Message(), depth+1)
			list.Append(v)
		default:
			list.Append(g.scalar(f))
		}
	}
}

func (g *Generator) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() { //nolint:exhaustive // the kinds of batch.proto
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(g.percent(50))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(g.random.IntN(8) - 1)) //nolint:gosec // small
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(g.number())) //nolint:gosec // any number
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(g.number())) //nolint:gosec // any number
	case protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(g.number())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(g.fraction())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text())
	}
	panic("no values of kind " + f.Kind().String())
}

// encode encodes the message with its fields in random order. Sometimes a field is
// there twice, has another type or is unknown. Texts may be invalid UTF-8.
func (g *Generator) encode(m protoreflect.Message) []byte {
	var parts [][]byte
	add := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		if g.space > 0 {
			parts = append(parts, g.field(nil, f, v))
		}
	}
	for _, f := range fieldsOf(m) {
		switch {
		case !m.Has(f):
		case f.IsMap():
			for _, entry := range g.entries(m.Get(f).Map(), f) {
				parts = append(parts, protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), entry))
			}
		case f.IsList():
			for i := 0; i < m.Get(f).List().Len() && g.space > 0; i++ {
				add(f, m.Get(f).List().Get(i))
			}
		default:
			add(f, m.Get(f))
		}
	}
	if len(parts) > 0 && g.percent(3) {
		other := protowire.AppendVarint(protowire.AppendTag(nil, protowire.Number(1+g.random.IntN(1000)),
			protowire.VarintType), g.random.Uint64())
		parts = append(parts, pick(g, parts), other,
			protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(1+g.random.IntN(30)), protowire.BytesType),
				g.noise(5)))
	}
	if g.percent(25) {
		g.random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	return slices.Concat(parts...)
}

func (g *Generator) entries(m protoreflect.Map, f protoreflect.FieldDescriptor) (entries [][]byte) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		entries = append(entries, g.field(g.field(nil, f.MapKey(), k.Value()), f.MapValue(), v))
		return true
	})
	slices.SortFunc(entries, slices.Compare) // the order of a map is random
	return entries
}

func (g *Generator) field(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	g.space -= 4
	varint := func(n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, f.Number(), protowire.VarintType), n)
	}
	switch f.Kind() { //nolint:exhaustive // the kinds of batch.proto
	case protoreflect.BoolKind:
		return varint(protowire.EncodeBool(v.Bool()))
	case protoreflect.EnumKind:
		return varint(uint64(v.Enum())) //nolint:gosec // as it is
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return varint(v.Uint())
	case protoreflect.Sint64Kind:
		return varint(protowire.EncodeZigZag(v.Int()))
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(protowire.AppendTag(b, f.Number(), protowire.Fixed64Type), math.Float64bits(v.Float()))
	case protoreflect.StringKind:
		g.space -= len(v.String())
		return protowire.AppendString(protowire.AppendTag(b, f.Number(), protowire.BytesType), v.String())
	case protoreflect.MessageKind:
		return protowire.AppendBytes(protowire.AppendTag(b, f.Number(), protowire.BytesType), g.encode(v.Message()))
	}
	panic("no bytes of kind " + f.Kind().String())
}
