package configs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// anchors are the values that aliases of a document stand for, by name.
type anchors map[string]*anchor

type anchor struct {
	value   ast.Node
	checked reflect.Type // the last one as which it was checked
}

// check finds the mistakes that go-yaml takes without a word (a fraction where an
// integer is asked for, a number where text is, 0400, which it reads as 256) or reports
// in terms of Go instead of the YAML key. path names the node. What it does not know, it
// leaves to go-yaml.
func (a anchors) check(n ast.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]()) {
		return nil // it checks itself
	}
	switch v := n.(type) {
	case *ast.AnchorNode:
		err := a.check(v.Value, t, path)
		a[v.Name.String()] = &anchor{v.Value, t} // after its value, so that none contains itself
		return err
	case *ast.AliasNode:
		x := a[v.Value.String()]
		if x == nil || x.checked == t {
			return nil
		}
		x.checked = t
		return a.check(x.value, t, path)
	case *ast.TagNode:
		return a.check(v.Value, t, path)
	case *ast.NullNode:
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		mapping, ok := n.(*ast.MappingNode)
		if !ok {
			return mistake(n, path, "want keys below it")
		}
		return a.checkKeys(mapping, t, path)
	case reflect.Map:
		if mapping, ok := n.(*ast.MappingNode); ok {
			for _, v := range mapping.Values {
				if err := checkKey(v.Key, t.Key(), path); err != nil {
					return err
				}
				if err := a.check(v.Value, t.Elem(), join(path, v.Key.String())); err != nil {
					return err
				}
			}
		}
	case reflect.Interface:
		return a.checkAny(n, t, path)
	case reflect.Slice, reflect.Array:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return mistake(n, path, "want a list")
		}
		for i, v := range list.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			if v.Type() == ast.NullType && t.Elem().Kind() != reflect.Pointer {
				return mistake(v, at, "want a value")
			}
			if err := a.check(v, t.Elem(), at); err != nil {
				return err
			}
		}
	default:
		if want := checkScalar(n, t); want != "" {
			return mistake(n, path, want)
		}
	}
	return nil
}

// checkAny checks what another program will read: keys that are text, and no octal numbers.
func (a anchors) checkAny(n ast.Node, t reflect.Type, path string) error {
	switch v := n.(type) {
	case *ast.MappingNode:
		for _, v := range v.Values {
			if err := checkKey(v.Key, reflect.TypeFor[string](), path); err != nil {
				return err
			}
			if err := a.check(v.Value, t, join(path, v.Key.String())); err != nil {
				return err
			}
		}
	case *ast.SequenceNode:
		for i, v := range v.Values {
			if err := a.check(v, t, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case *ast.IntegerNode, *ast.FloatNode:
		if octal.MatchString(n.GetToken().Value) {
			return mistake(n, path, "want a number that does not begin with 0, or text in quotes")
		}
	}
	return nil
}

// checkScalar returns what a value should be, or "" where it is that.
func checkScalar(n ast.Node, t reflect.Type) (want string) {
	kind := t.Kind()
	x, isNumber := number(n)
	isInteger := isNumber && x == math.Trunc(x) && !math.IsInf(x, 0)
	_, isBool := n.(*ast.BoolNode)
	_, isScalar := n.(ast.ScalarNode)
	isNumeric := kind >= reflect.Int && kind <= reflect.Float64
	switch {
	case kind == reflect.Bool && !isBool:
		return "want true or false"
	case kind == reflect.String && !isScalar:
		return "want text"
	case kind == reflect.String && !isText(n):
		return "want text: put it in quotes"
	case isNumeric && octal.MatchString(n.GetToken().Value):
		return "want a number that does not begin with 0"
	case kind >= reflect.Int && kind <= reflect.Int64 && !isInteger:
		return "want an integer"
	case kind >= reflect.Uint && kind <= reflect.Uint64 && !(isInteger && x >= 0):
		return "want an integer, 0 or more"
	case (kind == reflect.Float32 || kind == reflect.Float64) && !isNumber:
		return "want a number"
	}
	return ""
}

// octal is a number with zeros in front, which YAML of one age reads as octal and that of
// another as decimal.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]`)

// isText reports whether a scalar is text: what is a number or a truth value to YAML is
// rewritten where it becomes text, as 007 to 7.
func isText(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return true
	}
	return false
}

// checkKey checks a key of a mapping.
func checkKey(key ast.MapKeyNode, t reflect.Type, path string) error {
	switch {
	case key.Type() == ast.MergeKeyType:
		p := key.GetToken().Position
		return fmt.Errorf("[%d:%d] %s has a merge key, <<, which is not read; write its keys out", p.Line, p.Column, cmp.Or(path, "it"))
	case t.Kind() == reflect.String && !isText(key):
		return mistake(key, join(path, "key"), "want text: put it in quotes")
	}
	return nil
}

// checkKeys checks the keys of a struct, and suggests one where none is known.
func (a anchors) checkKeys(m *ast.MappingNode, t reflect.Type, path string) error {
	fields := map[string]reflect.Type{}
	addFields(fields, t)
	for _, v := range m.Values {
		if err := checkKey(v.Key, reflect.TypeFor[string](), path); err != nil {
			return err
		}
		key := v.Key.String()
		field, known := fields[strings.Trim(key, `"'`)]
		if known {
			if err := a.check(v.Value, field, join(path, key)); err != nil {
				return err
			}
			continue
		}
		suggestion, least := "", 3 // more than two mistyped letters are another word
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if d := editDistance(key, name); d < least {
				suggestion, least = fmt.Sprintf("; did you mean %q?", name), d
			}
		}
		p := v.Key.GetToken().Position
		return fmt.Errorf("[%d:%d] unknown field %q%s", p.Line, p.Column, join(path, key), suggestion)
	}
	return nil
}

// addFields adds the YAML keys of a struct, those of its inline fields too.
func addFields(fields map[string]reflect.Type, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case options == "inline":
			addFields(fields, f.Type)
		case name != "":
			fields[name] = f.Type
		default:
			fields[strings.ToLower(f.Name)] = f.Type
		}
	}
}

// number returns the value of a number, also of one in quotes, which go-yaml takes.
func number(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		text := strings.ReplaceAll(n.GetToken().Value, "_", "")
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(i), true
		}
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil && !math.IsNaN(x)
	case *ast.InfinityNode:
		return v.Value, true
	}
	return math.NaN(), n.Type() == ast.NanType
}

func mistake(n ast.Node, path, want string) error {
	p, text := n.GetToken().Position, n.String()
	if _, isScalar := n.(ast.ScalarNode); isScalar {
		text = n.GetToken().Value
	}
	if first, _, more := strings.Cut(text, "\n"); more || len(text) > 40 {
		text = fmt.Sprintf("%.40s...", first)
	}
	return fmt.Errorf("[%d:%d] %s is %q, %s", p.Line, p.Column, path, text, want)
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// editDistance is Levenshtein's: how many letters to add, drop or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
