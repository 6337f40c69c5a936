package flightlog

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// slots has the slots of all flights, in order.
func slots(flights []Flight) (all []Slot) {
	for i := range flights {
		all = append(all, flights[i].Slots...)
	}
	return all
}

// WriteJSON writes one object on a line for each slot.
func WriteJSON(w io.Writer, flights []Flight) error {
	e := json.NewEncoder(w)
	for _, x := range slots(flights) {
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// WriteCSV writes one line for each slot and aircraft: the slot's columns, then the
// aircraft's, whose names begin with aircraft_. A slot without aircraft is a line too.
func WriteCSV(w io.Writer, flights []Flight) error {
	out := csv.NewWriter(w)
	names, none := columns(reflect.ValueOf(Slot{}), "")
	more, empty := columns(reflect.ValueOf(Aircraft{}), "aircraft_")
	for i := range empty {
		empty[i] = ""
	}
	out.Write(append(names, more...))
	for _, x := range slots(flights) {
		_, line := columns(reflect.ValueOf(x), "")
		line = line[:len(none):len(none)]
		if len(x.Aircraft) == 0 {
			out.Write(append(line, empty...))
		}
		for _, a := range x.Aircraft {
			_, part := columns(reflect.ValueOf(a), "aircraft_")
			out.Write(append(line, part...))
		}
	}
	out.Flush() // reports the first error of them all
	return out.Error()
}

// columns returns the names and texts of a struct's fields that are single values.
func columns(v reflect.Value, prefix string) (names, texts []string) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if name == "-" || field.Kind() == reflect.Slice {
			continue
		}
		text := ""
		if field.Kind() != reflect.Pointer {
			text = fmt.Sprint(field.Interface())
		} else if !field.IsNil() {
			text = fmt.Sprint(field.Elem().Interface())
		}
		if field.Kind() == reflect.String && text != "" && strings.Contains("=+-@\t\r", text[:1]) {
			text = "'" + text // or a spreadsheet computes it
		}
		names, texts = append(names, prefix+name), append(texts, text)
	}
	return names, texts
}
