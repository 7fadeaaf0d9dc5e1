package main

import (
	"fmt"
	"strings"

	"purser/authorizer/drain"
	"purser/authorizer/forwarded"
)

// The ports in PURSER_PROXY_PROTOCOL, and the value for none of them.
const (
	proxyProtocolOff     = "off"
	proxyProtocolREST    = "rest"
	proxyProtocolNetwork = "network"
)

// proxyConfig says which proxies are trusted, and on which ports they speak the PROXY protocol.
type proxyConfig struct {
	Trusted       forwarded.Networks
	REST, Network bool
}

// readProxies reads PURSER_TRUSTED_PROXIES and PURSER_PROXY_PROTOCOL.
func (f *faults) readProxies(s Settings) (c proxyConfig) {
	trusted, err := forwarded.ParseNetworks(s.TrustedProxies)
	if err != nil {
		f.add("PURSER_TRUSTED_PROXIES", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	c.Trusted = trusted
	if s.ProxyProtocol == proxyProtocolOff {
		return c
	}
	for port := range strings.SplitSeq(s.ProxyProtocol, ",") {
		switch strings.TrimSpace(port) {
		case proxyProtocolREST:
			c.REST = true
		case proxyProtocolNetwork:
			c.Network = true
		default:
			f.add("PURSER_PROXY_PROTOCOL", "%q is not %s, or %s and %s with a comma", s.ProxyProtocol, proxyProtocolOff,
				proxyProtocolREST, proxyProtocolNetwork)
			return c
		}
	}
	if s.TrustedProxies == "" {
		f.add("PURSER_PROXY_PROTOCOL", "needs PURSER_TRUSTED_PROXIES: only a trusted proxy may say whose connection it is")
	}
	return c
}

// restEdge returns the limits of the REST port's connections and bodies.
func (m *Main) restEdge() drain.Options {
	return drain.Options{Connections: m.shares.rest, PerPeer: m.config.Connections.PerAddress,
		AtOnce: unauthenticatedAtOnce(m.config.Processors), Refusals: m.config.Refusals,
		Bodies: m.bodies, Proxies: m.config.Proxies.Trusted, ProxyProtocol: m.config.Proxies.REST,
		TLS: m.config.Certificate.serverConfig()}
}

// url returns the base URL of a port that speaks TLS when the server has a certificate.
func (c *Config) url(address string) string {
	scheme := "http"
	if c.Certificate != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, address)
}
