// Package adminport is the way to a server's ports on this machine: addresses (host:port or
// unix:/path), listeners, and a client of the admin port's commands.
package adminport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"purser/actors/fault"
)

const (
	UnixScheme    = "unix:" // before the path of a unix socket in an address
	MaxSocketPath = 107     // bytes of a unix socket's path, by the kernel's sockaddr_un
	socketMode    = 0o600   // only the server's own user may connect
)

// SocketPath returns the path of an address of the form unix:/path, and whether it has that form.
func SocketPath(address string) (path string, isUnix bool) {
	return strings.CutPrefix(address, UnixScheme)
}

// Listen listens on host:port or on unix:/path. It replaces the socket of a killed server. It fails
// for an address that is taken, and for a path with another kind of file.
func Listen(address string) (net.Listener, error) {
	path, isUnix := SocketPath(address)
	if !isUnix {
		return net.Listen("tcp", address)
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// The mode is set before the bind, so that another user can never connect.
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) (err error) {
		return errors.Join(socket.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) }), err)
	}}
	return config.Listen(context.Background(), "unix", path)
}

// removeStaleSocket removes the socket of a killed server. It keeps a socket on which a server
// listens and a file of another kind, and returns an error.
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

// NewClient returns an HTTP client for the admin port at an address of either form, and the base
// URL for its requests.
func NewClient(address string) (client *http.Client, base string) {
	path, isUnix := SocketPath(address)
	if !isUnix {
		return http.DefaultClient, "http://" + address
	}
	return &http.Client{Transport: SocketTransport(path)}, "http://localhost"
}

// SocketTransport returns a transport that connects to a unix socket and ignores the host of the
// URL.
func SocketTransport(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
}

// DecodeBody decodes the body of an operator's command. An invalid body is the fault invalid_body,
// whose message names the field.
func DecodeBody(body []byte, into any) error {
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

// Reachable returns an address under which this machine reaches its own listener: host:port, or
// unix:/path. The loopback address stands in for an unspecified one.
func Reachable(a net.Addr) string {
	if a.Network() == "unix" {
		return UnixScheme + a.String()
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	loopback := net.IPv4(127, 0, 0, 1)
	if tcp.IP.To4() == nil {
		loopback = net.IPv6loopback
	}
	return (&net.TCPAddr{IP: loopback, Port: tcp.Port}).String()
}

// URL returns the URL under which this machine reaches a server that listens on an address. It
// returns an address of the form unix:/path unchanged.
func URL(address string) string {
	if _, isUnix := SocketPath(address); isUnix {
		return address
	}
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		address = net.JoinHostPort("localhost", port)
	}
	return "http://" + address
}
