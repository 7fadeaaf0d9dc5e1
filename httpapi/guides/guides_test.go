package guides_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/guides"
)

func TestGuideIsRenderedWithAnchorsAndWithoutRawHTML(t *testing.T) {
	source := "# Title\n\nFirst <script>x</script>\nline.\n\n## Part *two*\n\n| a |\n|---|\n| held funds |\n"
	l, err := guides.New([]guides.Source{{Name: "one", Markdown: []byte(source)}})
	require.NoError(t, err)
	g, ok := l.Guide("one")
	require.True(t, ok)
	require.Equal(t, "Title", g.Title)
	require.Equal(t, "First x line.", g.Summary)
	require.Equal(t, []guides.Heading{{Anchor: "part-two", Text: "Part two"}}, g.Contents)
	require.Contains(t, g.HTML, `<h2 id="part-two">`)
	require.NotContains(t, g.HTML, "<script")
	require.Equal(t, "part-two", l.Search("FUNDS held")[0].Anchor)
	require.Empty(t, l.Search("  "))
	require.Empty(t, l.Search("funds nowhere"))
}

func TestGuideWithoutATitleIsRefused(t *testing.T) {
	_, err := guides.New([]guides.Source{{Name: "one", Markdown: []byte("text")}})
	require.ErrorContains(t, err, "guide one")
}

func TestSearchIsBounded(t *testing.T) {
	l, err := guides.New([]guides.Source{{Name: "one", Markdown: []byte("# T\n" + strings.Repeat("\nword\n", 80))}})
	require.NoError(t, err)
	require.Len(t, l.Search("word"), 50)
	require.Len(t, []rune(guides.Trim(strings.Repeat("é", 500)+"\xff")), guides.MaxQuery)
}
