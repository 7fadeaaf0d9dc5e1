package network

// skipValue skips a value of any type and depth. It checks the grammar of JSON alone: names may
// repeat, and numbers may have any size. It may allocate. A fault sets bad.
func (l *lexer) skipValue() {
	var open []byte // the closing brackets of the objects and arrays around, the outermost first
	for !l.bad {
		if closing := l.skipBegin(); closing != 0 {
			open = append(open, closing)
			if l.peek() != closing {
				l.skipName(closing)
				continue
			}
		}
		for len(open) > 0 && l.peek() == open[len(open)-1] {
			l.at++
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return
		}
		l.expect(',')
		l.skipName(open[len(open)-1])
	}
}

// skipBegin skips a text, a number or a literal, or the opening bracket of an object or array. It
// returns the closing bracket of those, and otherwise 0.
func (l *lexer) skipBegin() (closing byte) {
	switch c := l.peek(); {
	case c == '{':
		l.at++
		return '}'
	case c == '[':
		l.at++
		return ']'
	case c == '"':
		l.readString()
	case c == '-' || isDigit(c):
		l.skipNumber()
	case !l.takeLiteral("true") && !l.takeLiteral("false") && !l.takeLiteral("null"):
		l.markBad()
	}
	return 0
}

// skipName skips the name of a member and its colon, in an object.
func (l *lexer) skipName(closing byte) {
	if closing == '}' {
		l.readString()
		l.expect(':')
	}
}

// skipNumber skips a number of JSON. A fault sets bad.
func (l *lexer) skipNumber() {
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
