package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// Flags with the tag `secret` take secrets: from their environment variable, or from the file that
// NAME_FILE names. They are refused on the command line, which every user of the machine can read.

// secretFileSuffix makes the variable that names the file of a secret.
const secretFileSuffix = "_FILE"

// maxSecretFile bounds a file that holds a secret, in bytes.
const maxSecretFile = 64 << 10

// secretHelp is the help of a flag. For a secret it names the settings in the flag's place.
func secretHelp(value *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(value)
	if value.Tag.Has("secret") {
		help += " Not as a flag: set the variable, or " + value.Tag.Envs[0] + secretFileSuffix + "."
	}
	return help
}

func isSecret(flag *kong.Flag) bool { return flag.Tag.Has("secret") && len(flag.Envs) > 0 }

// secretFiles resolves a secret from the file that its NAME_FILE variable names. The resolver fails
// when the secret is set twice, and for a file that is missing, empty or too large.
func secretFiles() kong.Resolver {
	var resolve kong.ResolverFunc = func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if !isSecret(flag) {
			return nil, nil
		}
		variable := flag.Envs[0]
		path := os.Getenv(variable + secretFileSuffix)
		if path == "" {
			return nil, nil
		}
		if os.Getenv(variable) != "" {
			return nil, fmt.Errorf("%s and %s%s are both set: unset one", variable, variable, secretFileSuffix)
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", variable, secretFileSuffix, err)
		}
		if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
			return nil, fmt.Errorf("%s%s: %s is not a file of at most %d bytes", variable, secretFileSuffix, path,
				maxSecretFile)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", variable, secretFileSuffix, err)
		}
		secret := strings.TrimSpace(string(text))
		if secret == "" {
			return nil, fmt.Errorf("%s%s: %s is empty", variable, secretFileSuffix, path)
		}
		return secret, nil
	}
	return resolve
}

// refuseSecretFlags fails when a secret was given on the command line. The error names the settings
// in its place and does not show the secret.
func refuseSecretFlags(chosen *kong.Context) error {
	for _, path := range chosen.Path {
		if path.Flag != nil && !path.Resolved && isSecret(path.Flag) {
			variable := path.Flag.Envs[0]
			return fmt.Errorf("--%s: every user of the machine can read a command line: set %s, or %s to the name of a file "+
				"that has the secret", path.Flag.Name, variable, variable+secretFileSuffix)
		}
	}
	return nil
}
