package command

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"text/template"

	"prefdt/configs/cli"
)

// PrintReport prints what a command made: as one JSON object, or by a template's text.
func PrintReport(call *cli.Call, asJSON bool, text string, report any) error {
	if asJSON {
		return call.PrintJSON(report)
	}
	return PrintText(call.Stdout, text, report)
}

// PrintText writes a template's text, whose cells are apart by tabs, with its columns on one line below each other.
func PrintText(w io.Writer, text string, data any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	parsed, err := template.New("").Funcs(template.FuncMap{
		"times": func(factor, x float64) float64 { return factor * x },
		"over":  func(x, divisor float64) float64 { return x / divisor },
		"optional": func(format string, x *float64) string { // "-" where there is none
			if x == nil {
				return "-"
			}
			return fmt.Sprintf(format, *x)
		},
	}).Parse(text)
	if err == nil {
		err = parsed.Execute(t, data)
	}
	return errors.Join(err, t.Flush())
}
