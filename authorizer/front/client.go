package front

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"

	"purser/authorizer/forwarded"
)

// The header fields in which proxies tell of the client.
const (
	headerForwardedFor   = "X-Forwarded-For"
	headerForwardedProto = "X-Forwarded-Proto"
	headerForwarded      = "Forwarded"
)

// ClientOf returns the address whose request it is: the peer, or the client behind trusted proxies.
// Everything that counts by address counts by this one. It is the zero address within the process.
func ClientOf(ctx *fasthttp.RequestCtx) netip.Addr {
	c, ok := ctx.Conn().(*connection)
	if !ok {
		return addressOf(ctx.RemoteAddr())
	}
	if !c.byProxy {
		return c.remote
	}
	return c.server.options.Proxies.Client(c.remote, fieldsOf(ctx))
}

// IsSecure reports whether the client asked by https: of this server, or of a trusted proxy that
// says so.
func IsSecure(ctx *fasthttp.RequestCtx) bool {
	c, ok := ctx.Conn().(*connection)
	return ok && (c.security != nil || c.byProxy && fieldsOf(ctx).HTTPS())
}

func fieldsOf(ctx *fasthttp.RequestCtx) forwarded.Fields {
	joined := func(name string) []byte { return bytes.Join(ctx.Request.Header.PeekAll(name), []byte(",")) }
	return forwarded.Fields{For: joined(headerForwardedFor), Proto: joined(headerForwardedProto),
		Forwarded: joined(headerForwarded)}
}

// addressOf returns the IP address of a socket's end, in the form in which addresses are compared;
// the zero address where it has none.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return forwarded.Plain(tcp.AddrPort().Addr())
	}
	return netip.Addr{}
}
