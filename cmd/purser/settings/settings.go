// Package settings reads the configuration of `purser serve`: flags, environment variables and the
// secrets in the data directory. Settings holds their text, Config their meaning, Faults every
// error. Files: settings.go, adminport.go, proxies.go, certificate.go, kafka.go, chains.go (groups
// of settings), secrets.go, secretsums.go, partnersecrets.go (secrets in files), reserve.go (bounds
// of the disk reserve), development.go (settings for development only), logs.go.
package settings

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/seal"
	"purser/cmd/purser/datadir"
	"purser/httpapi"
	"purser/httpapi/mail"
	"purser/httpapi/webhook"
	"purser/persistence/postgres"
)

// Settings are the flags and environment variables of purser serve as text. They are checked
// together, so that one error names every fault.
type Settings struct {
	HTTPAddr           string `name:"http-addr" env:"PURSER_HTTP_ADDR" default:"127.0.0.1:8080" help:"REST address."`
	AuthorizerAddr     string `name:"authorizer-addr" env:"PURSER_AUTHORIZER_ADDR" default:"127.0.0.1:8081" help:"Card network address."`
	AdminAddr          string `name:"admin-addr" env:"PURSER_ADMIN_ADDR" default:"127.0.0.1:8082" help:"Address of healthz, readyz, metrics, pprof and audit; unix:/path for a socket that only the server's user reaches."`
	AdminHosts         string `name:"admin-hosts" env:"PURSER_ADMIN_HOSTS" help:"Host names under which operators reach the admin port, with commas, besides localhost and its address."`
	BackupDir          string `name:"backup-dir" env:"PURSER_BACKUP_DIR" help:"Directory in which a running server writes backups; <data dir>/backups when unset."`
	DataDir            string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Directory of both stores and the secrets."`
	BaseURL            string `name:"base-url" env:"PURSER_BASE_URL" help:"Base of links handed out; https:// with a certificate, else http://, and the HTTP address when unset."`
	TLSCert            string `name:"tls-cert" env:"PURSER_TLS_CERT" help:"PEM file of the certificate of the REST and the card network's port, with its chain; plain HTTP when unset."`
	TLSKey             string `name:"tls-key" env:"PURSER_TLS_KEY" help:"PEM file of the key of that certificate."`
	TrustedProxies     string `name:"trusted-proxies" env:"PURSER_TRUSTED_PROXIES" help:"Addresses and networks of the proxies in front, with commas; the client they name counts."`
	ProxyProtocol      string `name:"proxy-protocol" env:"PURSER_PROXY_PROTOCOL" default:"off" help:"rest, network or both with a comma: there trusted proxies begin each connection with a PROXY protocol head, version 2."`
	NetworkSecret      string `name:"network-secret" env:"PURSER_NETWORK_SECRET" secret:"" help:"Bearer secret of the card network, two with a comma while rotating; made in <data dir>/network-secret when unset."`
	PartnerSecret      string `name:"partner-secret" env:"PURSER_PARTNER_SECRET" secret:"" help:"Signs the reports of partners without a secret of their own, two with a comma while rotating; made in <data dir>/partner-secret when unset."`
	PartnerSecretBank  string `name:"partner-secret-bank" env:"PURSER_PARTNER_SECRET_BANK" secret:"" help:"Signs the bank's reports and the requests to it; <data dir>/partner-secret-bank or the common secret when unset."`
	PartnerSecretRamp  string `name:"partner-secret-ramp" env:"PURSER_PARTNER_SECRET_RAMP" secret:"" help:"Signs the ramp's reports, in the same way."`
	PartnerSecretCoin  string `name:"partner-secret-stablecoin" env:"PURSER_PARTNER_SECRET_STABLECOIN" secret:"" help:"Signs the stablecoin partner's reports, in the same way."`
	PartnerSignatures  string `name:"partner-signatures" env:"PURSER_PARTNER_SIGNATURES" default:"v1,v2" help:"Versions of a report's signature that are accepted; v2 alone refuses those that do not cover the path."`
	DataKey            string `name:"data-key" env:"PURSER_DATA_KEY" secret:"" help:"64 hex digits that seal personal data, older keys after commas while rotating; made in <data dir>/data-key when unset."`
	RateLimits         string `name:"rate-limits" env:"PURSER_RATE_LIMITS" default:"100,600,1200" help:"Requests a minute: key,workspace,address; off for load tests."`
	PayoutLimits       string `name:"payout-limits" env:"PURSER_PAYOUT_LIMITS" default:"250000,1000000" help:"Dollars a day that may be paid out: key,workspace."`
	BacklogMax         string `name:"backlog-max" env:"PURSER_BACKLOG_MAX" default:"10000000" help:"Decisions not yet relayed; approvals stop at 80 %."`
	AnswerWithin       string `name:"answer-within" env:"PURSER_ANSWER_WITHIN" default:"150ms" help:"How long a message of the card network waits for its sync before it is answered timeout."`
	Slack              string `name:"slack" env:"PURSER_SLACK" default:"1" help:"1 to 100: how many times as long as usual a request, a commit and a partner's call may take, for slow machines."`
	SandboxDelay       string `name:"sandbox-delay" env:"PURSER_SANDBOX_DELAY" default:"2s" help:"How long the sandbox bank and ramp take."`
	MultiCurrency      string `name:"multi-currency" env:"PURSER_MULTI_CURRENCY" default:"true" help:"false: balances in currencies are not connected."`
	FeatureConvert     string `name:"feature-mca-convert" env:"PURSER_FEATURE_MCA_CONVERT" default:"false" help:"true: balances in currencies can be converted."`
	Ramp               string `name:"ramp" env:"PURSER_RAMP" default:"true" help:"false: the ramp between dollars and USDC is not connected."`
	PhysicalCards      string `name:"physical-cards" env:"PURSER_PHYSICAL_CARDS" default:"true" help:"false: the product of physical cards is not configured."`
	Signup             string `name:"signup" env:"PURSER_SIGNUP" default:"open" help:"open or closed."`
	OperatorSecret     string `name:"operator-secret" env:"PURSER_OPERATOR_SECRET" secret:"" help:"Opens the operator's pages on the admin port; made in <data dir>/operator-secret when unset."`
	PasswordNice       string `name:"password-nice" env:"PURSER_PASSWORD_NICE" default:"19" help:"Nice value, 0 to 19, of the process that derives password hashes."`
	SMTPURL            string `name:"smtp-url" env:"PURSER_SMTP_URL" secret:"" help:"Mail server that sends links to reset a password and to confirm a new email, smtp:// or smtps://user:password@host:port?from=address; no mails when unset."`
	Issuer             string `name:"issuer" env:"PURSER_ISSUER" default:"fixture" help:"fixture: cards are stand-ins; connected: the sandbox issuer enrols cardholders and issues them."`
	AuthorizerCache    string `name:"authorizer-cache" env:"PURSER_AUTHORIZER_CACHE" default:"512MiB" help:"Memory for hot cards."`
	AuthorizerSync     string `name:"authorizer-sync" env:"PURSER_AUTHORIZER_SYNC" default:"true" help:"false only to compare: answers may be lost."`
	PrivateWebhooks    string `name:"allow-private-webhooks" env:"PURSER_ALLOW_PRIVATE_WEBHOOKS" default:"false" help:"true lets webhook URLs be http and lead to private addresses, for development."`
	CheckoutXpubEVM    string `name:"checkout-xpub-evm" env:"PURSER_CHECKOUT_XPUB_EVM" help:"Account (m/44'/60'/0') that receives checkout payments on EVM chains, as an xpub; with neither account set they are a sandbox's, from <data dir>/checkout-seed."`
	CheckoutXpubBTC    string `name:"checkout-xpub-btc" env:"PURSER_CHECKOUT_XPUB_BTC" help:"Account (m/84'/0'/0') that receives checkout payments on Bitcoin, as an xpub or zpub."`
	CheckoutTolerance  string `name:"checkout-tolerance" env:"PURSER_CHECKOUT_TOLERANCE" default:"0,0" help:"By how much a payment may fall short and still complete a link: basis points of its amount (0 to 50),cents (0 or 1), whichever is more."`
	Refusals           string `name:"refusals" env:"PURSER_REFUSALS" default:"20" help:"Refused requests a second that one address may cause before authentication; beyond that its connections are closed. off for load tests."`
	Connections        string `name:"connections" env:"PURSER_CONNECTIONS" default:"8192,16384,512" help:"Connections at once: REST,card network,of one address; fewer where the limit of open files leaves fewer."`
	BodyBudget         string `name:"body-budget" env:"PURSER_BODY_BUDGET" default:"64MiB" help:"Memory for request bodies that are being read; over it REST answers 503."`
	DiskReserve        string `name:"disk-reserve" env:"PURSER_DISK_RESERVE" default:"1GiB" help:"Free space of a store's disk below which approvals and requests that store more are refused."`
	LogLevel           string `name:"log-level" env:"PURSER_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat          string `name:"log-format" env:"PURSER_LOG_FORMAT" default:"text" help:"text or json."`
	ChainEthereumURL   string `name:"chain-ethereum-url" env:"PURSER_CHAIN_ETHEREUM_URL" secret:"" help:"JSON-RPC node of ethereum; a sandbox chain when unset."`
	ChainPolygonURL    string `name:"chain-polygon-url" env:"PURSER_CHAIN_POLYGON_URL" secret:"" help:"JSON-RPC node of polygon; a sandbox chain when unset."`
	ChainArbitrumURL   string `name:"chain-arbitrum-url" env:"PURSER_CHAIN_ARBITRUM_URL" secret:"" help:"JSON-RPC node of arbitrum; a sandbox chain when unset."`
	ChainBaseURL       string `name:"chain-base-url" env:"PURSER_CHAIN_BASE_URL" secret:"" help:"JSON-RPC node of base; a sandbox chain when unset."`
	ChainOptimismURL   string `name:"chain-optimism-url" env:"PURSER_CHAIN_OPTIMISM_URL" secret:"" help:"JSON-RPC node of optimism; a sandbox chain when unset."`
	ChainSolanaURL     string `name:"chain-solana-url" env:"PURSER_CHAIN_SOLANA_URL" secret:"" help:"RPC node of solana; a sandbox chain when unset."`
	ChainBitcoinURL    string `name:"chain-bitcoin-url" env:"PURSER_CHAIN_BITCOIN_URL" secret:"" help:"bitcoind RPC node of bitcoin; a sandbox chain when unset."`
	DatabaseURL        string `name:"database-url" env:"DATABASE_URL" secret:"" help:"Postgres that keeps the journal; the data directory keeps it when unset. Needs PURSER_DATA_KEY."`
	KafkaBrokers       string `name:"kafka-brokers" env:"KAFKA_BROKERS" help:"Kafka brokers that get every event, host:port with commas; consumers read the journal when unset."`
	KafkaTLS           string `name:"kafka-tls" env:"KAFKA_TLS" default:"false" help:"true: the connections to Kafka are encrypted."`
	KafkaTLSCA         string `name:"kafka-tls-ca" env:"KAFKA_TLS_CA" help:"PEM file of the authorities that sign the brokers' certificates; those of this machine when unset."`
	KafkaTLSCert       string `name:"kafka-tls-cert" env:"KAFKA_TLS_CERT" help:"PEM file of the certificate that this program shows to Kafka."`
	KafkaTLSKey        string `name:"kafka-tls-key" env:"KAFKA_TLS_KEY" help:"PEM file of the key of that certificate."`
	KafkaSASLMechanism string `name:"kafka-sasl-mechanism" env:"KAFKA_SASL_MECHANISM" help:"PLAIN (only with TLS or to the loopback), SCRAM-SHA-256 or SCRAM-SHA-512."`
	KafkaSASLUsername  string `name:"kafka-sasl-username" env:"KAFKA_SASL_USERNAME" help:"Name by which Kafka knows this program."`
	KafkaSASLPassword  string `name:"kafka-sasl-password" env:"KAFKA_SASL_PASSWORD" secret:"" help:"Password of that name."`
}

// Config is the parsed meaning of Settings.
type Config struct {
	HTTPAddr, AuthorizerAddr, AdminAddr string
	AdminHosts                          []string // besides localhost and the port's address
	BackupDir                           string   // "": backups in DataDir
	DataDir, BaseURL                    string
	NetworkSecrets                      []string // two while rotating, else one; empty: made at the start
	PartnerSecrets                      PartnerSecrets
	PartnerSignatures                   webhook.Versions
	DataKeys                            [][]byte // DataKeyBytes each, the first seals; empty: made at the start
	RateLimits                          httpapi.RateLimits
	PayoutLimits                        balance.PayoutLimits
	BacklogMax                          int
	Processors                          int           // processors for this process; 0: those of Go's scheduler
	AnswerWithin                        time.Duration // of a message of the card network
	Slack                               int           // factor of the timeouts
	SandboxDelay                        time.Duration
	PhysicalCards                       bool
	MultiCurrency, Convert, Ramp        bool
	SignupOpen                          bool
	Mailer                              *mail.Mailer // nil: no mails
	PasswordNice                        int          // nice value of the password worker
	OperatorSecret                      string       // opens the operator's pages
	Issuer                              string       // httpapi.IssuerFixture or httpapi.IssuerConnected
	AuthorizerCacheBytes                int64
	AuthorizerSync                      bool
	PrivateWebhooks                     bool
	CheckoutAccounts                    *address.Accounts // nil: a sandbox's, made at the start
	CheckoutTolerance                   checkout.Tolerance
	Refusals                            int // a second, of one address; 0: off
	Connections                         Connections
	BodyBudget                          int64 // bytes
	DiskReserve                         int64 // bytes
	Proxies                             proxyConfig
	Certificate                         *Certificate // shown on the REST and the card network's port; nil: both are plain
	checkoutSeed                        string       // of the sandbox's accounts; "" with configured accounts
	madeSecrets                         []string     // the names of the secrets that this start has made
	LogLevel                            slog.Level
	LogFormat                           string // LogText or LogJSON
	DatabaseURL                         string // "": the journal is in DataDir
	Kafka                               kafkaConfig
	ChainURLs                           map[string]string // URLs of nodes, by network; the others are a sandbox's
}

// Stores is where the stores are.
func (c *Config) Stores() datadir.Stores {
	return datadir.Stores{DataDir: c.DataDir, DatabaseURL: c.DatabaseURL, Slack: datadir.Slack(c.Slack)}
}

// Bounds of the settings.
const (
	DataKeyBytes    = 32
	MinSecretChars  = 16
	MaxNice         = 19 // the lowest priority
	maxBacklog      = 100_000_000
	minBacklog      = 1_000
	minCacheBytes   = 16 << 20
	minBodyBudget   = 2 << 20 // the longest body, while its memory is doubled
	maxConnections  = 1_000_000
	maxRefusals     = 1_000_000
	maxSandboxDelay = 24 * time.Hour
	minAnswerWithin = 10 * time.Millisecond
	maxAnswerWithin = time.Hour
	maxSecrets      = 2
)

// Faults collects the errors of settings.
type Faults []error

func (f *Faults) Add(name, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
}

// Config checks the settings and returns their meaning. The error names every fault. It never opens
// a store or a port.
func (s Settings) Config() (Config, error) {
	var f Faults
	c := Config{HTTPAddr: s.HTTPAddr, AuthorizerAddr: s.AuthorizerAddr, AdminAddr: s.AdminAddr, DataDir: s.DataDir,
		BackupDir: s.BackupDir, LogLevel: f.Level(s.LogLevel)}
	f.Address("PURSER_HTTP_ADDR", s.HTTPAddr)
	f.Address("PURSER_AUTHORIZER_ADDR", s.AuthorizerAddr)
	f.adminAddress("PURSER_ADMIN_ADDR", s.AdminAddr)
	c.AdminHosts = f.adminHosts("PURSER_ADMIN_HOSTS", s.AdminHosts)
	f.ownAddresses(s)
	c.BaseURL = f.BaseURL("PURSER_BASE_URL", s.BaseURL)
	c.MultiCurrency = f.OneOf("PURSER_MULTI_CURRENCY", s.MultiCurrency, "true", "false") == "true"
	c.Convert = f.OneOf("PURSER_FEATURE_MCA_CONVERT", s.FeatureConvert, "true", "false") == "true"
	c.Ramp = f.OneOf("PURSER_RAMP", s.Ramp, "true", "false") == "true"
	c.PhysicalCards = f.OneOf("PURSER_PHYSICAL_CARDS", s.PhysicalCards, "true", "false") == "true"
	c.NetworkSecrets = f.Secrets("PURSER_NETWORK_SECRET", s.NetworkSecret)
	c.PartnerSecrets = f.partnerSecrets(s)
	c.PartnerSignatures = f.signatures("PURSER_PARTNER_SIGNATURES", s.PartnerSignatures)
	c.DataKeys = f.dataKeys(s.DataKey)
	c.RateLimits = f.limits(s.RateLimits)
	c.PayoutLimits = f.payoutLimits(s.PayoutLimits)
	c.BacklogMax = f.integer("PURSER_BACKLOG_MAX", s.BacklogMax, minBacklog, maxBacklog)
	c.AnswerWithin = f.duration("PURSER_ANSWER_WITHIN", s.AnswerWithin, minAnswerWithin, maxAnswerWithin)
	c.Slack = f.integer("PURSER_SLACK", s.Slack, 1, postgres.MaxSlack)
	c.SandboxDelay = f.Delay(s.SandboxDelay)
	c.LogFormat = f.OneOf("PURSER_LOG_FORMAT", s.LogFormat, LogText, LogJSON)
	c.SignupOpen = f.OneOf("PURSER_SIGNUP", s.Signup, "open", "closed") == "open"
	c.PasswordNice = f.integer("PURSER_PASSWORD_NICE", s.PasswordNice, 0, MaxNice)
	c.Mailer = f.mailer("PURSER_SMTP_URL", s.SMTPURL)
	c.OperatorSecret = f.operatorSecret("PURSER_OPERATOR_SECRET", s.OperatorSecret)
	c.Issuer = f.OneOf("PURSER_ISSUER", s.Issuer, httpapi.IssuerFixture, httpapi.IssuerConnected)
	c.AuthorizerCacheBytes = f.Bytes("PURSER_AUTHORIZER_CACHE", s.AuthorizerCache, minCacheBytes)
	c.BodyBudget = f.Bytes("PURSER_BODY_BUDGET", s.BodyBudget, minBodyBudget)
	c.DiskReserve = f.Bytes("PURSER_DISK_RESERVE", s.DiskReserve, MinDiskReserve)
	if s.Refusals != "off" {
		c.Refusals = f.integer("PURSER_REFUSALS", s.Refusals, 1, maxRefusals)
	}
	c.Connections = f.connections(s.Connections)
	c.Proxies = f.readProxies(s)
	c.Certificate = f.readCertificate(s)
	c.AuthorizerSync = f.OneOf("PURSER_AUTHORIZER_SYNC", s.AuthorizerSync, "true", "false") == "true"
	c.PrivateWebhooks = f.OneOf("PURSER_ALLOW_PRIVATE_WEBHOOKS", s.PrivateWebhooks, "true", "false") == "true"
	c.CheckoutAccounts = f.checkoutAccounts(s)
	c.CheckoutTolerance = f.checkoutTolerance(s.CheckoutTolerance)
	c.DatabaseURL = f.database(s)
	c.Kafka = f.ReadKafka(s)
	c.ChainURLs = f.chainURLs(s)
	return c, errors.Join(f...)
}

// checkoutAccounts returns the accounts that receive payments; nil when neither is set, which
// means a sandbox's. When one is set, the other stays empty, because a sandbox's address must
// not stand beside a real one. No fault shows the text of a setting, because it may be a private
// key.
func (f *Faults) checkoutAccounts(s Settings) *address.Accounts {
	if s.CheckoutXpubEVM == "" && s.CheckoutXpubBTC == "" {
		return nil
	}
	if _, err := address.New(s.CheckoutXpubEVM, ""); err != nil {
		f.Add("PURSER_CHECKOUT_XPUB_EVM", "%v", err)
	}
	if _, err := address.New("", s.CheckoutXpubBTC); err != nil {
		f.Add("PURSER_CHECKOUT_XPUB_BTC", "%v", err)
	}
	accounts, err := address.New(s.CheckoutXpubEVM, s.CheckoutXpubBTC)
	if err != nil {
		return nil // named above
	}
	return accounts
}

func (f *Faults) checkoutTolerance(value string) checkout.Tolerance {
	tolerance, err := checkout.ParseTolerance(value)
	if err != nil {
		f.Add("PURSER_CHECKOUT_TOLERANCE", "%v", err)
	}
	return tolerance
}

// mailer reads the URL of the mail server; nil for none. The text may have a password in it and is
// never shown.
func (f *Faults) mailer(name, value string) *mail.Mailer {
	if value == "" {
		return nil
	}
	mailer, err := mail.Parse(value)
	if err != nil {
		f.Add(name, "%v", err)
	}
	return mailer
}

// database checks how to reach Postgres. The text may have a password in it and is never shown.
func (f *Faults) database(s Settings) string {
	if s.DatabaseURL == "" {
		return ""
	}
	if _, err := pgx.ParseConfig(s.DatabaseURL); err != nil {
		f.Add("DATABASE_URL", "is neither a postgres:// URL nor keywords and values")
	}
	if s.DataKey == "" {
		f.Add("PURSER_DATA_KEY",
			"is required with DATABASE_URL: a database that outlives this directory must not be sealed under a key in it; "+
				"`openssl rand -hex %d` makes one", DataKeyBytes)
	}
	return s.DatabaseURL
}

// brokers parses the comma-separated addresses of KAFKA_BROKERS; nil for none. A malformed address
// is added to the faults.
func (f *Faults) brokers(value string) []string {
	if value == "" {
		return nil
	}
	brokers := strings.Split(value, ",")
	for i := range brokers {
		brokers[i] = strings.TrimSpace(brokers[i])
		f.Address("KAFKA_BROKERS", brokers[i])
	}
	return brokers
}

// Address adds a fault unless value is host:port with a port from 0 to 65535.
func (f *Faults) Address(name, value string) {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		f.Add(name, "%q is not host:port", value)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		f.Add(name, "%q has no port from 0 to 65535", value)
	}
}

// ownAddresses refuses one address for two ports; port 0 is another one each time.
func (f *Faults) ownAddresses(s Settings) {
	taken := map[string]string{}
	for _, a := range [][2]string{{"PURSER_HTTP_ADDR", s.HTTPAddr}, {"PURSER_AUTHORIZER_ADDR", s.AuthorizerAddr},
		{"PURSER_ADMIN_ADDR", s.AdminAddr}} {
		name, address := a[0], a[1]
		if other, twice := taken[address]; twice && !strings.HasSuffix(address, ":0") {
			f.Add(name, "%q is the address of %s too", address, other)
		}
		taken[address] = name
	}
}

// BaseURL returns an http or https URL without a trailing slash, "" for an empty value. Any other
// URL, and one with a query, fragment or user, adds a fault.
func (f *Faults) BaseURL(name, value string) string {
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		f.Add(name, "%q is not an http or https URL", value)
	} else if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		f.Add(name, "has more than a scheme, a host and a path")
	}
	return strings.TrimRight(value, "/")
}

// Secrets reads one secret, or two with a comma while it rotates.
func (f *Faults) Secrets(name, value string) []string {
	if value == "" {
		return nil
	}
	secrets := datadir.SplitSecrets(value)
	if len(secrets) == 2 && secrets[0] == secrets[1] {
		f.Add(name, "has the same secret twice")
	}
	if len(secrets) > maxSecrets {
		f.Add(name, "has more than %d secrets", maxSecrets)
	}
	for _, secret := range secrets {
		if len(secret) < MinSecretChars {
			f.Add(name, "has a secret shorter than %d characters", MinSecretChars)
		}
	}
	return secrets
}

// dataKeys reads the data keys, the one that seals first.
func (f *Faults) dataKeys(value string) (keys [][]byte) {
	if value == "" {
		return nil
	}
	for text := range strings.SplitSeq(value, ",") {
		key, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil || len(key) != DataKeyBytes {
			f.Add("PURSER_DATA_KEY", "is not %d hex digits, or several of these with commas", 2*DataKeyBytes)
		}
		if slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(other, key) }) {
			f.Add("PURSER_DATA_KEY", "has the same key twice")
		}
		keys = append(keys, key)
	}
	if len(keys) > seal.MaxKeys {
		f.Add("PURSER_DATA_KEY", "has more than %d keys", seal.MaxKeys)
	}
	return keys
}

func (f *Faults) limits(value string) httpapi.RateLimits {
	limits, err := httpapi.ParseRateLimits(value)
	if err != nil {
		f.Add("PURSER_RATE_LIMITS", "%v", err)
	}
	return limits
}

func (f *Faults) payoutLimits(value string) balance.PayoutLimits {
	limits, err := httpapi.ParsePayoutLimits(value)
	if err != nil {
		f.Add("PURSER_PAYOUT_LIMITS", "%v", err)
	}
	return limits
}

func (f *Faults) integer(name, value string, least, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < least || n > most {
		f.Add(name, "%q is not a number from %d to %d", value, least, most)
	}
	return n
}

func (f *Faults) Delay(value string) time.Duration {
	return f.duration("PURSER_SANDBOX_DELAY", value, 0, maxSandboxDelay)
}

func (f *Faults) duration(name, value string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < least || d > most {
		f.Add(name, "%q is not a duration from %s to %s", value, least, most)
	}
	return d
}

// OneOf returns value when it is one of the allowed ones. Otherwise it adds a fault and returns "".
func (f *Faults) OneOf(name, value string, allowed ...string) string {
	for _, a := range allowed {
		if value == a {
			return value
		}
	}
	f.Add(name, "%q is not %s", value, strings.Join(allowed, " or "))
	return ""
}

func (f *Faults) Level(value string) (level slog.Level) {
	plain := strings.Trim(value, "+-0123456789") == value // slog takes INFO+2 too
	if err := level.UnmarshalText([]byte(value)); err != nil || !plain {
		f.Add("PURSER_LOG_LEVEL", "%q is not debug, info, warn or error", value)
	}
	return level
}

// connections reads how many connections there may be: "8192,16384,512".
func (f *Faults) connections(value string) (c Connections) {
	parts := strings.Split(value, ",")
	places := []*int{&c.REST, &c.Network, &c.PerAddress}
	if len(parts) != len(places) {
		f.Add("PURSER_CONNECTIONS", "%q is not three numbers: REST,card network,of one address", value)
		return c
	}
	for i, part := range parts {
		*places[i] = f.integer("PURSER_CONNECTIONS", part, 1, maxConnections)
	}
	return c
}

// Bytes reads a size: a number of bytes, or one with KiB, MiB or GiB.
func (f *Faults) Bytes(name, value string, least int64) int64 {
	unit, number := int64(1), value
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(value, suffix); ok {
			unit, number = size, rest
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > (1<<50)/unit || n*unit < least {
		f.Add(name, "%q is not a size of at least %d MiB, such as 512MiB", value, least>>20)
		return 0
	}
	return n * unit
}

// sandboxAccounts are made of the seed in the data directory.
func (f *Faults) sandboxAccounts(text string) *address.Accounts {
	seed, err := hex.DecodeString(text)
	if err != nil || len(seed) != address.SeedBytes {
		f.Add("checkout-seed", "is not %d hex digits", 2*address.SeedBytes)
		return nil
	}
	accounts, err := address.Sandbox(seed)
	if err != nil {
		f.Add("checkout-seed", "%v", err)
	}
	return accounts
}

// Connections are how many connections the ports may have.
type Connections struct {
	REST, Network int // at once
	PerAddress    int // of one address; the card network's count here until they have shown their secret
}

// BackupsIn returns the directory in which a running server writes backups.
func (c *Config) BackupsIn() string {
	if c.BackupDir != "" {
		return c.BackupDir
	}
	return BackupsOf(c.DataDir)
}

// BackupsOf returns the directory of backups in a data directory.
func BackupsOf(data string) string { return filepath.Join(data, "backups") }
