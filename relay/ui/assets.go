package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assetFiles embed.FS

var assets, assetBodies = hashed()

// mark is the logo, which is a part of each page, and icon the same as a URL.
var (
	//go:embed mark.svg
	mark string
	icon = template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(mark)))
)

var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

// hashed returns where each file is served, and what is served there.
func hashed() (paths map[string]string, bodies map[string][]byte) {
	paths, bodies = map[string]string{}, map[string][]byte{}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		data, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		paths[e.Name()], bodies[name] = Root+"assets/"+name, data
	}
	return paths, bodies
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	body, ok := assetBodies[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	head := w.Header()
	head.Set("Content-Type", assetKinds[path.Ext(name)])
	head.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
