// Package highlight marks the strings, numbers, keywords and comments of code in HTML. It knows
// JSON, shell, Python, TypeScript and Go. It reads tokens and no grammar: code of any form has a
// result with the same text.
package highlight

import (
	"html/template"
	"regexp"
	"strings"
)

// classes are the classes of the spans, by the group of a pattern that has matched. They stand for
// comments, strings, numbers, and keys or keywords.
var classes = []string{"", "c", "s", "n", "k"}

const (
	hashComment  = `((?:^|\s)#[^\n]*)`
	slashComment = `(//[^\n]*)`
	none         = `(\z\A)` // matches in no code that is not empty
	quoted       = `"(?:\\.|[^"\\])*"`
	number       = `(\b\d[\d_]*(?:\.\d+)?\b)`
)

// patterns are the tokens of each language, in the order of classes. Text between them has no mark.
var patterns = map[string]*regexp.Regexp{
	"json": regexp.MustCompile(none + `|(` + quoted + `)|(-?` + number[1:] + `|(true|false|null)`),
	"sh":   regexp.MustCompile(hashComment + `|(` + quoted + `|'[^']*')|` + none + `|` + none),
	"python": regexp.MustCompile(hashComment + `|([bf]?` + quoted + `|[bf]?'(?:\\.|[^'\\])*')|` + number + `|` +
		keywords("and as assert async await class def elif else except False finally for from if import in is lambda None "+
			"not or pass raise return True try while with")),
	"typescript": regexp.MustCompile(slashComment + `|(` + quoted + `|'(?:\\.|[^'\\])*'|` +
		"`(?:\\\\.|[^`\\\\])*`" + `)|` +
		number + `|` +
		keywords("as async await break case catch class const continue else export false for from function if "+
			"import in instanceof interface let new null of return throw true try type typeof undefined while")),
	"go": regexp.MustCompile(slashComment + `|(` + quoted + "|`[^`]*`" + `|'(?:\\.|[^'\\])+')|` + number + `|` +
		keywords("break case chan const continue default defer else false for func go if import interface map nil package "+
			"range return select struct switch true type var")),
}

// names are other names of the languages.
var names = map[string]string{"ts": "typescript", "bash": "sh", "curl": "sh", "py": "python"}

// keywords returns a pattern that matches each word of a list as a whole.
func keywords(list string) string { return `\b(` + strings.ReplaceAll(list, " ", "|") + `)\b` }

// Code returns code as HTML. Code in an unknown language has no marks.
func Code(language, code string) template.HTML {
	if name, ok := names[language]; ok {
		language = name
	}
	pattern := patterns[language]
	if pattern == nil {
		return template.HTML(template.HTMLEscapeString(code))
	}
	var page strings.Builder
	done := 0
	for _, found := range pattern.FindAllStringSubmatchIndex(code, -1) {
		for group := 1; group < len(classes); group++ {
			start, end := found[2*group], found[2*group+1]
			if start < 0 {
				continue
			}
			class := classes[group]
			if language == "json" && class == "s" && strings.HasPrefix(strings.TrimLeft(code[end:], " "), ":") {
				class = "k"
			}
			page.WriteString(template.HTMLEscapeString(code[done:start]) + `<span class="` + class + `">` +
				template.HTMLEscapeString(code[start:end]) + `</span>`)
			done = end
		}
	}
	page.WriteString(template.HTMLEscapeString(code[done:]))
	return template.HTML(page.String())
}
