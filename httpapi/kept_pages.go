package httpapi

import (
	"bytes"
	"io"
	"sync"

	"github.com/valyala/fasthttp"
)

// keptPages are pages that are the same for everybody. A request costs no rendering, which a
// stranger may ask for any number of times.
type keptPages struct {
	bodies sync.Map // []byte by key, never modified
}

// writePage answers with the page of a key. It renders the page when it is asked for the first time.
// Keys are those of the embedded documents, never a caller's text: nothing removes a page. It fails
// only when render does.
func (p *keptPages) writePage(ctx *fasthttp.RequestCtx, key string, render func(io.Writer) error) error {
	body, kept := p.bodies.Load(key)
	if !kept {
		var rendered bytes.Buffer
		if err := render(&rendered); err != nil {
			return err
		}
		body, _ = p.bodies.LoadOrStore(key, rendered.Bytes())
	}
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBodyRaw(body.([]byte))
	return nil
}
