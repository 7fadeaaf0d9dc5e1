package settings

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purser/cmd/purser/datadir"
)

// SecretSumsFile has the SHA-256 of each secret's file in its directory, as sha256sum prints it. By
// it a start refuses a damaged secret. A server that ran with one would refuse the card network and
// the partners, and would give checkout links addresses of another seed.
const SecretSumsFile = "secrets.sha256"

// secretSums are the checksums of secrets' files by file name, in hexadecimal digits.
type secretSums map[string]string

func secretSum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// readSums reads the checksums of a directory. They are empty when the directory has no
// SecretSumsFile. It fails for a damaged or empty file; the text names the repair.
func readSums(dir string) (secretSums, error) {
	path := filepath.Join(dir, SecretSumsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return secretSums{}, nil
	}
	if err != nil {
		return nil, err
	}
	sums := secretSums{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(line, "  ")
		name, whole := strings.CutSuffix(name, "\n")
		if !whole || len(sum) != 2*sha256.Size || SettingOf(name) == "" {
			return nil, fmt.Errorf("%s is damaged at the line %q: remove it if the secrets beside it are those in use",
				path, line)
		}
		sums[name] = sum
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%s is empty: remove it if the secrets beside it are those in use", path)
	}
	return sums, nil
}

// write stores the sums in a directory, durably. Without sums it removes the file. It fails with
// the file system's error.
func (s secretSums) write(dir string) error {
	path := filepath.Join(dir, SecretSumsFile)
	if len(s) == 0 {
		return os.Remove(path)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s  %s\n", s[name], name)
	}
	return datadir.WriteDurably(path, text.String())
}

// verifySum compares the text of a secret's file with its checksum. It accepts a file without a
// checksum, because the operator has put it there. It fails when the two differ.
func verifySum(path string, text []byte) error {
	dir, name := filepath.Split(path)
	sums, err := readSums(dir)
	if err != nil {
		return err
	}
	if want, known := sums[name]; known && want != secretSum(text) {
		return fmt.Errorf("%s differs from its checksum in %s, so one of the two is damaged: put the secret back from "+
			"where the secrets are kept; if it was changed by hand, remove its line of checksums", path,
			filepath.Join(dir, SecretSumsFile))
	}
	return nil
}

// addSum adds the checksum of a file, unless the file has one. It fails with the disk's error, and
// for a damaged file of checksums.
func addSum(path string) error {
	dir, name := filepath.Split(path)
	sums, err := readSums(dir)
	if err != nil || sums[name] != "" {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sums[name] = secretSum(text)
	return sums.write(dir)
}

// DropSum removes the checksum of a file, before the file is written or removed. It fails with the
// disk's error, and for a damaged file of checksums.
func DropSum(path string) error {
	dir, name := filepath.Split(path)
	sums, err := readSums(dir)
	if err != nil || sums[name] == "" {
		return err
	}
	delete(sums, name)
	return sums.write(dir)
}

// WriteSecret writes a secret's file, or several secrets with commas, and its checksum. A crash
// between the two leaves a file without a checksum, and the next start adds it. It fails with the
// disk's error, and for a damaged file of checksums.
func WriteSecret(path, secret string) error {
	if err := DropSum(path); err != nil {
		return err
	}
	if err := datadir.WriteDurably(path, secret+"\n"); err != nil {
		return err
	}
	return addSum(path)
}
