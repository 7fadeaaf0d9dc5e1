package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// writeSummed writes a file whose first line is its form and the SHA-256 of the rest, so that a
// reader notices every damaged byte.
func writeSummed(path, form string, text []byte) error {
	return writeDurably(path, fmt.Sprintf("%s %x\n%s", form, sha256.Sum256(text), text))
}

// readSummed reads such a file. It returns the rest, and the checksum in hexadecimal digits.
func readSummed(path, form string) (rest []byte, sum string, err error) {
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
