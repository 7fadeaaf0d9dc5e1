package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"purser/actors/fault"
)

// The admin port: where it listens, how the commands of this program reach it, and how it reads
// their bodies.

const (
	unixScheme    = "unix:"
	maxSocketPath = 107   // bytes of a unix socket's path, by the kernel's sockaddr_un
	socketMode    = 0o600 // only the server's own user may connect
	maxAdminHosts = 16
)

// socketPath returns the path of an address of the form unix:/path, and whether it has that form.
func socketPath(address string) (path string, isUnix bool) {
	return strings.CutPrefix(address, unixScheme)
}

// listenOn listens on host:port or on unix:/path.
func listenOn(address string) (net.Listener, error) {
	path, isUnix := socketPath(address)
	if !isUnix {
		return net.Listen("tcp", address)
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// The mode is set before the bind: there is no moment at which another user could connect.
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) (err error) {
		return errors.Join(socket.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) }), err)
	}}
	return config.Listen(context.Background(), "unix", path)
}

// removeStaleSocket removes the socket that a killed server has left. A socket with a server behind
// it, and a file of another kind, stay and are an error.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: move it away", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("a running server listens on %s", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out whether a server listens on %s: %w", path, err)
	}
	return os.Remove(path)
}

// adminClient returns a client that reaches the admin port at an address of either form, and the
// base URL to ask it under.
func adminClient(address string) (client *http.Client, base string) {
	path, isUnix := socketPath(address)
	if !isUnix {
		return http.DefaultClient, "http://" + address
	}
	return &http.Client{Transport: socketTransport(path)}, "http://localhost"
}

// socketTransport connects to a unix socket, whatever host the URL names.
func socketTransport(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
}

// adminAddress checks the address of the admin port.
func (f *faults) adminAddress(name, value string) {
	path, isUnix := socketPath(value)
	switch {
	case !isUnix:
		f.address(name, value)
	case !filepath.IsAbs(path):
		f.add(name, "%q is not unix: and an absolute path", value)
	case len(path) > maxSocketPath:
		f.add(name, "the path of a socket has at most %d bytes, this one has %d", maxSocketPath, len(path))
	}
}

// hostName is a DNS name in lower case, without a port. A name of one label, such as that of a
// container, is one too.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$`)

// adminHosts reads the names under which operators reach the admin port.
func (f *faults) adminHosts(name, value string) []string {
	if value == "" {
		return nil
	}
	hosts := strings.Split(strings.ToLower(value), ",")
	if len(hosts) > maxAdminHosts {
		f.add(name, "has more than %d names", maxAdminHosts)
	}
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
		if !hostName.MatchString(hosts[i]) {
			f.add(name, "%q is not a host name without a port", hosts[i])
		}
	}
	return hosts
}

// decodeCommand reads the body of a command. A body that cannot be read is invalid_body with a
// message that names the field.
func decodeCommand(body []byte, into any) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok || semantic.JSONPointer == "":
		return fault.New(fault.InvalidBody, "the body is not the JSON object that the command takes")
	case errors.Is(err, json.ErrUnknownName):
		return fault.New(fault.InvalidBody, string(semantic.JSONPointer[1:])+" is not a field of the command")
	}
	return fault.New(fault.InvalidBody, string(semantic.JSONPointer[1:])+" cannot be read")
}
