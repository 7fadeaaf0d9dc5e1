package main

import (
	"log/slog"
	"slices"
	"strings"
)

const (
	settingPrefix = "PURSER_"
	// maxMisspelling is by how many letters a setting may differ from a name that is not known, to
	// be suggested for it.
	maxMisspelling = 4
)

// warnUnknownSettings logs every variable of an environment that begins like a setting and is none,
// because a misspelt setting has its default. environment has the form of os.Environ. Values, which
// may be secrets, are not logged. It fails as settingNames does.
func warnUnknownSettings(log *slog.Logger, environment []string) error {
	known, err := settingNames()
	if err != nil {
		return err
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, settingPrefix) || slices.Contains(known, name) {
			continue
		}
		if nearest := nearestName(known, name); nearest != "" {
			log.Warn("no setting has this name; it has no effect", "variable", name, "meant", nearest)
		} else {
			log.Warn("no setting has this name; it has no effect", "variable", name)
		}
	}
	return nil
}

// settingNames returns the variables of every command's flags, and the NAME_FILE of each secret. It
// fails only for commands that do not parse, which is a bug.
func settingNames() ([]string, error) {
	parser, err := newParser(&commands{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, command := range parser.Model.Leaves(false) {
		for _, flag := range command.Flags {
			names = append(names, flag.Envs...)
			if isSecret(flag) {
				names = append(names, flag.Envs[0]+secretFileSuffix)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// nearestName returns the known name that a misspelt one differs from by the fewest letters, ""
// when each differs by more than maxMisspelling.
func nearestName(known []string, name string) string {
	nearest, fewest := "", maxMisspelling+1
	for _, candidate := range known {
		if d := editDistance(candidate, name); d < fewest {
			nearest, fewest = candidate, d
		}
	}
	return nearest
}

// editDistance counts the letters to insert, delete or replace that make one word of another.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
