// Package guides renders the Markdown guides of the product to HTML, once, at the start. It is
// independent of HTTP: a Library returns pages by name and by search, and the server of the pages
// sets the headers.
package guides

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Limits of a search.
const (
	MaxQuery = 100 // runes of a query
	maxFound = 50  // results on a page
	maxText  = 200 // runes of a result or a summary
)

// Guide is one rendered guide.
type Guide struct {
	Name, Title string
	Summary     string    // the beginning of the first paragraph
	Contents    []Heading // of the second level
	HTML        string    // goldmark drops raw HTML and escapes the rest
	passages    []Result
}

// Heading is a heading with the anchor of a link.
type Heading struct{ Anchor, Text string }

// Result is a heading or a paragraph that holds every word of a query.
type Result struct{ Guide, Title, Anchor, Heading, Text string }

// Library holds every guide, in the order of their sources. It is safe for concurrent use,
// except AddPassages.
type Library struct {
	guides []*Guide
	beyond []Result
}

// AddPassages makes Search find passages of other pages, after those of the guides. The Guide of
// such a passage is the page's path below the guides. Call AddPassages before the first Search:
// it is not safe for concurrent use.
func (l *Library) AddPassages(passages ...Result) { l.beyond = append(l.beyond, passages...) }

// Source is the Markdown of a guide. It begins with a heading of the first level, the title.
type Source struct {
	Name     string
	Markdown []byte
}

// New renders the guides from Markdown. It fails for a guide without a heading of the first level.
func New(sources []Source) (*Library, error) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	l := &Library{}
	for _, s := range sources {
		name, source := s.Name, s.Markdown
		document := markdown.Parser().Parse(text.NewReader(source))
		g := &Guide{Name: name}
		if err := g.readSections(document, source); err != nil {
			return nil, fmt.Errorf("guide %s: %w", name, err)
		}
		var page bytes.Buffer
		if err := markdown.Renderer().Render(&page, source, document); err != nil {
			return nil, fmt.Errorf("guide %s: %w", name, err)
		}
		scrolled := strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>",
			"</table></div>",
			"<pre>", `<pre tabindex="0">`)
		g.HTML = scrolled.Replace(page.String())
		l.guides = append(l.guides, g)
	}
	return l, nil
}

// readSections collects the title, the headings and the searchable passages. It fails for a guide
// without a heading of the first level.
func (g *Guide) readSections(document ast.Node, source []byte) error {
	at := Heading{}
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		plain := plainText(node, source)
		if heading, ok := node.(*ast.Heading); ok {
			anchor, _ := heading.AttributeString("id")
			id, _ := anchor.([]byte)
			at = Heading{Anchor: string(id), Text: plain}
			if heading.Level == 1 && g.Title == "" {
				g.Title = plain
			} else if heading.Level == 2 {
				g.Contents = append(g.Contents, at)
			}
		}
		if _, ok := node.(*ast.Paragraph); ok && g.Summary == "" {
			g.Summary = cutText(plain)
		}
		g.passages = append(g.passages, Result{Guide: g.Name, Title: g.Title, Anchor: at.Anchor, Heading: at.Text,
			Text: plain})
	}
	if g.Title == "" {
		return fmt.Errorf("no heading of the first level")
	}
	return nil
}

// plainText returns the text under a node without its marks.
func plainText(node ast.Node, source []byte) string {
	var plain strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walk returns no error of its own
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			plain.Write(n.Value(source))
			if n.SoftLineBreak() {
				plain.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			plain.Write(n.Lines().Value(source))
		default:
			if n.Type() == ast.TypeBlock && plain.Len() > 0 {
				plain.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return plain.String()
}

// cutText cuts a text after maxText runes and adds an ellipsis. A shorter text is unchanged.
func cutText(text string) string {
	runes := []rune(text)
	if len(runes) <= maxText {
		return text
	}
	return string(runes[:maxText]) + "…"
}

// All returns every guide in order.
func (l *Library) All() []*Guide { return l.guides }

// Guide returns a guide by its name.
func (l *Library) Guide(name string) (*Guide, bool) {
	at := slices.IndexFunc(l.guides, func(g *Guide) bool { return g.Name == name })
	if at < 0 {
		return nil, false
	}
	return l.guides[at], true
}

// Trim cuts a query to MaxQuery runes and makes it valid UTF-8.
func Trim(query string) string {
	runes := []rune(strings.ToValidUTF8(strings.TrimSpace(query), ""))
	return string(runes[:min(len(runes), MaxQuery)])
}

// Search returns the passages that hold every word of a query, at most 50, in the order of the
// guides.
func (l *Library) Search(query string) (found []Result) {
	words := strings.Fields(strings.ToLower(Trim(query)))
	if len(words) == 0 {
		return nil
	}
	for _, g := range l.guides {
		found = appendMatching(found, g.passages, words)
	}
	return appendMatching(found, l.beyond, words)
}

// appendMatching appends the passages that hold every word, until maxFound are found.
func appendMatching(found, passages []Result, words []string) []Result {
	for _, p := range passages {
		if len(found) == maxFound {
			break
		}
		held := strings.ToLower(p.Title + " " + p.Heading + " " + p.Text)
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(held, word) }) {
			continue
		}
		p.Text = cutText(p.Text)
		found = append(found, p)
	}
	return found
}
