package settings

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

const maxAdminHosts = 16

// adminAddress checks the address of the admin port.
func (f *Faults) adminAddress(name, value string) {
	path, isUnix := adminport.SocketPath(value)
	switch {
	case !isUnix:
		f.Address(name, value)
	case !filepath.IsAbs(path):
		f.Add(name, "%q is not unix: and an absolute path", value)
	case len(path) > adminport.MaxSocketPath:
		f.Add(name, "the path of a socket has at most %d bytes, this one has %d", adminport.MaxSocketPath, len(path))
	}
}

// hostName is a DNS name in lower case, without a port. A name of one label, such as that of a
// container, is one too.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$`)

// adminHosts reads the names under which operators reach the admin port.
func (f *Faults) adminHosts(name, value string) []string {
	if value == "" {
		return nil
	}
	hosts := strings.Split(strings.ToLower(value), ",")
	if len(hosts) > maxAdminHosts {
		f.Add(name, "has more than %d names", maxAdminHosts)
	}
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
		if !hostName.MatchString(hosts[i]) {
			f.Add(name, "%q is not a host name without a port", hosts[i])
		}
	}
	return hosts
}

// minOperatorSecret is the least length of a chosen operator secret, in bytes.
const minOperatorSecret = 16

// operatorSecret checks the secret of the operator's pages; "" for one of the data directory.
func (f *Faults) operatorSecret(name, value string) string {
	if value != "" && len(value) < minOperatorSecret {
		f.Add(name, "has fewer than %d characters", minOperatorSecret)
	}
	return value
}

// findOperatorSecret reads the operator secret of the data directory, unless a setting has one. It
// makes a missing one. The file has no checksum: a person may write it.
func (f *Faults) findOperatorSecret(c *Config) {
	if c.OperatorSecret != "" {
		return
	}
	path := filepath.Join(c.DataDir, OperatorSecretFile)
	secret, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if secret, err = NewSecret(); err == nil {
			err = datadir.WriteDurably(path, secret+"\n")
		}
	}
	if err != nil {
		*f = append(*f, err)
		return
	}
	c.OperatorSecret = f.operatorSecret(path, secret)
}
