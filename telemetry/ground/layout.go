package main

import "strings"

// narrowColumns is the width below which lines begin at the left edge, without a column
// of labels.
const narrowColumns = 72

// paragraph is a line of the display: a label and parts, which a narrow terminal wraps.
type paragraph struct {
	label  string
	parts  []string
	colour string // empty: the terminal's own
}

// lines lays a paragraph out in so many columns, 0 for one line of any length. Parts are
// kept whole where they fit; a longer one is broken at its spaces, or anywhere.
func (p *paragraph) lines(columns int) (out []string) {
	first, rest := p.label, strings.Repeat(" ", len(p.label))
	narrow := columns > 0 && columns < narrowColumns
	switch text := strings.TrimSpace(p.label); {
	case p.label == "":
	case text != "" && narrow:
		first, rest = text+"  ", "  "
	case text == "" && narrow:
		first, rest = "  ", "    "
	case text == "":
		rest += "  "
	}
	line, empty := first, true
	end := func() {
		out = append(out, strings.TrimRight(line, " "))
		line, empty = rest, true
	}
	fits := func(text string) bool { return columns <= 0 || len(line)+len(text) <= columns }
	add := func(gap, text string) {
		switch {
		case empty && !fits(text) && strings.TrimSpace(line) != "": // behind its label
			end()
		case !empty && fits(gap+text):
			line += gap
		case !empty:
			end()
		}
		line, empty = line+text, false
	}
	for _, part := range p.parts {
		gap := "   "
		if columns <= 0 || len(rest)+len(part) <= columns {
			add(gap, part)
			continue
		}
		for word := range strings.FieldsSeq(part) {
			for len(rest)+len(word) > columns && columns > len(rest) {
				if !empty {
					end()
				}
				room := columns - len(line)
				line, empty, word = line+word[:room], false, word[room:]
			}
			add(gap, word)
			gap = " "
		}
	}
	if !empty || len(out) == 0 {
		end()
	}
	return out
}
