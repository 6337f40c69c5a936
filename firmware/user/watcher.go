package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"prefdt/firmware/user/device"
	"prefdt/telemetry/task"
)

// watcher makes tasks of the files of a folder. What was done stands in the folder: FILE.out has the output, FILE.failed why there is none.
type watcher struct {
	folder    string
	unitBytes int
	deadlineS float64
	out       *json.Encoder
	log       *slog.Logger
	closings  *os.File // inotify's; nil: there is none

	mutex  sync.Mutex
	files  map[string]seen // those that may still be written
	slots  map[int]string  // the file of each task in progress
	silent bool            // the folder could not be read, and that was said
}

// seen is a file as it was when it last changed.
type seen struct {
	size   int64
	at     time.Time // as the file system has it, by whatever clock
	since  time.Time // when it was first seen so
	whole  bool      // who wrote it had closed it then, or it was renamed into the folder
	closed bool      // likewise, since it was last looked at
}

// settles is for how long a file does not change before it counts as whole, where nobody was seen to close it.
const settles = 2 * time.Second

func newWatcher(folder string, unitBytes int, deadlineS float64, out io.Writer, log *slog.Logger) *watcher {
	w := &watcher{folder: folder, unitBytes: unitBytes, deadlineS: deadlineS, out: json.NewEncoder(out), log: log,
		files: map[string]seen{}, slots: map[int]string{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		w.closings = os.NewFile(uintptr(fd), "inotify")
		if _, err = unix.InotifyAddWatch(fd, folder, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO); err == nil {
			go w.watch()
			return w
		}
	}
	log.Warn("who closes a file is not seen: each counts as whole once it has not changed for a while", "reason", err, "settles", settles)
	return w
}

func (w *watcher) close() {
	if w.closings != nil {
		w.closings.Close()
	}
}

// watch notes the files that are closed.
func (w *watcher) watch() {
	events := make([]byte, 1<<16)
	for {
		n, err := w.closings.Read(events)
		if err != nil {
			return
		}
		w.mutex.Lock()
		for rest := events[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			// struct inotify_event: i32 wd, u32 mask, u32 cookie, u32 len, then a name with zeros up to len.
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name, _, _ := strings.Cut(string(rest[unix.SizeofInotifyEvent:end]), "\x00")
			f := w.files[name]
			f.closed = true
			if isInput(name) {
				w.files[name] = f
			}
			rest = rest[end:]
		}
		w.mutex.Unlock()
	}
}

// isInput is whether a name is that of a task's file.
func isInput(name string) bool {
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, output) && !strings.HasSuffix(name, failed)
}

// What is appended to the name of a file.
const (
	output = ".out"
	failed = ".failed"
)

// next is the oldest file that is whole and not done; files of one time by their names.
func (w *watcher) next(slot int) (t device.Task, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for {
		name := w.oldest(time.Now())
		if name == "" {
			return t, false
		}
		input, err := w.read(name)
		if errors.Is(err, errChanged) {
			continue // it is seen anew
		}
		if err != nil {
			w.fail(name, err)
			if _, err := os.Stat(filepath.Join(w.folder, name+failed)); err != nil {
				return t, false // it would be the oldest again
			}
			continue
		}
		delete(w.files, name)
		w.slots[slot] = name
		if rest := len(input) % w.unitBytes; rest > 0 { // the last unit is filled up
			input = append(input, make([]byte, w.unitBytes-rest)...)
		}
		return device.Task{Input: input, DeadlineS: w.deadlineS}, true
	}
}

// oldest looks at the folder. An empty file is one that is still to be written.
func (w *watcher) oldest(now time.Time) (oldest string) {
	entries, err := os.ReadDir(w.folder)
	if (err != nil) != w.silent {
		if w.silent = err != nil; w.silent {
			w.log.Error("folder", "reason", err)
		}
	}
	done := map[string]bool{}
	for _, e := range entries {
		for _, suffix := range []string{output, failed} {
			if of, ok := strings.CutSuffix(e.Name(), suffix); ok {
				done[of] = true
			}
		}
	}
	for _, name := range w.slots {
		done[name] = true
	}
	at, there := time.Time{}, map[string]seen{}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !isInput(name) || done[name] {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		f := w.files[name]
		if f.since.IsZero() || f.size != info.Size() || !f.at.Equal(info.ModTime()) {
			f = seen{size: info.Size(), at: info.ModTime(), since: now, closed: f.closed}
		}
		f.whole, f.closed = f.whole || f.closed, false
		there[name] = f
		if f.size > 0 && (f.whole || now.Sub(f.since) >= settles) && (oldest == "" || f.at.Before(at)) {
			oldest, at = name, f.at
		}
	}
	w.files = there
	return oldest
}

// errChanged is the error of a file that is being written.
var errChanged = errors.New("it changed while it was read")

// read reads a file that has not changed since it was looked at.
func (w *watcher) read(name string) ([]byte, error) {
	f := w.files[name]
	if f.size > task.MaxBytes {
		return nil, fmt.Errorf("%d bytes, at most %d are computed", f.size, task.MaxBytes)
	}
	path := filepath.Join(w.folder, name)
	input, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err != nil || int64(len(input)) != f.size || !info.ModTime().Equal(f.at) {
		delete(w.files, name)
		return nil, errChanged
	}
	return input, nil
}

// done writes a task's output, whole or not at all, or why there is none, and prints its line.
func (w *watcher) done(o device.Outcome) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	name := w.slots[o.Slot]
	delete(w.slots, o.Slot)
	if errors.Is(o.Err, errEnds) {
		return
	}
	if o.Err == nil {
		o.Err = w.write(name+output, o.Output)
	} else {
		w.fail(name, o.Err)
	}
	if o.Err != nil {
		o.Problem = o.Err.Error()
	}
	w.out.Encode(struct {
		File string `json:"file"`
		device.Outcome
	}{name, o})
}

// fail writes why a file could not be computed.
func (w *watcher) fail(name string, reason error) {
	w.log.Error("task", "file", name, "reason", reason)
	if err := w.write(name+failed, []byte(strings.ReplaceAll(reason.Error(), "\n", " ")+"\n")); err != nil {
		w.log.Error("task", "file", name+failed, "reason", err)
	}
}

func (w *watcher) write(name string, content []byte) error {
	temporary := filepath.Join(w.folder, "."+name+".new")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		os.Remove(temporary)
		return err
	}
	return os.Rename(temporary, filepath.Join(w.folder, name))
}
