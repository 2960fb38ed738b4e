package engine

import "strings"

// kind is the way in which a statement has to be run.
type kind int

const (
	kindOther  kind = iota // as a whole, through query: DDL, SHOW, SET, INSERT SELECT
	kindSelect             // streamed out
	kindInsert             // streamed in
)

// statement is an SQL text, split as far as running it requires.
type statement struct {
	kind   kind
	sql    string // of an insert: without FORMAT and data
	format string // of an insert: its format, "" when it names none
	data   string // of an insert: the data after the statement
}

// parseStatement parses as little as needed: the first word, and in an INSERT the first VALUES, FORMAT or SELECT
// outside quotes and parentheses.
func parseStatement(sql string) statement {
	s := scanner{text: sql}
	first, _, _ := s.word()
	switch strings.ToUpper(first) {
	case "SELECT", "WITH", "FROM":
		return statement{kind: kindSelect, sql: sql}
	case "INSERT":
		return parseInsert(sql, s)
	}
	return statement{sql: sql}
}

func parseInsert(sql string, s scanner) statement {
	for {
		word, start, ok := s.word()
		if !ok {
			return statement{kind: kindInsert, sql: sql}
		}
		if s.depthAtWord > 0 {
			continue
		}
		switch strings.ToUpper(word) {
		case "SELECT", "WITH":
			return statement{sql: sql}
		case "VALUES":
			return statement{kind: kindInsert, sql: sql[:start], format: "Values", data: sql[s.at:]}
		case "FORMAT":
			format, _, _ := s.word()
			return statement{kind: kindInsert, sql: sql[:start], format: format, data: afterFormat(sql[s.at:])}
		}
	}
}

// afterFormat skips whitespace up to and including the first line break, as the server does; a semicolon there ends a
// statement without data.
func afterFormat(rest string) string {
	trimmed := strings.TrimLeft(rest, " \t\r")
	if strings.HasPrefix(trimmed, ";") {
		trimmed = strings.TrimLeft(trimmed[1:], " \t\r")
	}
	return strings.TrimPrefix(trimmed, "\n")
}

// scanner iterates over the words of an SQL text, skipping quotes and comments.
type scanner struct {
	text        string
	at          int // start of the search for the next word
	depth       int // open parentheses at this position
	depthAtWord int
}

// word returns the next bare word and its position.
func (s *scanner) word() (word string, start int, ok bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case isWordByte(c):
			start = s.at
			for s.at < len(s.text) && isWordByte(s.text[s.at]) {
				s.at++
			}
			s.depthAtWord = s.depth
			return s.text[start:s.at], start, true
		case c == '\'' || c == '"' || c == '`':
			s.skipQuoted(c)
		case strings.HasPrefix(s.text[s.at:], "--"), c == '#':
			s.skipPast("\n")
		case strings.HasPrefix(s.text[s.at:], "/*"):
			s.skipPast("*/")
		default:
			switch c {
			case '(':
				s.depth++
			case ')':
				s.depth--
			}
			s.at++
		}
	}
	return "", s.at, false
}

func (s *scanner) skipQuoted(quote byte) {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			return
		}
	}
}

func (s *scanner) skipPast(end string) {
	i := strings.Index(s.text[s.at:], end)
	if i < 0 {
		s.at = len(s.text)
		return
	}
	s.at += i + len(end)
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
