package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// NetworkSecretFile is the name of the card network's secret in a data directory.
const NetworkSecretFile = "network-secret"

// SplitSecrets returns the secrets of a setting or a file, which separates them with commas.
func SplitSecrets(text string) []string {
	secrets := strings.Split(text, ",")
	for i := range secrets {
		secrets[i] = strings.TrimSpace(secrets[i])
	}
	return secrets
}

// NetworkSecret returns the first secret of the card network for a client of the server: that of
// the file, else of the setting, else of the data directory. An empty file or setting is not used.
// Source is the file, or PURSER_NETWORK_SECRET. It fails only when the file cannot be read.
func NetworkSecret(data, setting, file string) (secret, source string, err error) {
	source = "PURSER_NETWORK_SECRET"
	if file == "" && setting == "" {
		file = filepath.Join(data, NetworkSecretFile)
	}
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("the card network's secret: %w (name its file with --network-secret-file, "+
				"or set PURSER_NETWORK_SECRET to what the server was given)", err)
		}
		setting, source = string(content), file
	}
	return SplitSecrets(setting)[0], source, nil
}
