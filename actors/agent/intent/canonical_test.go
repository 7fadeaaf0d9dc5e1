package intent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/agent/intent"
)

// The samples of RFC 8785: section 3.2.2 with its result in 3.2.3, and the order of names of 3.2.3.
func TestSamplesOfRFC8785(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		given := []byte(value)
		got, err := intent.Canonical(given)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.Equal(t, value, string(given), "the value is not changed")
		again, err := intent.Canonical(got)
		require.NoError(t, err)
		require.Equal(t, want, string(again))
	}
	f(`{
		"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		"literals": [null, true, false]
	}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`)
	f(`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
		"\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
		`{"\r":"Carriage Return","1":"One","`+"\u0080"+`":"Control","ö":"Latin Small Letter O With Diaeresis",`+
			`"€":"Euro Sign","😀":"Emoji: Grinning Face","`+"\ufb33"+`":"Hebrew Letter Dalet With Dagesh"}`)
	f(` [ ] `, `[]`)
	f(`{"":{"b":1,"a":{}}}`, `{"":{"a":{},"b":1}}`)
	f(`"\b\t\n\f\r\u001f\u007f\u2028<>&"`, `"\b\t\n\f\r\u001f`+"\u007f\u2028"+`<>&"`)
}

// Appendix B of RFC 8785: doubles by their bits.
func TestNumbersOfRFC8785(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000", 0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23", 0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001", 0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		double := math.Float64frombits(bits)
		got, err := intent.Canonical([]byte(strconv.FormatFloat(double, 'e', 20, 64)))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%x", bits)
		require.Equal(t, want, naiveNumber(double), "%x", bits)
	}
}

func TestInvalidJSONHasNoCanonicalForm(t *testing.T) {
	for _, value := range []string{"", " ", "{", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\ud800"`, "\"\xff\"",
		"9007199254740992", "-9007199254740992", `{"a":[9007199254740993]}`, "1e309", "-1e309", "1 2", "01", "NaN",
		`{"a":1,}`,
		"[1]x", strings.Repeat("[", intent.MaxDepth+1) + strings.Repeat("]", intent.MaxDepth+1)} {
		_, err := intent.Canonical([]byte(value))
		require.Error(t, err, value)
	}
	for _, value := range []string{"9007199254740991", "-9007199254740991",
		strings.Repeat("[", intent.MaxDepth) + strings.Repeat("]", intent.MaxDepth)} {
		got, err := intent.Canonical([]byte(value))
		require.NoError(t, err)
		require.Equal(t, value, string(got))
	}
}

// Random values, written with random white space and escapes, have the canonical form of a second,
// independent implementation.
func TestTwoCanonicalisersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			value := randomValue(t, 4)
			var written strings.Builder
			writeLoosely(t, &written, value)
			got, err := intent.Canonical([]byte(written.String()))
			require.NoError(t, err, written.String())
			require.Equal(t, naiveCanonical(value), string(got), written.String())
		}
	})
}

func randomValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind == 2:
		return randomNumber(t)
	case kind <= 4 || depth == 0:
		return randomString(t)
	case kind == 5:
		array := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range array {
			array[i] = randomValue(t, depth-1)
		}
		return array
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		object[randomString(t)] = randomValue(t, depth-1)
	}
	return object
}

func randomNumber(t *rapid.T) float64 {
	switch rapid.IntRange(0, 2).Draw(t, "number") {
	case 0:
		return float64(rapid.Int64Range(-1<<53+1, 1<<53-1).Draw(t, "integer"))
	case 1:
		return float64(rapid.IntRange(-1000, 1000).Draw(t, "small")) / 8
	}
	if double := math.Float64frombits(rapid.Uint64().Draw(t, "bits")); !math.IsNaN(double) && !math.IsInf(double, 0) {
		return double
	}
	return 0
}

func randomString(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(0, 0x7f), rapid.Int32Range(0x80, 0xd7ff),
		rapid.Int32Range(0xe000, 0xffff), rapid.Int32Range(0x10000, 0x10ffff)), 0, 4).Draw(t, "text"))
}

// writeLoosely writes a value in one of its many JSON spellings.
func writeLoosely(t *rapid.T, b *strings.Builder, value any) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n"}).Draw(t, "space")) }
	space()
	defer space()
	switch v := value.(type) {
	case float64:
		verb := rapid.SampledFrom([]byte("eEg")).Draw(t, "verb")
		text := strconv.FormatFloat(v, verb, -1, 64)
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 && rapid.Bool().Draw(t, "plain") {
			text = strconv.FormatFloat(v, 'f', 0, 64)
		} else if !strings.ContainsAny(text, "eE.") {
			text += ".0"
		}
		b.WriteString(text)
	case string:
		writeString(t, b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeLoosely(t, b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		first := true
		for name, item := range v {
			if !first {
				b.WriteByte(',')
			}
			first = false
			writeString(t, b, name)
			b.WriteByte(':')
			writeLoosely(t, b, item)
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
}

func writeString(t *rapid.T, b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, r := range text {
		if r < 0x20 || r == '"' || r == '\\' || rapid.IntRange(0, 3).Draw(t, "escape") == 0 {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, `\u%04X`, unit)
			}
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
}

// naiveCanonical is an independent canonicaliser that works on values, not text: it sorts names by
// UTF-16 and writes numbers as ECMAScript does.
func naiveCanonical(value any) string {
	switch v := value.(type) {
	case float64:
		return naiveNumber(v)
	case string:
		return naiveString(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = naiveCanonical(v[i])
		}
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		for i, name := range names {
			names[i] = naiveString(name) + ":" + naiveCanonical(v[name])
		}
		return "{" + strings.Join(names, ",") + "}"
	}
	return map[any]string{nil: "null", true: "true", false: "false"}[value]
}

func naiveString(text string) string {
	short := map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`}
	var b strings.Builder
	for _, r := range text {
		switch escaped := short[r]; {
		case escaped != "":
			b.WriteString(escaped)
		case r < 0x20:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// naiveNumber implements Number::toString of ECMAScript: the shortest digits, with the point placed
// by their exponent n.
func naiveNumber(double float64) string {
	if double == 0 {
		return "0"
	}
	text := strconv.FormatFloat(math.Abs(double), 'e', -1, 64)
	mantissa, power, _ := strings.Cut(text, "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	exponent, _ := strconv.Atoi(power)
	k, n, sign := len(digits), exponent+1, ""
	if double < 0 {
		sign = "-"
	}
	switch {
	case k <= n && n <= 21:
		return sign + digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return sign + digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return sign + "0." + strings.Repeat("0", -n) + digits
	}
	if k > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%s%se%+d", sign, digits, n-1)
}

// FuzzCanonical checks that a value and its canonical form are equal, and that canonicalising twice
// changes nothing.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e3,-0,"\u00e9"],"a":{}}`))
	f.Add([]byte(`9007199254740993`))
	f.Fuzz(func(t *testing.T, value []byte) {
		first, err := intent.Canonical(value)
		if err != nil {
			return
		}
		second, err := intent.Canonical(first)
		if err != nil { // 1e20 is written out as an integer, which is out of range as such
			require.ErrorIs(t, err, intent.ErrNumber)
			return
		}
		require.True(t, bytes.Equal(first, second))
		var before, after any
		require.NoError(t, json.Unmarshal(value, &before))
		require.NoError(t, json.Unmarshal(first, &after))
		require.Equal(t, before, after)
	})
}
