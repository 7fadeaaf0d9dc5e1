package network

import "slices"

// maxSkipped is how deep arrays and objects may lie in a value that is read over.
const maxSkipped = 16

// skip reads over one value, whatever its type, as strictly as one that is kept: no name twice, no integer beyond int64, no
// U+0000. It may allocate.
func (l *lexer) skip(levels int) {
	switch c := l.peek(); {
	case levels == 0:
		l.fail()
	case c == '"':
		l.string()
	case c == '{':
		l.skipObject(levels - 1)
	case c == '[':
		l.skipArray(levels - 1)
	case c == '-' || isDigit(c):
		l.skipNumber()
	case !l.literal("true") && !l.literal("false") && !l.literal("null"):
		l.fail()
	}
}

func (l *lexer) skipObject(levels int) {
	var names []string
	for first := true; l.more(first); first = false {
		name := l.string()
		if slices.Contains(names, name) {
			l.fail()
			return
		}
		names = append(names, name)
		if l.expect(':'); l.bad {
			return
		}
		if l.skip(levels); l.bad {
			return
		}
	}
}

func (l *lexer) skipArray(levels int) {
	l.expect('[')
	if l.peek() == ']' {
		l.at++
		return
	}
	for !l.bad {
		l.skip(levels)
		if l.peek() == ']' {
			l.at++
			return
		}
		l.expect(',')
	}
}

func (l *lexer) skipNumber() {
	if l.wholeNumber() {
		l.integer()
		return
	}
	l.take('-')
	if !l.take('0') {
		l.digits()
	}
	if l.take('.') {
		l.digits()
	}
	if l.take('e') || l.take('E') {
		if !l.take('+') {
			l.take('-')
		}
		l.digits()
	}
}

// take steps over one byte if it is next; white space is not skipped.
func (l *lexer) take(c byte) bool {
	if l.at == len(l.text) || l.text[l.at] != c {
		return false
	}
	l.at++
	return true
}

// digits takes one digit or more.
func (l *lexer) digits() {
	start := l.at
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		l.at++
	}
	if l.at == start {
		l.fail()
	}
}
