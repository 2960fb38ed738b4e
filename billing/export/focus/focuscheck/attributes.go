package focuscheck

// rules are those that a column has by itself.
func (c *column) rules() []Rule {
	source := sourceModel
	if c.only == version14 {
		source = source14
	}
	var list []Rule
	for _, rule := range []Rule{
		{c.presence, c.name, c.name + " MUST be present.", source},
		{c.notNull, c.name, c.name + " MUST NOT be null.", source},
		{c.typed, c.name, c.name + " MUST be of its type.", source},
		{c.allowed, c.name, c.name + " MUST be one of the allowed values.", source},
	} {
		if rule.ID != "" {
			list = append(list, rule)
		}
	}
	return list
}

// attributeRules are of formats that many columns have. That values be of one
// of the types (KeyValueFormat-A-003-M) is the same as that they be no object
// and no array; that times be UTC and in ISO 8601 (DateTimeFormat-A-001-M to
// -A-003-M), the same as the three of their parts.
var attributeRules = []Rule{
	{ruleUnicode, "", "String values MUST be valid Unicode strings.", sourceModel},
	{rulePlaceholder, "", "Columns MUST NOT use empty strings or placeholder values to represent a null.", sourceModel},
	{"DateTimeFormat-A-004-M", "", "MUST include the date and time components, separated with the letter T.", sourceModel},
	{"DateTimeFormat-A-005-M", "", "MUST use two-digit hours, minutes, and seconds.", sourceModel},
	{"DateTimeFormat-A-006-M", "", "MUST end with the Z indicator.", sourceModel},
	{"KeyValueFormat-A-001-M", "", "MUST contain a serialized JSON string, consistent with the definition of an object.", sourceModel},
	{"KeyValueFormat-A-002-M", "", "Keys in a key-value pair MUST be unique within an object.", sourceModel},
	{"KeyValueFormat-A-004-M", "", "Values in a key-value pair MUST NOT be an object or an array.", sourceModel},
	{"NumericFormat-A-002-M", "", "MUST contain a single numeric value.", sourceModel},
	{"NumericFormat-A-004-M", "", "Fractional notation MUST NOT be used.", sourceModel},
	{"NumericFormat-A-005-M", "", "Scientific notation MUST be E notation.", sourceModel},
	{"NumericFormat-A-006-M", "", "The sign of the exponent MUST only be expressed if it is negative.", sourceModel},
	{"NumericFormat-A-007-M", "", "MUST NOT be expressed with mathematical symbols, functions, or operators.", sourceModel},
	{"NumericFormat-A-008-M", "", "MUST NOT contain qualifiers or additional characters.", sourceModel},
	{"NumericFormat-A-009-M", "", "MUST NOT contain commas or punctuation marks except for a single decimal point.", sourceModel},
	{"NumericFormat-A-010-M", "", "MUST NOT include a character to represent a sign for a positive value.", sourceModel},
	{"NumericFormat-A-011-M", "", "A negative sign (-) MUST indicate a negative value.", sourceModel},
}
