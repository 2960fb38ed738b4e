package store

import "strings"

// closing is the index of the parenthesis that closes the one at open, or -1.
func closing(sql string, open int) int {
	depth := 0
	end := -1
	eachBare(sql[open:], func(i int) bool {
		switch sql[open+i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			end = open + i
		}
		return depth > 0
	})
	return end
}

// splitList cuts at the commas outside of parentheses, brackets and quotes.
func splitList(sql string) []string {
	var items []string
	depth, start := 0, 0
	eachBare(sql, func(i int) bool {
		switch sql[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, strings.TrimSpace(sql[start:i]))
				start = i + 1
			}
		}
		return true
	})
	return append(items, strings.TrimSpace(sql[start:]))
}

// eachBare visits the bytes outside of quotes until visit returns false. In a
// quoted text a backslash escapes; a doubled quote reads as two texts.
func eachBare(sql string, visit func(i int) bool) {
	var quote byte
	for i := 0; i < len(sql); i++ {
		b := sql[i]
		switch {
		case quote != 0 && b == '\\':
			i++
		case quote != 0 && b == quote:
			quote = 0
		case quote != 0:
		case b == '\'' || b == '"' || b == '`':
			quote = b
		case !visit(i):
			return
		}
	}
}
