package guides

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"purser/httpapi/highlight"
)

// blocks renders the code blocks and the tables of one guide. Code blocks that follow each other
// directly, in languages of programs, are one block with a tab for each.
type blocks struct {
	codes int // rendered code blocks, which number their names
}

// RegisterFuncs implements renderer.NodeRenderer.
func (b *blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, b.renderCode)
	r.Register(extast.KindTable, b.renderElement(`<div class="wide" tabindex="0"><table role="table">`,
		"</table></div>\n"))
	r.Register(extast.KindTableHeader, b.renderElement(`<thead role="rowgroup"><tr role="row">`, "</tr></thead>\n"))
	r.Register(extast.KindTableRow, b.renderRow)
	r.Register(extast.KindTableCell, b.renderCell)
}

// languageNames are the languages of code blocks by their fences.
var languageNames = map[string]string{"sh": "Shell", "json": "JSON", "python": "Python", "ts": "TypeScript",
	"go": "Go"}

// languageOf returns the language of a code block's fence; "" for another node.
func languageOf(node ast.Node, source []byte) string {
	if code, ok := node.(*ast.FencedCodeBlock); ok {
		return string(code.Language(source))
	}
	return ""
}

// isProgram reports whether a node is a code block that can be a tab.
func isProgram(node ast.Node, source []byte) bool {
	return slices.Contains([]string{"python", "ts", "go"}, languageOf(node, source))
}

// continues reports whether a node is a further tab of the block that the node before it is in.
func continues(node ast.Node, source []byte) bool {
	return isProgram(node, source) && isProgram(node.PreviousSibling(), source)
}

// renderCode writes a code block, or one tab of several.
func (b *blocks) renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := languageOf(node, source)
	b.codes++
	if !continues(node, source) {
		b.renderCodeHead(w, source, node)
	}
	fmt.Fprintf(w,
		`<pre tabindex="0" role="region" aria-label="%s, example %d"><code class="language-%s">%s</code></pre>`,
		languageNames[language], b.codes, language, highlight.Code(language, string(node.Lines().Value(source))))
	if !continues(node.NextSibling(), source) {
		_, _ = w.WriteString("</div>\n") // the buffer keeps its error for Flush
	}
	return ast.WalkContinue, nil
}

// renderCodeHead begins a code block: with the name of its language, or with a radio button for each
// tab. JSON that follows a command is its answer.
func (b *blocks) renderCodeHead(w util.BufWriter, source []byte, node ast.Node) {
	language := languageOf(node, source)
	if !continues(node.NextSibling(), source) {
		name := languageNames[language]
		if language == "json" && languageOf(node.PreviousSibling(), source) == "sh" {
			name = "Answer"
		}
		fmt.Fprintf(w, `<div class="code-block"><div class="code-head"><span>%s</span></div>`, name)
		return
	}
	_, _ = w.WriteString(`<div class="code-block tabs"><fieldset class="code-head"><legend class="hidden">Language</legend>`)
	checked := " checked"
	for tab := node; tab == node || continues(tab, source); tab = tab.NextSibling() {
		fmt.Fprintf(w, `<label><input type="radio" name="code-%d"%s>%s</label>`, b.codes, checked,
			languageNames[languageOf(tab, source)])
		checked = ""
	}
	_, _ = w.WriteString("</fieldset>")
}

// renderElement returns a renderer that writes the tags around a node.
func (b *blocks) renderElement(open, end string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := end
		if entering {
			tag = open
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	}
}

// renderRow writes a row with its anchor. The first one begins the body of the table.
func (b *blocks) renderRow(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	open, end := `<tr role="row">`, "</tr>\n"
	if id, ok := node.AttributeString("id"); ok {
		open = fmt.Sprintf(`<tr role="row" id="%s">`, id)
	}
	if node.PreviousSibling().Kind() == extast.KindTableHeader {
		open = `<tbody role="rowgroup">` + open
	}
	if node.NextSibling() == nil {
		end += "</tbody>"
	}
	return b.renderElement(open, end)(w, source, node, entering)
}

// renderCell writes a cell. A cell of the body has its column's name, which a narrow page shows.
func (b *blocks) renderCell(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	row := node.Parent()
	if row.Kind() == extast.KindTableHeader {
		return b.renderElement(`<th scope="col" role="columnheader">`, "</th>")(w, source, node, entering)
	}
	heading := row.Parent().FirstChild().FirstChild()
	for cell := row.FirstChild(); cell != node; cell = cell.NextSibling() {
		heading = heading.NextSibling()
	}
	label := util.EscapeHTML(bytes.TrimSpace([]byte(plainText(heading, source))))
	return b.renderElement(`<td role="cell" data-label="`+string(label)+`">`, "</td>\n")(w, source, node, entering)
}
