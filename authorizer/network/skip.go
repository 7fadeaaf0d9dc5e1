package network

import "slices"

// maxSkipped bounds the nesting of a skipped value.
const maxSkipped = 16

// skipValue skips a value of any type as strictly as a read one: no duplicate name, no integer
// beyond int64, no U+0000. It may allocate. A fault, and nesting deeper than levels, sets bad.
func (l *lexer) skipValue(levels int) {
	switch c := l.peek(); {
	case levels == 0:
		l.markBad()
	case c == '"':
		l.readString()
	case c == '{':
		l.skipObject(levels - 1)
	case c == '[':
		l.skipArray(levels - 1)
	case c == '-' || isDigit(c):
		l.skipNumber()
	case !l.takeLiteral("true") && !l.takeLiteral("false") && !l.takeLiteral("null"):
		l.markBad()
	}
}

// skipObject skips an object. A duplicate name or a fault sets bad.
func (l *lexer) skipObject(levels int) {
	var names []string
	for first := true; l.nextMember(first); first = false {
		name := l.readString()
		if slices.Contains(names, name) {
			l.markBad()
			return
		}
		names = append(names, name)
		if l.expect(':'); l.bad {
			return
		}
		if l.skipValue(levels); l.bad {
			return
		}
	}
}

// skipArray skips an array whose elements may nest levels deep. A malformed or deeper one marks the
// text bad.
func (l *lexer) skipArray(levels int) {
	l.expect('[')
	if l.peek() == ']' {
		l.at++
		return
	}
	for !l.bad {
		l.skipValue(levels)
		if l.peek() == ']' {
			l.at++
			return
		}
		l.expect(',')
	}
}

// skipNumber skips a number of JSON. An integer beyond int64 or a fault sets bad.
func (l *lexer) skipNumber() {
	if l.wholeNumber() {
		l.readInteger()
		return
	}
	l.takeByte('-')
	if !l.takeByte('0') {
		l.skipDigits()
	}
	if l.takeByte('.') {
		l.skipDigits()
	}
	if l.takeByte('e') || l.takeByte('E') {
		if !l.takeByte('+') {
			l.takeByte('-')
		}
		l.skipDigits()
	}
}

// takeByte consumes one byte if it is next, without skipping white space.
func (l *lexer) takeByte(c byte) bool {
	if l.at == len(l.text) || l.text[l.at] != c {
		return false
	}
	l.at++
	return true
}

// skipDigits skips one or more digits.
func (l *lexer) skipDigits() {
	start := l.at
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		l.at++
	}
	if l.at == start {
		l.markBad()
	}
}
