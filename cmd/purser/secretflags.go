package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Flags with the tag `secret` take secrets. The command line of a process is readable by every user
// of the machine, its environment only by its own, so a secret that was given as a flag moves from
// the one to the other. Where the environment is not wanted either, NAME_FILE names a file that
// holds the value of NAME.

// secretFileSuffix makes the variable that names the file of a secret.
const secretFileSuffix = "_FILE"

// maxSecretFile bounds a file that holds a secret, in bytes.
const maxSecretFile = 64 << 10

func isSecret(flag *kong.Flag) bool { return flag.Tag.Has("secret") && len(flag.Envs) > 0 }

// secretFiles resolves a secret from the file that its NAME_FILE variable names, unless the flag is
// given. The resolver fails when the secret is set twice, and for a file that is missing, empty or
// too large. The command line's parser calls it.
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

// hideSecretFlags starts the program anew in this process, with the secrets of its flags in the
// environment, so that no process list shows them. It returns nil when no secret was given as a
// flag, and fails only when the program cannot be started. main calls it.
func hideSecretFlags(chosen *kong.Context, args []string) error {
	rest, variables := withoutSecrets(chosen, args)
	if len(variables) == 0 {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("hide the secrets of the command line: %w", err)
	}
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("hide the secret of %s: %w", name, err)
		}
	}
	return syscall.Exec(program, append([]string{os.Args[0]}, rest...), os.Environ())
}

// withoutSecrets returns the arguments without the flags that hold secrets, and those as
// environment variables.
func withoutSecrets(chosen *kong.Context, args []string) (rest, variables []string) {
	secrets := map[string]string{}
	for _, path := range chosen.Path {
		if path.Flag != nil && !path.Resolved && isSecret(path.Flag) {
			secrets["--"+path.Flag.Name] = path.Flag.Envs[0] + "=" + fmt.Sprint(chosen.FlagValue(path.Flag))
		}
	}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		variable, hidden := secrets[name]
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...), variables
		case !hidden:
			rest = append(rest, args[i])
			continue
		case !joined:
			i++ // the value is the next argument
		}
		if !slices.Contains(variables, variable) {
			variables = append(variables, variable)
		}
	}
	return rest, variables
}
