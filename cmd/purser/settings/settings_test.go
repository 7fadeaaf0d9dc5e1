package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"purser/actors/checkout/address"
	"purser/httpapi"
)

// unset returns the settings of a command line without flags.
func unset(t *testing.T) Settings {
	t.Helper()
	var s Settings
	parser, err := kong.New(&s)
	require.NoError(t, err)
	_, err = parser.Parse(nil)
	require.NoError(t, err)
	return s
}

func TestDefaultsAreComplete(t *testing.T) {
	c, err := unset(t).Config()
	require.NoError(t, err)
	require.Equal(t, httpapi.DefaultRateLimits(), c.RateLimits)
	require.Equal(t, httpapi.DefaultPayoutLimits(), c.PayoutLimits)
	require.Equal(t, int64(512<<20), c.AuthorizerCacheBytes)
	require.Equal(t, 2*time.Second, c.SandboxDelay)
	require.True(t, c.SignupOpen)
	require.Equal(t, httpapi.IssuerFixture, c.Issuer)
	require.True(t, c.AuthorizerSync)
	require.False(t, c.PrivateWebhooks)
	require.Equal(t, 10_000_000, c.BacklogMax)
	require.Zero(t, c.CheckoutTolerance, "a shortfall is accepted by a merchant's choice only")
}

// Every setting but the names of directories can be wrong, a new one too; all of them at once are
// all named.
func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	s := Settings{HTTPAddr: "8080", AuthorizerAddr: "h:x", AdminAddr: "h:70000", AdminHosts: "h:1",
		BaseURL: "ftp://x", NetworkSecret: "a,b,c",
		PartnerSecret: "short", PartnerSecretBank: "short", PartnerSecretRamp: "short", PartnerSecretCoin: "short",
		OperatorSecret: "short", SMTPURL: "mail", PartnerSignatures: "v3", DataKey: "zz", RateLimits: "1,2", PayoutLimits: "1,0", BacklogMax: "-1",
		SandboxDelay: "soon", AnswerWithin: "1ms", Slack: "101", PasswordNice: "-1",
		Signup: "maybe", PhysicalCards: "some", MultiCurrency: "some", FeatureConvert: "some", Ramp: "some",
		Issuer: "nobody", AuthorizerCache: "lots", AuthorizerSync: "perhaps", PrivateWebhooks: "some", LogLevel: "loud", LogFormat: "xml",
		CheckoutTolerance: "51,0", DiskReserve: "1", TLSCert: "cert", TLSKey: "key", TrustedProxies: "proxy",
		ProxyProtocol: "v1", Connections: "8192", BodyBudget: "1", Refusals: "many",
		DatabaseURL: "postgres://h:port/secret", KafkaBrokers: "x:1,y", KafkaTLS: "some", KafkaTLSCA: "a",
		KafkaTLSCert: "b",
		KafkaTLSKey:  "c", KafkaSASLMechanism: "GSSAPI", KafkaSASLUsername: "", KafkaSASLPassword: "",
		CheckoutXpubEVM: "xpub", CheckoutXpubBTC: "zpub",
		ChainEthereumURL: "node", ChainPolygonURL: "node", ChainArbitrumURL: "node", ChainBaseURL: "node",
		ChainOptimismURL: "node", ChainSolanaURL: "node", ChainBitcoinURL: "node"}
	_, err := s.Config()
	require.Error(t, err)
	for field := range reflect.TypeFor[Settings]().Fields() {
		if name := field.Tag.Get("env"); name != "PURSER_DATA_DIR" && name != "PURSER_BACKUP_DIR" {
			require.ErrorContains(t, err, name+":")
		}
	}
	require.NotContains(t, err.Error(), "short\"", "secrets are not echoed")
	require.NotContains(t, err.Error(), "secret\"", "a URL has a password in it")
}

func TestSettingsThatExcludeEachOther(t *testing.T) {
	s := unset(t)
	s.AdminAddr, s.NetworkSecret = s.HTTPAddr, "a secret of sixteen,a secret of sixteen"
	_, err := s.Config()
	require.ErrorContains(t, err, "PURSER_ADMIN_ADDR: \"127.0.0.1:8080\" is the address of PURSER_HTTP_ADDR too")
	require.ErrorContains(t, err, "PURSER_NETWORK_SECRET: has the same secret twice")
	require.NotContains(t, err.Error(), "sixteen", "secrets are not echoed")
	s = unset(t)
	s.HTTPAddr, s.AuthorizerAddr, s.AdminAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	_, err = s.Config()
	require.NoError(t, err)
}

func TestSettingsThatAreAlmostRight(t *testing.T) {
	for _, c := range []struct{ set, to, fault string }{
		{"LogLevel", "INFO+2", "PURSER_LOG_LEVEL"}, {"LogLevel", "Warn", ""}, {"LogLevel", "warning", "PURSER_LOG_LEVEL"},
		{"BaseURL", "https://x.test/?a=b", "PURSER_BASE_URL"}, {"BaseURL", "https://x.test/?", "PURSER_BASE_URL"},
		{"BaseURL", "https://x.test/#a", "PURSER_BASE_URL"}, {"BaseURL", "https://me:word@x.test", "PURSER_BASE_URL"},
		{"BaseURL", "https://x.test/pay/", ""},
		{"NetworkSecret", "a secret of sixteen, a secret of sixteen", "PURSER_NETWORK_SECRET"},
	} {
		s := unset(t)
		reflect.ValueOf(&s).Elem().FieldByName(c.set).SetString(c.to)
		_, err := s.Config()
		if c.fault == "" {
			require.NoError(t, err, c.to)
			continue
		}
		require.ErrorContains(t, err, c.fault+":", c.to)
		require.NotContains(t, err.Error(), "word", "secrets are not echoed")
	}
	s := unset(t)
	s.NetworkSecret = "the first secret of two, the second secret of two"
	c, err := s.Config()
	require.NoError(t, err)
	require.Equal(t, []string{"the first secret of two", "the second secret of two"}, c.NetworkSecrets)
}

// Only the public key of an account is taken; a private one is not echoed. A network without an
// account has no addresses.
func TestCheckoutAccounts(t *testing.T) {
	const (
		xpub    = "xpub6DCoCpSuQZB2jawqnGMEPS63ePKWkwWPH4TU45Q7LPXWuNd8TMtVxRrgjtEshuqpK3mdhaWHPFsBngh5GFZaM6si3yZdUsT8ddYM3PwnATt"
		private = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi"
	)
	s := unset(t)
	s.CheckoutXpubEVM, s.CheckoutXpubBTC = private, "zpub"
	_, err := s.Config()
	require.ErrorContains(t, err, "PURSER_CHECKOUT_XPUB_EVM: address: an extended private key")
	require.ErrorContains(t, err, "PURSER_CHECKOUT_XPUB_BTC: address: not an extended public key")
	require.NotContains(t, err.Error(), private)

	s.CheckoutXpubEVM, s.CheckoutXpubBTC, s.ChainBitcoinURL = xpub, "", "http://node.test"
	_, err = s.Config()
	require.ErrorContains(t, err, "PURSER_CHECKOUT_XPUB_EVM: nobody would see what is paid: set PURSER_CHAIN_ETHEREUM_URL")
	s.ChainPolygonURL = "http://node.test"
	c, err := s.Config()
	require.NoError(t, err)
	s.CheckoutXpubBTC, s.ChainBitcoinURL = xpub, ""
	_, err = s.Config()
	require.ErrorContains(t, err, "PURSER_CHECKOUT_XPUB_BTC: nobody would see what is paid: set PURSER_CHAIN_BITCOIN_URL")
	c.DataDir = t.TempDir()
	require.NoError(t, c.FindSecrets())
	require.False(t, c.CheckoutAccounts.IsSandbox())
	require.True(t, c.CheckoutAccounts.Has(address.EVM))
	require.False(t, c.CheckoutAccounts.Has(address.Bitcoin), "no sandbox's beside a real one")

	c = Config{DataDir: t.TempDir()}
	require.NoError(t, c.FindSecrets())
	require.True(t, c.CheckoutAccounts.IsSandbox())
	require.True(t, c.CheckoutAccounts.Has(address.Solana))
}

// A database that outlives the directory is not sealed under a key that lies in it.
func TestADatabaseNeedsADataKey(t *testing.T) {
	s := unset(t)
	s.DatabaseURL, s.KafkaBrokers = "postgres://purser:word@db/purser", "one:9092, two:9092"
	_, err := s.Config()
	require.ErrorContains(t, err, "PURSER_DATA_KEY: is required with DATABASE_URL")
	require.NotContains(t, err.Error(), "word")
	s.DataKey = strings.Repeat("ab", DataKeyBytes)
	c, err := s.Config()
	require.NoError(t, err)
	require.Equal(t, s.DatabaseURL, c.DatabaseURL)
	require.Equal(t, []string{"one:9092", "two:9092"}, c.Kafka.Brokers)
}

func TestRateLimitsOffAndSizes(t *testing.T) {
	s := unset(t)
	s.RateLimits, s.AuthorizerCache = "off", "1GiB"
	c, err := s.Config()
	require.NoError(t, err)
	require.True(t, c.RateLimits.Off)
	require.Equal(t, int64(1<<30), c.AuthorizerCacheBytes)
}

func TestSecretsAreMadeOnceAndForTheOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	first := Config{DataDir: dir}
	require.NoError(t, first.FindSecrets())
	second := Config{DataDir: dir}
	require.NoError(t, second.FindSecrets())
	require.Len(t, first.madeSecrets, len(SecretSettings))
	require.Empty(t, second.madeSecrets)
	first.madeSecrets = nil
	require.Equal(t, first, second)
	require.Len(t, first.DataKeys[0], DataKeyBytes)
	require.NotEqual(t, first.NetworkSecrets[0], first.PartnerSecrets.Common[0])
	for _, name := range []string{"network-secret", "partner-secret", "data-key", "checkout-seed"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data-key"), nil, 0o600))
	require.ErrorContains(t, (&Config{DataDir: dir}).FindSecrets(), "data-key")
}

// TestKafkaSettings: missing settings, settings that need another one, and a password that would
// travel unencrypted are refused.
func TestKafkaSettings(t *testing.T) {
	const (
		elsewhere = "kafka.test:9092"
		here      = "127.0.0.1:9092,localhost:9092,[::1]:9092"
		plain     = "PLAIN"
		unsafe    = "KAFKA_SASL_MECHANISM: PLAIN sends"
	)
	for name, c := range map[string]struct {
		set   Settings
		fault string
	}{
		"plain to elsewhere": {Settings{KafkaBrokers: elsewhere, KafkaSASLMechanism: plain}, unsafe},
		"plain to both":      {Settings{KafkaBrokers: here + "," + elsewhere, KafkaSASLMechanism: plain}, unsafe},
		"plain to here":      {Settings{KafkaBrokers: here, KafkaSASLMechanism: plain}, ""},
		"plain encrypted":    {Settings{KafkaBrokers: elsewhere, KafkaSASLMechanism: plain, KafkaTLS: "true"}, ""},
		"scram 512":          {Settings{KafkaBrokers: elsewhere, KafkaSASLMechanism: "SCRAM-SHA-512"}, ""},
		"scram 256":          {Settings{KafkaBrokers: elsewhere, KafkaSASLMechanism: "SCRAM-SHA-256"}, ""},
		"no mechanism":       {Settings{KafkaBrokers: elsewhere}, "KAFKA_SASL_PASSWORD: needs KAFKA_SASL_MECHANISM"},
		"certificate, no TLS": {Settings{KafkaTLSCert: "x", KafkaSASLMechanism: plain},
			"KAFKA_TLS_CERT: needs KAFKA_TLS"},
		"no key": {Settings{KafkaTLS: "true", KafkaTLSCert: "x", KafkaSASLMechanism: plain},
			"KAFKA_TLS_KEY: is missing"},
		"no certificate": {Settings{KafkaTLS: "true", KafkaTLSKey: "x", KafkaSASLMechanism: plain},
			"KAFKA_TLS_CERT: is missing"},
		"no file": {Settings{KafkaTLS: "true", KafkaTLSCA: "nowhere", KafkaSASLMechanism: plain},
			"KAFKA_TLS_CA: open nowhere"},
		"no authority": {Settings{KafkaTLS: "true", KafkaTLSCA: "settings_test.go", KafkaSASLMechanism: plain},
			"KAFKA_TLS_CA: settings_test.go has no"},
	} {
		s := filled(t, c.set)
		s.KafkaSASLUsername, s.KafkaSASLPassword = "purser", "hunter2"
		config, err := s.Config()
		if c.fault == "" {
			require.NoError(t, err, name)
			require.NotNil(t, config.Kafka.SASL, name)
			require.Equal(t, s.KafkaTLS == "true", config.Kafka.TLS != nil, name)
			continue
		}
		require.ErrorContains(t, err, c.fault, name)
		require.NotContains(t, err.Error(), "hunter2", "secrets are not echoed")
	}
}

// filled gives each empty field its default.
func filled(t *testing.T, given Settings) Settings {
	t.Helper()
	s, fields := unset(t), reflect.ValueOf(given)
	for i := range fields.NumField() {
		if value := fields.Field(i).String(); value != "" {
			reflect.ValueOf(&s).Elem().Field(i).SetString(value)
		}
	}
	return s
}
