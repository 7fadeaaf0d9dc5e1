package guides

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Limits of a search.
const (
	MaxQuery = 100 // runes of a query
	maxWords = 8   // words of a query that count
	maxFound = 50  // results on a page
	maxText  = 200 // runes of a result or a summary
)

// Passage is a paragraph, a row of a table or an operation that a search finds.
type Passage struct {
	Page, Title     string // the page's path below the guides
	Anchor, Heading string
	Text            string
	Names           []string // names in code: an operation's id, an error's code, a variable
}

// indexed is a passage with its words, in small letters.
type indexed struct {
	Passage
	heading, title, text []string
	names                []string
}

// AddPassages makes Search find passages of other pages. Call AddPassages before the first Search: it
// is not safe for concurrent use.
func (l *Library) AddPassages(passages ...Passage) {
	for _, p := range passages {
		i := indexed{Passage: p, title: wordsOf(p.Title), text: wordsOf(p.Text),
			heading: wordsOf(p.Heading + " " + strings.Join(p.Names, " "))}
		for _, name := range p.Names {
			i.names = append(i.names, strings.ToLower(name))
		}
		l.passages = append(l.passages, i)
	}
}

// ignored are words of a question that say nothing about its subject.
var ignored = strings.Fields("a an and can do does for from how i in is it my of on or the to what when where which with " +
	"curl go golang javascript python typescript")

// synonyms are words of the documents, by the words that people use for them.
var synonyms = map[string][]string{
	"2fa": {"factor"}, "totp": {"factor"}, "otp": {"factor"},
	"add": {"create", "save", "register", "order"}, "bank": {"recipient", "rail"}, "block": {"freeze", "frozen"},
	"config": {"setting"}, "configuration": {"setting"}, "configure": {"setting"},
	"create": {"mint", "save", "register", "order", "add"}, "credential": {"key"}, "crypto": {"checkout", "usdc"},
	"decline": {"reason"}, "delete": {"remove", "revoke", "end"}, "disable": {"freeze", "revoke", "remove"},
	"environment": {"setting", "variable"}, "exchange": {"conversion", "rate"}, "freeze": {"frozen"},
	"fx": {"rate", "conversion"}, "hmac": {"signature"}, "idempotent": {"idempotency"}, "invoice": {"checkout"},
	"issue": {"mint", "create"}, "list": {"find"}, "lock": {"freeze", "frozen"}, "login": {"sign-in", "sign"},
	"logout": {"sign"}, "make": {"create", "mint", "add"}, "money": {"dollar"}, "new": {"create", "mint", "add"},
	"password": {"reset"}, "pause": {"freeze", "frozen"}, "payee": {"recipient", "counterparty"},
	"payment": {"payout", "checkout"}, "prod": {"live"}, "register": {"sign-up", "signup"}, "restore": {"backup"},
	"retry": {"again", "repeat"}, "return": {"refund"}, "rotate": {"rotating", "secret"}, "send": {"order", "payout"},
	"stop": {"freeze", "end"}, "team": {"member"}, "test": {"sandbox", "simulate"}, "throttle": {"rate", "limit"},
	"token": {"key"}, "top": {"deposit"}, "topup": {"deposit"}, "transaction": {"authorization", "swipe"},
	"transfer": {"payout", "wire"}, "unfreeze": {"freeze", "frozen"}, "user": {"member"}, "validate": {"verify",
		"signature"},
	"verify": {"signature", "check"}, "webhook": {"endpoint", "delivery"}, "withdraw": {"payout", "withdrawal"},
}

// wordsOf returns the distinct words of a text in small letters and without an s at the end. A name
// in code is a word, and so is each of its parts.
func wordsOf(text string) (words []string) {
	add := func(word string) {
		word = strings.ToLower(word)
		if len(word) > 3 && !strings.HasSuffix(word, "ss") {
			word = strings.TrimSuffix(word, "s")
		}
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for name := range strings.FieldsFuncSeq(text, separates) {
		add(name)
		start := 0
		for i, r := range name {
			if r == '_' || unicode.IsUpper(r) && i > 0 && unicode.IsLower(rune(name[i-1])) {
				add(strings.Trim(name[start:i], "_"))
				start = i
			}
		}
		if start > 0 {
			add(strings.Trim(name[start:], "_"))
		}
	}
	return words
}

// separates reports whether a rune stands between words.
func separates(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }

// Trim cuts a query to MaxQuery runes and makes it valid UTF-8.
func Trim(query string) string {
	runes := []rune(strings.ToValidUTF8(strings.TrimSpace(query), ""))
	return string(runes[:min(len(runes), MaxQuery)])
}

// Search returns the passages for a query, the best first, at most 50. A word counts most in a
// heading, then in the title of a page, then in the text; a synonym counts less than the word. When a
// passage has every word, no passage with fewer is returned. Of passages with the same anchor the
// best is returned.
func (l *Library) Search(query string) []Passage {
	query = strings.ToLower(Trim(query))
	var words []string
	for _, word := range strings.FieldsFunc(query, separates) {
		if of := wordsOf(word); len(of) > 0 && !slices.Contains(ignored, word) && len(words) < maxWords {
			words = append(words, of[0])
		}
	}
	type ranked struct {
		*indexed
		held  int
		score float64
	}
	var found []ranked
	most := 1
	for i := range l.passages {
		r := ranked{indexed: &l.passages[i]}
		r.held, r.score = r.rank(query, words)
		if r.held > most {
			most = r.held
		}
		found = append(found, r)
	}
	found = slices.DeleteFunc(found, func(r ranked) bool { return r.held < most })
	slices.SortStableFunc(found, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	seen, results := map[string]bool{}, []Passage{}
	for _, r := range found {
		if place := r.Page + "#" + r.Anchor; !seen[place] && len(results) < maxFound {
			seen[place] = true
			p := r.Passage
			p.Text = cutText(p.Text)
			results = append(results, p)
		}
	}
	return results
}

// Weights of a word's places, of a synonym, of a beginning of a word, and of a whole name.
const (
	inHeading, inTitle, inText         = 8, 3, 1
	asSynonym, asBeginning             = .8, .5
	minBeginning                       = 3
	wholeName, wholeHeading    float64 = 100, 20
)

// rank returns how many words of a query the passage has, and its score.
func (i *indexed) rank(query string, words []string) (held int, score float64) {
	if slices.Contains(i.names, query) {
		return maxWords, wholeName
	}
	for _, word := range words {
		best := i.weigh(word)
		for _, other := range synonyms[word] {
			best = max(best, asSynonym*i.weigh(other))
		}
		if best > 0 {
			held++
		}
		score += best
	}
	if strings.EqualFold(i.Heading, query) {
		score += wholeHeading
	}
	return held, score - float64(len(i.heading))/10 // the shorter of equal headings ranks first
}

// weigh returns the weight of a word in the passage: the sum of its places.
func (i *indexed) weigh(word string) float64 {
	return inHeading*matchOf(i.heading, word) + inTitle*matchOf(i.title, word) + inText*matchOf(i.text, word)
}

// matchOf returns 1 when a word is among others, less when one begins with it, else 0.
func matchOf(words []string, word string) (best float64) {
	for _, other := range words {
		if other == word {
			return 1
		}
		if len(word) >= minBeginning && strings.HasPrefix(other, word) {
			best = asBeginning
		}
	}
	return best
}
