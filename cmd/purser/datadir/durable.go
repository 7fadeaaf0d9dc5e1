package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// WriteChecksummed writes a file whose first line is its form and the SHA-256 of the rest. Form is
// the name and the version of the format. ReadChecksummed detects every damaged byte.
func WriteChecksummed(path, form string, text []byte) error {
	return WriteDurably(path, fmt.Sprintf("%s %x\n%s", form, sha256.Sum256(text), text))
}

// ReadChecksummed reads a file that WriteChecksummed wrote. It returns the rest, and its checksum
// in hexadecimal digits. It fails with fs.ErrNotExist for a missing file, and for another form or a
// checksum that differs.
func ReadChecksummed(path, form string) (rest []byte, sum string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	sum = fmt.Sprintf("%x", sha256.Sum256(rest))
	switch {
	case !bytes.HasPrefix(first, []byte(form+" ")):
		return nil, "", fmt.Errorf("%s is not of the form %q, which this program reads, but begins with %q",
			filepath.Base(path), form, first[:min(len(first), len(form))])
	case string(first) != form+" "+sum:
		return nil, "", fmt.Errorf("the checksum of %s differs", filepath.Base(path))
	}
	return rest, sum, nil
}
