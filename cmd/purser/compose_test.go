package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"purser/cmd/purser/settings"
)

// composeFile has the parts of docker-compose.yml that the tests read.
type composeFile struct {
	Services map[string]struct {
		Build, Image string
		Healthcheck  struct{ Test []string }
		Environment  map[string]string
		Volumes      []string
	}
	Volumes map[string]any
}

func readComposeFile(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	var c composeFile
	require.NoError(t, yaml.Unmarshal(text, &c))
	return c
}

// Each variable that the compose file and the image set for purser is a setting, and together they
// are a valid configuration.
func TestComposeSetsKnownSettings(t *testing.T) {
	settings := defaults(t)
	fields := reflect.ValueOf(&settings).Elem()
	byName := map[string]reflect.Value{}
	for i := range fields.NumField() {
		byName[fields.Type().Field(i).Tag.Get("env")] = fields.Field(i)
	}
	set := func(name, value string) {
		require.Contains(t, byName, name)
		byName[name].SetString(value)
	}
	image, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(PURSER_[A-Z_]+)=(\S+)`).FindAllStringSubmatch(string(image), -1) {
		set(m[1], m[2])
	}
	fallback := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)
	for name, value := range readComposeFile(t).Services["purser"].Environment {
		set(name, fallback.ReplaceAllString(value, "$1"))
	}
	_, err = withDefaults(t, settings).Config()
	require.NoError(t, err)
}

// fixedInCompose has each setting that the compose file does not take from its environment, and the
// reason.
var fixedInCompose = map[string]string{
	"PURSER_HTTP_ADDR": "the image's, whose port the file publishes", "PURSER_AUTHORIZER_ADDR": "likewise",
	"PURSER_ADMIN_ADDR": "likewise", "PURSER_DATA_DIR": "the image's, the volume",
	"PURSER_BACKUP_DIR": "in the volume, the only directory that the server may write",
	"PURSER_BASE_URL":   "the image's, for ports on the loopback", "PURSER_TLS_CERT": "likewise",
	"PURSER_TLS_KEY": "likewise", "PURSER_TRUSTED_PROXIES": "no proxy is in the file",
	"PURSER_PROXY_PROTOCOL": "likewise", "PURSER_ADMIN_HOSTS": "the name under which the file's Prometheus asks",
	"PURSER_LOG_FORMAT": "for log collectors", "PURSER_AUTHORIZER_SYNC": "false is only for comparisons",
	"DATABASE_URL":  "the file's Postgres",
	"KAFKA_BROKERS": "the file's Kafka", "KAFKA_TLS": "likewise", "KAFKA_TLS_CA": "likewise",
	"KAFKA_TLS_CERT": "likewise", "KAFKA_TLS_KEY": "likewise", "KAFKA_SASL_MECHANISM": "likewise",
	"KAFKA_SASL_USERNAME": "likewise", "KAFKA_SASL_PASSWORD": "likewise",
}

// Every setting outside fixedInCompose is passed from the environment of the compose file to the
// server.
func TestComposeForwardsSettings(t *testing.T) {
	environment := readComposeFile(t).Services["purser"].Environment
	settings := reflect.TypeFor[settings.Settings]()
	for i := range settings.NumField() {
		name := settings.Field(i).Tag.Get("env")
		passed := strings.HasPrefix(environment[name], "${"+name+":-")
		require.Equal(t, fixedInCompose[name] == "", passed, name)
	}
}

// Every directory that a service mounts exists, and every volume is declared.
func TestComposeMountsExist(t *testing.T) {
	c := readComposeFile(t)
	for name, service := range c.Services {
		for _, mount := range service.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			if strings.HasPrefix(source, ".") {
				require.DirExists(t, filepath.Join("../..", source), name)
			} else {
				require.Contains(t, c.Volumes, source, name)
			}
		}
	}
}

// Every metric in the dashboard and the alerts is one of the server's. Without this test a renamed
// metric would leave an empty graph.
func TestDashboardAndAlertsReadExistingMetrics(t *testing.T) {
	s, files := testSettings(t, t.TempDir()), newCertificate(t)
	s.TLSCert, s.TLSKey = files.cert, files.key
	c, err := s.Config()
	require.NoError(t, err)
	c.Kafka.Brokers = []string{"127.0.0.1:1"} // no broker is needed for the metrics of the outbox
	m := newDaemon(c, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context()))
	defer func() { require.NoError(t, m.Close()) }()
	known := map[string]bool{}
	described := make(chan *prometheus.Desc)
	go func() {
		m.registry.Describe(described)
		close(described)
	}()
	for d := range described {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())
		known[name[1]] = true
	}
	series := regexp.MustCompile(`\b(?:purser|process|go)_[a-z0-9_]+\b`)
	for _, file := range []string{"grafana/dashboards/purser.json", "prometheus/alerts.yml"} {
		text, err := os.ReadFile(filepath.Join("../../.compose", file))
		require.NoError(t, err)
		named := series.FindAllString(string(text), -1)
		require.NotEmpty(t, named, file)
		for _, name := range named {
			whole := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
			require.True(t, known[name] || known[whole], "%s reads the unknown metric %s", file, name)
		}
	}
}
