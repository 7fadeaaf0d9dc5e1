package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// severities are the values of the label by which Alertmanager routes.
var severities = []string{"page", "ticket"}

// readYAML parses a file of the folder .compose.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../.compose", name))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), name)
}

func TestEveryAlertHasASeverityAndASummary(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	readYAML(t, "prometheus/alerts.yml", &rules)
	require.NotEmpty(t, rules.Groups)
	for _, rule := range rules.Groups[0].Rules {
		require.Contains(t, severities, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Expr, rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
	}
}

func TestPrometheusSendsAlertsToAlertmanager(t *testing.T) {
	var config struct {
		Alerting struct {
			Alertmanagers []struct {
				Static []struct{ Targets []string } `yaml:"static_configs"`
			}
		}
	}
	readYAML(t, "prometheus/prometheus.yml", &config)
	require.Equal(t, []string{"alertmanager:9093"}, config.Alerting.Alertmanagers[0].Static[0].Targets)
	require.Contains(t, readComposeFile(t).Services, "alertmanager")
}

// alertmanagerConfig is what the tests read of Alertmanager's configuration.
type alertmanagerConfig struct {
	Route struct {
		Receiver string
		Routes   []struct {
			Matchers []string
			Receiver string
		}
	}
	Receivers []struct {
		Name     string
		Webhooks []struct {
			URLFile string `yaml:"url_file"`
		} `yaml:"webhook_configs"`
	}
}

// startAlertmanager runs the start script of the compose file with a program that prints its first
// argument in place of Alertmanager, and returns the configuration that it is started with.
func startAlertmanager(t *testing.T, webhook string) (config alertmanagerConfig) {
	t.Helper()
	start := exec.Command("sh", "../../.compose/alertmanager/start", "echo")
	start.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "ALERT_WEBHOOK_URL=" + webhook}
	out, err := start.CombinedOutput()
	require.NoError(t, err, string(out))
	file := strings.TrimPrefix(strings.TrimSpace(string(out)), "--config.file=")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config), string(text))
	return config
}

func TestAlertmanagerRoutesBySeverity(t *testing.T) {
	config := startAlertmanager(t, "")
	var routed []string
	for _, route := range config.Route.Routes {
		require.Equal(t, config.Route.Receiver, route.Receiver)
		require.Len(t, route.Matchers, 1)
		routed = append(routed, strings.Trim(strings.TrimPrefix(route.Matchers[0], "severity="), `"`))
	}
	require.Equal(t, severities, routed)
	require.Len(t, config.Receivers, 1)
	require.Equal(t, config.Route.Receiver, config.Receivers[0].Name)
	require.Empty(t, config.Receivers[0].Webhooks, "without a URL the alerts are only on the page")
}

func TestAlertmanagerPostsToTheWebhookOfItsEnvironment(t *testing.T) {
	const url = "https://example.com/hook?token=a&b=$c"
	config := startAlertmanager(t, url)
	require.Len(t, config.Receivers, 1)
	require.Len(t, config.Receivers[0].Webhooks, 1)
	file := config.Receivers[0].Webhooks[0].URLFile
	posted, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, url, string(posted))
	mode, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode.Mode().Perm(), "the URL may have a secret")
}

// Images have an exact version, so that a deployment of today is the one of tomorrow, and every
// service has a health check.
func TestComposeImagesHaveExactVersions(t *testing.T) {
	for name, service := range readComposeFile(t).Services {
		if service.Build == "" {
			require.Regexp(t, `^[a-z/]+:v?\d+\.\d+(\.\d+)?$`, service.Image, name)
		}
		require.NotEmpty(t, service.Healthcheck.Test, name)
	}
}

// The dashboard begins with a row of figures, each with a threshold that colours it, which fill the
// row's width once.
func TestDashboardBeginsAtAGlance(t *testing.T) {
	text, err := os.ReadFile("../../.compose/grafana/dashboards/purser.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			FieldConfig struct {
				Defaults struct {
					Thresholds struct{ Steps []struct{ Color string } }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.Equal(t, "At a glance", dashboard.Panels[0].Title)
	ids, width := map[int]bool{}, 0
	for _, panel := range dashboard.Panels {
		require.False(t, ids[panel.ID], "panel %d is there twice", panel.ID)
		ids[panel.ID] = true
		if panel.GridPos.Y == 1 {
			require.Equal(t, "stat", panel.Type, panel.Title)
			require.NotEmpty(t, panel.FieldConfig.Defaults.Thresholds.Steps, panel.Title)
			require.Equal(t, width, panel.GridPos.X, panel.Title)
			width += panel.GridPos.W
		}
	}
	require.Equal(t, 24, width)
}
