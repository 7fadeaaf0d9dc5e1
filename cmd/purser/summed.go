package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// writeChecksummed writes a file whose first line is its form and the SHA-256 of the rest. Form is
// the name and the version of the format. A reader notices every damaged byte.
func writeChecksummed(path, form string, text []byte) error {
	return writeDurably(path, fmt.Sprintf("%s %x\n%s", form, sha256.Sum256(text), text))
}

// readChecksummed reads a file that writeChecksummed wrote. It returns the rest, and its checksum
// in hexadecimal digits.
func readChecksummed(path, form string) (rest []byte, sum string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	sum = fmt.Sprintf("%x", sha256.Sum256(rest))
	switch {
	case !bytes.HasPrefix(first, []byte(form+" ")):
		return nil, "", fmt.Errorf("%s is not of the form %q", filepath.Base(path), form)
	case string(first) != form+" "+sum:
		return nil, "", fmt.Errorf("the checksum of %s differs", filepath.Base(path))
	}
	return rest, sum, nil
}
