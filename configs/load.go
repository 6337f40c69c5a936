// Package configs holds the commented YAML of each program, the shipped
// checkpoint and the deployment files, and reads such YAML strictly.
//
// Inputs: a YAML file and a struct that holds the defaults. Outputs: the struct
// with the file's values in it, or an error of one line. Package cli calls it for
// every program, and the packages that read a file of their own, as worlds and
// training recipes are. What is trained and compared offline has its defaults from
// the commented files themselves (Default).
package configs

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxBytes bounds a configuration file; a larger one is a mistake or an attack.
const maxBytes = 1 << 20

// Load reads the YAML file at path into cfg, which holds the defaults. A key
// that cfg does not know, a key given twice or a value of the wrong type, a
// fraction for an integer too, is an error of one line that names the file, the
// line and the key.
func Load(path string, cfg any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return fmt.Errorf("read configuration %s: %w", path, err)
	}
	if len(raw) > maxBytes {
		return fmt.Errorf("read configuration %s: larger than %d bytes", path, maxBytes)
	}
	if err := Decode(raw, cfg); err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	return nil
}

// defaults are the commented files that are read in place of defaults in Go.
//
//go:embed estimator.yaml methods.yaml paper.yaml prefdt.yaml search.yaml study.yaml train.yaml
var defaults embed.FS

// Default reads one of these files, by its name, into cfg.
func Default(name string, cfg any) {
	raw, err := defaults.ReadFile(name)
	if err != nil {
		panic(err)
	}
	MustDecode(raw, cfg)
}

// MustDecode is Decode of a file that is part of the program.
func MustDecode(raw []byte, cfg any) {
	if err := Decode(raw, cfg); err != nil {
		panic(err)
	}
}

// byteOrderMark begins a file that some editors of Windows wrote; it is no part of its text.
var byteOrderMark = []byte("\ufeff")

// Decode is Load for YAML already in memory.
func Decode(raw []byte, cfg any) (err error) {
	defer func() {
		if recover() != nil { // go-yaml, on a list or a map that is tagged as something else
			err = errors.New("malformed YAML")
		}
	}()
	if raw = bytes.TrimPrefix(raw, byteOrderMark); bytes.HasPrefix(raw, []byte("\xff\xfe")) || bytes.HasPrefix(raw, []byte("\xfe\xff")) {
		return errors.New("it is UTF-16, want UTF-8; have the editor save it as that")
	}
	file, err := parser.ParseBytes(raw, 0)
	if err == nil {
		hasBody := func(doc *ast.DocumentNode) bool {
			return doc.Body != nil && doc.Body.Type() != ast.CommentType && doc.Body.Type() != ast.NullType
		}
		i := slices.IndexFunc(file.Docs, hasBody)
		if i < 0 {
			return nil // go-yaml would set every field to zero
		}
		if j := slices.IndexFunc(file.Docs[i+1:], hasBody); j >= 0 {
			p := file.Docs[i+1+j].Body.GetToken().Position
			return fmt.Errorf("[%d:%d] it is in a second document, and only the first is read; remove the line ---", p.Line, p.Column)
		}
		if err := (anchors{}).check(file.Docs[i].Body, reflect.TypeOf(cfg), ""); err != nil {
			return err
		}
		err = yaml.UnmarshalWithOptions(raw, cfg, yaml.Strict())
	}
	if err == nil {
		return nil
	}
	// go-yaml prints the offending lines below the message; the first line says it all.
	return errors.New(strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0])
}
