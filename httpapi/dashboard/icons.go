package dashboard

import (
	"html/template"
	"strings"
)

// icons are the drawings of the navigation, of buttons and of states: paths of a square of 16.
var icons = map[string]string{
	"home":   "M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z",
	"swap":   "M2.5 5.5h10M10 3l2.5 2.5L10 8M13.5 10.5h-10M6 8l-2.5 2.5L6 13",
	"card":   "M2 4h12v8.5H2zM2 7h12",
	"people": "M6 7.5A2.2 2.2 0 1 0 6 3a2.2 2.2 0 0 0 0 4.5zM2 13c0-2.2 1.8-3.5 4-3.5s4 1.3 4 3.5M10.5 3.3a2.2 2.2 0 0 1 0 4M11.5 9.7c1.5.4 2.5 1.6 2.5 3.3",
	"agent":  "M4 6h8v6H4zM8 6V3.5M6.5 8.8v.4M9.5 8.8v.4M2.5 8v2M13.5 8v2",
	"ledger": "M3.5 2.5h9v11h-9zM5.5 5.5h5M5.5 8h5M5.5 10.5h3",
	"out":    "M4 12 12 4M6 4h6v6",
	"person": "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c0-2.5 2.2-4 5-4s5 1.5 5 4",
	"globe":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c-3.5 4-3.5 8 0 12M8 2c3.5 4 3.5 8 0 12",
	"ramp":   "M5 13V3M2.5 5.5 5 3l2.5 2.5M11 3v10M8.5 10.5 11 13l2.5-2.5",
	"link":   "M6.5 9.5l3-3M7 4.7 8.5 3.2a3 3 0 0 1 4.3 4.3L11.3 9M9 11.3l-1.5 1.5a3 3 0 0 1-4.3-4.3L4.7 7",
	"key":    "M6 12.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 7.5l5-5M11 4.5l2 2",
	"hook":   "M8 6.5a2 2 0 1 0-2-2c0 .8.4 1.4 1 1.8L4.5 10.5M4 13.5a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4zM5.7 11.8h4.6M12 13.5a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4zM9 6.3l2.2 3.9",
	"log":    "M3 4h10M3 8h10M3 12h6",
	"gear":   "M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M12.2 3.8l-1.4 1.4M5.2 10.8l-1.4 1.4",
	"check":  "m3 8.5 3.2 3.2L13 5",
	"cross":  "m4.5 4.5 7 7M11.5 4.5l-7 7",
	"ring":   "M8 12.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9z",
	"half":   "M8 13A5 5 0 1 0 8 3a5 5 0 0 0 0 10zM8 3.5v9M9.7 4v8M11.2 5v6",
	"back":   "M6 4 3 7l3 3M3 7h6.5a3 3 0 0 1 0 6H7",
	"minus":  "M3.5 8h9",
	"clock":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.5V8l2.3 1.6",
	"alert":  "M8 2.5 14 13H2zM8 6.5v3M8 11v.3",
	"info":   "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7v4M8 5v.3",
	"snow":   "M8 2v12M2.8 5l10.4 6M13.2 5 2.8 11M6.5 2.8 8 4.3l1.5-1.5M6.5 13.2 8 11.7l1.5 1.5",
	"plus":   "M8 3v10M3 8h10",
	"in":     "M12 4 4 12M10 12H4V6",
	"search": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.5 3.5",
	"menu":   "M2.5 5h11M2.5 11h11",
	"copy":   "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
	"right":  "m6 4 4 4-4 4",
}

// drawIcon returns the drawing of an icon, or nothing for an unknown name.
func drawIcon(name string) template.HTML {
	path, known := icons[name]
	if !known {
		return ""
	}
	//nolint:gosec // a constant of the table above
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="` + path + `"/></svg>`)
}

// splitCents splits an amount before the point of its decimals.
func splitCents(amount string) []string {
	if i := strings.LastIndexByte(amount, '.'); i >= 0 {
		return []string{amount[:i], amount[i:]}
	}
	return []string{amount, ""}
}
