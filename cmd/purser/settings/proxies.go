package settings

import (
	"fmt"
	"strings"

	"purser/authorizer/forwarded"
)

// The ports in PURSER_PROXY_PROTOCOL, and the value for none of them.
const (
	proxyProtocolOff     = "off"
	proxyProtocolREST    = "rest"
	proxyProtocolNetwork = "network"
)

// proxyConfig are the trusted proxies, and the ports on which they use the PROXY protocol.
type proxyConfig struct {
	Trusted       forwarded.Networks
	REST, Network bool
}

// readProxies reads PURSER_TRUSTED_PROXIES and PURSER_PROXY_PROTOCOL.
func (f *Faults) readProxies(s Settings) (c proxyConfig) {
	trusted, err := forwarded.ParseNetworks(s.TrustedProxies)
	if err != nil {
		f.Add("PURSER_TRUSTED_PROXIES", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
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
			f.Add("PURSER_PROXY_PROTOCOL", "%q is not %s, or %s and %s with a comma", s.ProxyProtocol, proxyProtocolOff,
				proxyProtocolREST, proxyProtocolNetwork)
			return c
		}
	}
	if s.TrustedProxies == "" {
		f.Add("PURSER_PROXY_PROTOCOL", "needs PURSER_TRUSTED_PROXIES: only a trusted proxy may say whose connection it is")
	}
	return c
}

// URLOf returns the base URL of a port that speaks TLS when the server has a certificate.
func (c *Config) URLOf(address string) string {
	scheme := "http"
	if c.Certificate != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, address)
}
