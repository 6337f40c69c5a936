// Package brotli replaces github.com/andybalholm/brotli, by a replace directive in go.mod. It
// has only the names that parquet-go needs to compile its codec of that name, which nothing
// here writes with: tables are compressed with Snappy. Reading or writing a column in
// Brotli ends with an error. The replaced library's tables and copies of its encoder are
// 0.8 MB of any program that writes Parquet.
package brotli

import (
	"errors"
	"io"
)

var errReplaced = errors.New("brotli is not linked")

// WriterOptions are those of the replaced library.
type WriterOptions struct{ Quality, LGWin int }

// Writer refuses.
type Writer struct{}

// NewWriterOptions returns a Writer.
func NewWriterOptions(io.Writer, WriterOptions) *Writer { return &Writer{} }

func (*Writer) Write([]byte) (int, error) { return 0, errReplaced }
func (*Writer) Close() error              { return errReplaced }
func (*Writer) Reset(io.Writer)           {}

// Reader refuses.
type Reader struct{}

// NewReader returns a Reader.
func NewReader(io.Reader) *Reader { return &Reader{} }

func (*Reader) Read([]byte) (int, error) { return 0, errReplaced }
func (*Reader) Reset(io.Reader) error    { return nil }
