// Program samples writes the samples of the API reference into a directory: for each operation
// NAME.sh, NAME.py, NAME.ts and NAME/main.go.
package main

import (
	"log"
	"os"
	"path/filepath"

	"purser/httpapi/openapi"
	"purser/httpapi/reference"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(dir string) error {
	document, err := openapi.Load()
	if err != nil {
		return err
	}
	network, err := openapi.NetworkJSON()
	if err != nil {
		return err
	}
	for _, description := range [][]byte{document.JSON(), network} {
		groups, err := reference.New(description)
		if err != nil {
			return err
		}
		for _, g := range groups {
			for _, o := range g.Operations {
				if err := writeSamples(dir, o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func writeSamples(dir string, o reference.Operation) error {
	name := o.Anchor
	if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
		return err
	}
	for _, sample := range o.Samples {
		file := name + map[string]string{"curl": ".sh", "Python": ".py", "TypeScript": ".ts", "Go": "/main.go"}[sample.Language]
		if err := os.WriteFile(filepath.Join(dir, file), []byte(sample.Code), 0o600); err != nil {
			return err
		}
	}
	return nil
}
