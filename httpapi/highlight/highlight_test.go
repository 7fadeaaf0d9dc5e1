package highlight_test

import (
	"html"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/httpapi/highlight"
)

var languages = []string{"json", "sh", "python", "typescript", "ts", "go", "unknown", ""}

func TestTokensHaveTheirClass(t *testing.T) {
	for _, c := range []struct{ language, code, want string }{
		{"json", `{"a": "b", "n": -12, "o": null}`,
			`{<span class="k">&#34;a&#34;</span>: <span class="s">&#34;b&#34;</span>, ` +
				`<span class="k">&#34;n&#34;</span>: <span class="n">-12</span>, <span class="k">&#34;o&#34;</span>: ` +
				`<span class="k">null</span>}`},
		{"sh", "curl -d '{\"a\": 1}' x # sends\n", "curl -d <span class=\"s\">&#39;{&#34;a&#34;: 1}&#39;</span> x" +
			"<span class=\"c\"> # sends</span>\n"},
		{"python", "import os # <b>", `<span class="k">import</span> os<span class="c"> # &lt;b&gt;</span>`},
		{"ts", "const a = `${b}`; // 1", "<span class=\"k\">const</span> a = <span class=\"s\">`${b}`</span>; " +
			`<span class="c">// 1</span>`},
		{"go", "return 30", `<span class="k">return</span> <span class="n">30</span>`},
		{"unknown", "return <30>", "return &lt;30&gt;"},
	} {
		require.Equal(t, c.want, string(highlight.Code(c.language, c.code)))
	}
}

// Code of any form keeps its text, and nothing of it becomes an element.
func TestMarksChangeNoText(t *testing.T) {
	span := regexp.MustCompile(`<span class="[a-z]">|</span>`)
	rapid.Check(t, func(t *rapid.T) {
		language := rapid.SampledFrom(languages).Draw(t, "language")
		code := rapid.StringOf(rapid.RuneFrom([]rune("ab1\"'`\\#/ \n<>&:{}.$é-"))).Draw(t, "code")
		text := span.ReplaceAllString(string(highlight.Code(language, code)), "")
		require.NotContains(t, text, "<")
		require.Equal(t, code, html.UnescapeString(text))
	})
}
