package guides_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/guides"
)

// render returns a library of one guide, and the guide.
func render(t *testing.T, source string) (*guides.Library, *guides.Guide) {
	t.Helper()
	l, err := guides.New([]guides.Source{{Name: "one", Markdown: []byte(source)}})
	require.NoError(t, err)
	g, ok := l.Guide("one")
	require.True(t, ok)
	return l, g
}

func TestGuideIsRenderedWithAnchorsAndWithoutRawHTML(t *testing.T) {
	l, g := render(t, "# Title\n\nFirst <script>x</script>\nline.\n\n## Part *two*\n\n| a |\n|---|\n| held funds |\n")
	require.Equal(t, "Title", g.Title)
	require.Equal(t, "First x line.", g.Summary)
	require.Equal(t, []guides.Heading{{Anchor: "part-two", Text: "Part two"}}, g.Contents)
	require.Contains(t, g.HTML, `<h2 id="part-two">`)
	require.NotContains(t, g.HTML, "<script")
	require.Equal(t, "part-two", l.Search("FUNDS held")[0].Anchor)
	require.Empty(t, l.Search("  "))
	require.Empty(t, l.Search("nowhere"))
}

func TestGuideWithoutATitleIsRefused(t *testing.T) {
	_, err := guides.New([]guides.Source{{Name: "one", Markdown: []byte("text")}})
	require.ErrorContains(t, err, "guide one")
}

// Programs that follow each other are tabs, with the first one chosen. JSON after a command is its
// answer, and never a tab.
func TestProgramsThatFollowEachOtherAreTabs(t *testing.T) {
	_, g := render(t,
		"# T\n\n```python\nx = 1\n```\n```go\nx := 1\n```\n\n```sh\ncurl \"a\"\n```\n\n```json\n{\"a\": 1}\n```\n")
	require.Equal(t, 1, strings.Count(g.HTML, "<fieldset"))
	require.Contains(t, g.HTML, `<label><input type="radio" name="code-1" checked>Python</label>`+
		`<label><input type="radio" name="code-1">Go</label></fieldset>`)
	require.Contains(t, g.HTML, `<span>Shell</span>`)
	require.Contains(t, g.HTML, `<span>Answer</span>`)
	require.Contains(t, g.HTML, `{<span class="k">&#34;a&#34;</span>: <span class="n">1</span>}`)
	require.Equal(t, strings.Count(g.HTML, "<div"), strings.Count(g.HTML, "</div>"))
}

// A row about a name in code has the name as its anchor, once in a page, and each cell its column.
func TestRowsHaveAnchorsAndColumns(t *testing.T) {
	l, g := render(t,
		"# T\n\n| Variable | Use |\n|---|---|\n| A_KEY, A_PORT | <b> |\n| `gone` | ended |\n| A_KEY, B | again |\n")
	require.Equal(t, 1, strings.Count(g.HTML, `id="A_KEY"`))
	require.Contains(t, g.HTML,
		`<tr role="row" id="gone"><td role="cell" data-label="Variable"><code>gone</code></td>`)
	require.Equal(t, 1, strings.Count(g.HTML, "<tbody"))
	require.Equal(t, "A_KEY", l.Search("a_port")[0].Anchor)
	require.Equal(t, "gone", l.Search("gone")[0].Anchor)
}

func TestSearchIsBounded(t *testing.T) {
	var source strings.Builder
	source.WriteString("# T\n")
	for range 80 {
		source.WriteString("\n## Part\n\nword\n")
	}
	l, _ := render(t, source.String())
	require.Len(t, l.Search("word"), 50)
	require.Len(t, []rune(guides.Trim(strings.Repeat("é", 500)+"\xff")), guides.MaxQuery)
}

// A word counts most in a heading, and the whole name of a passage most of all. Words that no
// passage has are left out of the query.
func TestSearchRanksHeadingsAndNamesFirst(t *testing.T) {
	l, _ := render(t, "# Cards\n\nHow to mint a card.\n\n## Mint\n\nText.\n\n## Frozen\n\nA frozen card.\n")
	l.AddPassages(guides.Passage{Page: "api/mintCard", Title: "Cards", Heading: "Mint a card",
		Names: []string{"mintCard"}})
	for query, want := range map[string]string{"mintcard": "api/mintCard#", "create a card": "api/mintCard#",
		"freeze": "one#frozen", "frozen nowhere": "one#frozen"} {
		found := l.Search(query)
		require.NotEmpty(t, found, query)
		require.Equal(t, want, found[0].Page+"#"+found[0].Anchor, query)
	}
}
