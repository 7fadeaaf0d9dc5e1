// Package guides renders the Markdown guides of the product to HTML, once, at the start. It is
// independent of HTTP: a Library returns pages by name and by search, and the server of the pages
// sets the headers.
//
//	guides.go   a library and the sections of a guide
//	render.go   code blocks and tables as HTML
//	search.go   the search
package guides

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Guide is one rendered guide.
type Guide struct {
	Name, Title string
	Summary     string    // the beginning of the first paragraph
	Contents    []Heading // of the second level
	HTML        string    // goldmark drops raw HTML and escapes the rest
	passages    []Passage
}

// Heading is a heading with the anchor of a link.
type Heading struct{ Anchor, Text string }

// Library holds every guide, in the order of their sources. It is safe for concurrent use,
// except AddPassages.
type Library struct {
	guides   []*Guide
	passages []indexed
}

// Source is the Markdown of a guide. It begins with a heading of the first level, the title.
type Source struct {
	Name     string
	Markdown []byte
}

// New renders the guides from Markdown. It fails for a guide without a heading of the first level.
func New(sources []Source) (*Library, error) {
	l := &Library{}
	for _, s := range sources {
		markdown := goldmark.New(goldmark.WithExtensions(extension.Table),
			goldmark.WithParserOptions(parser.WithAutoHeadingID()),
			goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&blocks{}, 100))))
		document := markdown.Parser().Parse(text.NewReader(s.Markdown))
		g := &Guide{Name: s.Name}
		if err := g.readSections(document, s.Markdown); err != nil {
			return nil, fmt.Errorf("guide %s: %w", s.Name, err)
		}
		var page bytes.Buffer
		if err := markdown.Renderer().Render(&page, s.Markdown, document); err != nil {
			return nil, fmt.Errorf("guide %s: %w", s.Name, err)
		}
		g.HTML = page.String()
		l.guides = append(l.guides, g)
		l.AddPassages(g.passages...)
	}
	return l, nil
}

// readSections collects the title, the headings and the searchable passages. It fails for a guide
// without a heading of the first level.
func (g *Guide) readSections(document ast.Node, source []byte) error {
	at := Heading{}
	anchors := map[string]bool{}
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		plain := plainText(node, source)
		switch n := node.(type) {
		case *ast.Heading:
			anchor, _ := n.AttributeString("id")
			id, _ := anchor.([]byte)
			at = Heading{Anchor: string(id), Text: plain}
			anchors[at.Anchor] = true
			if n.Level == 1 && g.Title == "" {
				g.Title = plain
			} else if n.Level == 2 {
				g.Contents = append(g.Contents, at)
			}
			continue
		case *extast.Table:
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				if row.Kind() == extast.KindTableHeader {
					continue
				}
				g.passages = append(g.passages, g.readRow(row, source, at, anchors))
			}
			continue
		case *ast.Paragraph:
			if g.Summary == "" {
				g.Summary = cutText(plain)
			}
		}
		g.passages = append(g.passages, Passage{Page: g.Name, Title: g.Title, Anchor: at.Anchor, Heading: at.Text,
			Text: plain})
	}
	if g.Title == "" {
		return fmt.Errorf("no heading of the first level")
	}
	return nil
}

// rowName is a code, a parameter or a variable that a row of a table is about.
var rowName = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]{4,})(?:, |$)`)

// readRow returns the passage of a table's row. A row whose first or second cell begins with a name
// in code, or with a name of several words, gets that name as its anchor, unless another has it.
func (g *Guide) readRow(row ast.Node, source []byte, at Heading, anchors map[string]bool) Passage {
	p := Passage{Page: g.Name, Title: g.Title, Anchor: at.Anchor, Heading: at.Text, Text: plainText(row, source)}
	first := row.FirstChild()
	for _, cell := range []ast.Node{first, first.NextSibling()} {
		if cell == nil || cell.FirstChild() == nil {
			continue
		}
		names := plainText(cell, source)
		name := strings.TrimSuffix(rowName.FindString(names), ", ")
		if name == "" || !strings.Contains(name, "_") && cell.FirstChild().Kind() != ast.KindCodeSpan {
			continue
		}
		p.Heading, p.Names = names, strings.Split(names, ", ")
		if !anchors[name] {
			anchors[name], p.Anchor = true, name
			row.SetAttributeString("id", []byte(name))
		}
		return p
	}
	return p
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
