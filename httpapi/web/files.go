package web

import (
	"crypto/sha256"
	_ "embed" // tokens.css
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// File is a file that a page loads from the server.
type File struct {
	ContentType string
	Content     []byte
}

// Files holds the style sheets, scripts and images that pages load. The name under which one is
// served contains a hash of its content, so browsers may cache it without end. Files never change.
type Files struct {
	byName map[string]File
	paths  map[string]string
}

// contentTypes are the types of the files that pages load, by extension.
var contentTypes = map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
	"svg": "image/svg+xml"}

// tokens are the colours that every style sheet begins with.
//
//go:embed tokens.css
var tokens []byte

// readFile reads a file of a page. A style sheet begins with the tokens.
func readFile(from fs.FS, name string) ([]byte, error) {
	content, err := fs.ReadFile(from, name)
	if err == nil && path.Ext(name) == ".css" {
		content = slices.Concat(tokens, content)
	}
	return content, err
}

// LoadFiles reads the named files. base is the path under which they are served; it ends with a
// slash. It fails for a name that from does not have, and for an extension without a content type.
func LoadFiles(from fs.FS, base string, names ...string) (*Files, error) {
	f := &Files{byName: map[string]File{}, paths: map[string]string{}}
	for _, name := range names {
		content, err := readFile(from, name)
		if err != nil {
			return nil, err
		}
		stem, extension, _ := strings.Cut(name, ".")
		if contentTypes[extension] == "" {
			return nil, fmt.Errorf("web: file %s has an unknown extension", name)
		}
		sum := sha256.Sum256(content)
		versioned := stem + "-" + hex.EncodeToString(sum[:6]) + "." + extension
		f.byName[versioned] = File{contentTypes[extension], content}
		f.paths[name] = base + versioned
	}
	return f, nil
}

// File returns a file by its versioned name, and false for an unknown name.
func (f *Files) File(name string) (File, bool) {
	file, ok := f.byName[name]
	return file, ok
}

// Inline returns a style sheet as the element of a page that loads no files. The policy of the page
// has its StyleSource.
func (f *Files) Inline(name string) template.HTML {
	return template.HTML("<style>" + string(f.byName[path.Base(f.paths[name])].Content) + "</style>")
}

// StyleSource returns the source by which a Content-Security-Policy admits the inline style sheet
// of a file, and no other. It panics for a name that from does not have.
func StyleSource(from fs.FS, name string) string {
	content, err := readFile(from, name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// PathOf returns the path under which a file of LoadFiles is served; "" for another name.
func (f *Files) PathOf(name string) string { return f.paths[name] }
