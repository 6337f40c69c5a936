package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/user/device"
)

func newTestWatcher(t *testing.T) (*watcher, string) {
	folder := t.TempDir()
	w := newWatcher(folder, 4, 1, io.Discard, slog.New(slog.DiscardHandler))
	t.Cleanup(w.close)
	return w, folder
}

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// taken waits until a file is taken.
func taken(t *testing.T, w *watcher, slot int) string {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if task, ok := w.next(slot); ok {
			return strings.TrimRight(string(task.Input), "\x00")
		}
		if time.Now().After(until) {
			t.Fatal("no file was taken")
		}
	}
}

// A file that is written for a while, empty at first, is taken once it is closed, whole. Until then another one is.
func TestFileIsTakenWhenItIsWhole(t *testing.T) {
	w, folder := newTestWatcher(t)
	f, err := os.Create(filepath.Join(folder, "photo"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.next(0); ok {
		t.Error("an empty file was taken")
	}
	io.WriteString(f, "half")
	if _, ok := w.next(1); ok {
		t.Error("half a file was taken")
	}
	write(t, folder, "another", "whole")
	if got := taken(t, w, 2); got != "whole" {
		t.Errorf("took %q", got)
	}
	io.WriteString(f, " and the rest")
	f.Close()
	if got := taken(t, w, 3); got != "half and the rest" {
		t.Errorf("took %q", got)
	}
	if _, ok := w.next(4); ok {
		t.Error("a file in progress was taken again")
	}
}

// A file that was closed and is written again is not whole any more.
func TestFileThatIsWrittenAgain(t *testing.T) {
	w, folder := newTestWatcher(t)
	write(t, folder, "a", "first")
	for w.oldest(time.Now()) == "" {
		time.Sleep(time.Millisecond)
	}
	f, err := os.OpenFile(filepath.Join(folder, "a"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	io.WriteString(f, ", more")
	if task, ok := w.next(0); ok {
		t.Errorf("took %q", task.Input)
	}
}

// Where nobody was seen to close a file, as before a start, it is whole once it has not changed for a while.
func TestFileSettles(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "old", "from before")
	w := newWatcher(folder, 4, 1, io.Discard, slog.New(slog.DiscardHandler))
	defer w.close()
	now := time.Now()
	if got := w.oldest(now); got != "" {
		t.Errorf("took %q at once", got)
	}
	if got := w.oldest(now.Add(settles / 2)); got != "" {
		t.Errorf("took %q after %v", got, settles/2)
	}
	if got := w.oldest(now.Add(settles)); got != "old" {
		t.Errorf("took %q after %v", got, settles)
	}
}

// After a restart over many finished files the first slot has the one that is not. What failed says why in a file and is left alone, and
// what was in progress when the program ended is computed by the next.
func TestRestartOverFinishedFiles(t *testing.T) {
	w, folder := newTestWatcher(t)
	for i := range 300 {
		write(t, folder, "f"+strconv.Itoa(i), "done")
		write(t, folder, "f"+strconv.Itoa(i)+".out", "DONE")
	}
	write(t, folder, "new", "to do")
	if got := taken(t, w, 0); got != "to do" {
		t.Errorf("took %q", got)
	}
	w.done(device.Outcome{Slot: 0, Err: errEnds})
	if got := taken(t, w, 1); got != "to do" {
		t.Errorf("what was not computed is lost: %q", got)
	}
	w.done(device.Outcome{Slot: 1, Err: errors.New("two\nlines")})
	if reason, err := os.ReadFile(filepath.Join(folder, "new.failed")); err != nil || string(reason) != "two lines\n" {
		t.Errorf("%q, %v", reason, err)
	}
	write(t, folder, "last", "next")
	if got := taken(t, w, 2); got != "next" {
		t.Errorf("took %q", got)
	}
	w.done(device.Outcome{Slot: 2, Output: []byte("NEXT")})
	if got, err := os.ReadFile(filepath.Join(folder, "last.out")); err != nil || !bytes.Equal(got, []byte("NEXT")) {
		t.Errorf("%q, %v", got, err)
	}
}

// A file that cannot be computed does not hold up the others.
func TestFileThatIsTooLarge(t *testing.T) {
	w, folder := newTestWatcher(t)
	f, err := os.Create(filepath.Join(folder, "a-large"))
	if err != nil {
		t.Fatal(err)
	}
	f.Truncate(1 << 40)
	f.Close()
	write(t, folder, "b-small", "small")
	if got := taken(t, w, 0); got != "small" {
		t.Errorf("took %q", got)
	}
	if reason, err := os.ReadFile(filepath.Join(folder, "a-large.failed")); err != nil || !strings.Contains(string(reason), "at most") {
		t.Errorf("%q, %v", reason, err)
	}
}
