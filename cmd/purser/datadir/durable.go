package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"purser/persistence/dataformat"
)

// WriteDurably replaces a file atomically, with mode 0600. The content survives a power loss once
// it returns. It fails with the disk's error, and the old content then stays.
func WriteDurably(path, content string) error {
	tmp := path + ".new"
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs a directory, so that new and renamed entries survive a power loss. It fails with
// the file system's error.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Form is the format of a checksummed file.
type Form struct {
	Name   string // without a space
	Number int64
	Older  string // the repair of a file of an older number
}

// WriteChecksummed writes a file whose first line has the form's name and number and the SHA-256 of
// the rest. ReadChecksummed detects every damaged byte.
func WriteChecksummed(path string, form Form, text []byte) error {
	return WriteDurably(path, fmt.Sprintf("%s %d %x\n%s", form.Name, form.Number, sha256.Sum256(text), text))
}

// ReadChecksummed reads a file that WriteChecksummed wrote. It returns the rest, and its checksum
// in hexadecimal digits. It fails with fs.ErrNotExist for a missing file, with *dataformat.Other
// for another number, and for another name or a checksum that differs.
func ReadChecksummed(path string, form Form) (rest []byte, sum string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	name, numbered, _ := strings.Cut(string(first), " ")
	number, written, _ := strings.Cut(numbered, " ")
	found, err := strconv.ParseInt(number, 10, 64)
	if name != form.Name || err != nil {
		return nil, "", fmt.Errorf("%s is not of the form %s, but begins with %q", filepath.Base(path), form.Name,
			first[:min(len(first), len(form.Name)+2)])
	}
	if err := dataformat.Require("its format", found, form.Number, form.Older); err != nil {
		return nil, "", fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if sum = fmt.Sprintf("%x", sha256.Sum256(rest)); written != sum {
		return nil, "", fmt.Errorf("the checksum of %s differs", filepath.Base(path))
	}
	return rest, sum, nil
}
