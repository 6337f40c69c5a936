package experiment

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// Table is one of a report's. Its cells have names: those of its columns.
type Table struct {
	Name    string // of its CSV file
	Title   string
	Intro   string
	Columns []Column
	Rows    []Row
	After   []string // sentences
}

// Column is one figure of each row.
type Column struct {
	Key    string // names its cells
	Head   string // as printed
	Format string // of numbers
}

// Row has the cells of one row by column: text, whole numbers, and numbers, of which NaN is a figure that
// there is not.
type Row map[string]any

// ReadTables reads tables without rows, as YAML: for each its title, intro and columns. A column is its
// name, which is its head as well, and where it has numbers their format, as in "HV %.3f".
func ReadTables(raw []byte) (map[string]Table, error) {
	var read map[string]struct {
		Title, Intro string
		Columns      []string
	}
	if err := yaml.UnmarshalWithOptions(raw, &read, yaml.Strict()); err != nil {
		return nil, err
	}
	tables := map[string]Table{}
	for name, r := range read {
		t := Table{Name: name, Title: r.Title, Intro: strings.TrimSuffix(r.Intro, "\n")}
		for _, text := range r.Columns {
			t.Columns = append(t.Columns, NewColumn("", text))
		}
		tables[name] = t
	}
	return tables, nil
}

// NewColumn returns a column from such a text, under a key or else under its head.
func NewColumn(key, text string) Column {
	c := Column{Head: text}
	if at := numberFormat.FindStringIndex(text); at != nil {
		c.Head, c.Format = text[:at[0]], text[at[0]+1:]
	}
	c.Key = cmp.Or(key, c.Head)
	return c
}

// numberFormat ends the text of a column of numbers.
var numberFormat = regexp.MustCompile(` %\+?(\.\d+)?[efg]( %%)?$`)

// Columns returns columns whose numbers have seven digits.
func Columns(names ...string) (list []Column) {
	for _, name := range names {
		list = append(list, Column{name, name, "%.7g"})
	}
	return list
}

// Add adds a row.
func (t *Table) Add(r Row) { t.Rows = append(t.Rows, r) }

// SetHead gives a column another head than its name.
func (t *Table) SetHead(key, head string) {
	for i := range t.Columns {
		if t.Columns[i].Key == key {
			t.Columns[i].Head = head
		}
	}
}

// None is printed where there is no figure.
const None = "-"

// Number formats a figure, None if there is none.
func Number(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return None
	}
	return fmt.Sprintf(format, x)
}

// Text is a row's cell.
func (c *Column) Text(r Row) string {
	switch x := r[c.Key].(type) {
	case nil:
		return ""
	case float64:
		return Number(c.Format, x)
	default:
		return fmt.Sprint(x)
	}
}

// Cells returns the heads and every row's cells.
func (t *Table) Cells() (head []string, rows [][]string) {
	for _, c := range t.Columns {
		head = append(head, c.Head)
	}
	for _, r := range t.Rows {
		var cells []string
		for _, c := range t.Columns {
			cells = append(cells, c.Text(r))
		}
		rows = append(rows, cells)
	}
	return head, rows
}

// WriteCSV writes heads and cells.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head, rows := t.Cells()
	return out.WriteAll(append([][]string{head}, rows...))
}

// WriteRows writes heads and cells as Markdown, columns but the first aligned as "---" or "---:" says.
func (t *Table) WriteRows(b *strings.Builder, align string) {
	head, rows := t.Cells()
	fmt.Fprintf(b, "| %s |\n|---%s|\n", strings.Join(head, " | "), strings.Repeat("|"+align, len(head)-1))
	for _, cells := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// WriteMarkdown writes the table, what is said before it and the sentences after it.
func (t *Table) WriteMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", t.Title, t.Intro)
	t.WriteRows(b, "---")
	if len(t.After) > 0 {
		b.WriteString("\n")
	}
	for _, line := range t.After {
		fmt.Fprintf(b, "- %s\n", line)
	}
}
