package network

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// lexer parses the tokens of one JSON text in place. It allocates nothing: strings alias the text,
// and a string with escapes is unescaped over itself, which destroys the text. The text must be
// valid UTF-8.
//
// Integers are the only numbers that it reads; it can skip others. After the first fault bad stays
// set and every read returns zero.
//
// JSON permits U+0000 and a lone surrogate as escapes, which no field may have: they set impure. A
// lone surrogate reads as U+FFFD.
type lexer struct {
	text   []byte
	at     int
	bad    bool
	impure bool
}

func (l *lexer) markBad() { l.bad = true }

// peek skips white space and returns the next byte, 0 at the end.
func (l *lexer) peek() byte {
	for l.at < len(l.text) {
		c := l.text[l.at]
		if c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		l.at++
	}
	return 0
}

// expect consumes one byte of punctuation.
func (l *lexer) expect(c byte) {
	if l.peek() != c || l.bad {
		l.markBad()
		return
	}
	l.at++
}

// nextMember moves to the next member of an object: over the opening brace the first time, later
// over a comma. It returns false after the closing brace or a fault. A fault sets bad.
func (l *lexer) nextMember(first bool) bool {
	if first {
		l.expect('{')
		if l.peek() == '}' {
			l.at++
			return false
		}
		return !l.bad
	}
	if l.peek() == '}' {
		l.at++
		return false
	}
	l.expect(',')
	return !l.bad
}

// takeLiteral consumes a word such as null when it is next.
func (l *lexer) takeLiteral(word string) bool {
	l.peek()
	if len(l.text)-l.at < len(word) || string(l.text[l.at:l.at+len(word)]) != word {
		return false
	}
	l.at += len(word)
	return true
}

// readBool reads true or false. Anything else marks the text bad and returns false.
func (l *lexer) readBool() bool {
	if l.takeLiteral("true") {
		return true
	}
	if !l.takeLiteral("false") {
		l.markBad()
	}
	return false
}

// readInteger reads a number without fraction and exponent. One that does not fit an int64 is the
// nearest that does. Any other value sets bad and returns 0.
func (l *lexer) readInteger() int64 {
	negative := l.peek() == '-'
	if negative {
		l.at++
	}
	start, limit := l.at, uint64(1)<<63-1
	if negative {
		limit++
	}
	n, over := uint64(0), false
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		d := uint64(l.text[l.at] - '0')
		over = over || n > (limit-d)/10
		n = n*10 + d
		l.at++
	}
	if over {
		n = limit
	}
	digits := l.at - start
	if digits == 0 || digits > 1 && l.text[start] == '0' || l.hasFraction() {
		l.markBad()
		return 0
	}
	if negative {
		return -int64(n)
	}
	return int64(n)
}

// hasFraction reports whether the number continues with a fraction or an exponent.
func (l *lexer) hasFraction() bool {
	if l.at == len(l.text) {
		return false
	}
	c := l.text[l.at]
	return c == '.' || c|0x20 == 'e'
}

// wholeNumber reports whether the next value is a number without fraction and exponent. readInteger
// may still refuse its form.
func (l *lexer) wholeNumber() bool {
	if c := l.peek(); c != '-' && !isDigit(c) {
		return false
	}
	end := l.at + 1
	for end < len(l.text) && isDigit(l.text[end]) {
		end++
	}
	ahead := lexer{text: l.text, at: end}
	return !ahead.hasFraction()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// readString reads a string. It aliases the lexer's text, in which escapes are replaced in place. A
// fault sets bad and returns "".
func (l *lexer) readString() string {
	if l.expect('"'); l.bad {
		return ""
	}
	start := l.at
	l.at += plainLength(l.text[start:])
	switch {
	case l.at == len(l.text):
	case l.text[l.at] == '"':
		l.at++
		return unsafeString(l.text[start : l.at-1])
	case l.text[l.at] == '\\':
		return l.readEscaped(start)
	}
	l.markBad()
	return ""
}

// plainLength returns the number of bytes before the first quote, backslash or control character.
// It examines eight bytes at a time: the lowest byte in which a subtraction borrows is such a byte,
// because borrows only spread upwards.
func plainLength(text []byte) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	at := 0
	for ; len(text)-at >= 8; at += 8 {
		w := binary.LittleEndian.Uint64(text[at:])
		quote, backslash := w^each*'"', w^each*'\\'
		if found := ((quote-each)&^quote | (backslash-each)&^backslash | (w-each*' ')&^w) & top; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(text) && text[at] != '"' && text[at] != '\\' && text[at] >= ' ' {
		at++
	}
	return at
}

// readEscaped reads the rest of a string from its first backslash and replaces the escapes in
// place: an unescaped character is never longer than its escape. A fault sets bad and returns "".
func (l *lexer) readEscaped(start int) string {
	end := l.at
	for l.at < len(l.text) {
		c := l.text[l.at]
		l.at++
		switch {
		case c == '"':
			return unsafeString(l.text[start:end])
		case c < ' ':
			l.markBad()
			return ""
		case c != '\\':
			l.text[end] = c
			end++
		default:
			r := l.readEscape()
			if l.bad {
				return ""
			}
			end += utf8.EncodeRune(l.text[end:], r)
		}
	}
	l.markBad()
	return ""
}

// readEscape reads an escape after its backslash. U+0000 and a lone surrogate set impure.
func (l *lexer) readEscape() rune {
	if l.at == len(l.text) {
		l.markBad()
		return 0
	}
	c := l.text[l.at]
	l.at++
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		return l.codePoint()
	}
	l.markBad()
	return 0
}

// codePoint reads the four digits of a \u escape, and of a second one for a surrogate pair. U+0000
// and a lone surrogate set impure; the surrogate is U+FFFD.
func (l *lexer) codePoint() rune {
	r := l.hex4()
	if utf16.IsSurrogate(r) {
		high, next := r, l.at
		r = utf8.RuneError
		if l.takeByte('\\') && l.takeByte('u') {
			r = utf16.DecodeRune(high, l.hex4())
		}
		if r == utf8.RuneError {
			l.at, l.impure = next, true
		}
	}
	l.impure = l.impure || r == 0
	return r
}

// hex4 reads the four hexadecimal digits of a \u escape. Fewer or other characters mark the text
// bad and return 0.
func (l *lexer) hex4() rune {
	if len(l.text)-l.at < 4 {
		l.markBad()
		return 0
	}
	r := rune(0)
	for _, c := range l.text[l.at : l.at+4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			l.markBad()
			return 0
		}
		r = r<<4 | rune(c)
	}
	l.at += 4
	return r
}

// atEnd reports whether the whole text was read without a fault.
func (l *lexer) atEnd() bool { return l.peek() == 0 && l.at == len(l.text) && !l.bad }

func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

const hexDigits = "0123456789abcdef"

// appendQuoted appends s, valid UTF-8, as a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// unsafeBytes returns the bytes of a string. They may be written only when the string aliases the
// lexer's text.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
