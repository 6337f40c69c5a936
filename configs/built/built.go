// Package built gives tests the programs of this module.
//
// Inputs: a main package. Outputs: its program, at a path of the test's own. The tests of many packages
// start the same programs: each is linked once, into bin/test, and again only after its source has changed.
package built

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Program puts the program of a package such as prefdt/firmware into a file.
func Program(file, of string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "bin", "test")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.MkdirAll(filepath.Dir(file), 0o755)); err != nil {
		return err
	}
	kept := filepath.Join(folder, strings.ReplaceAll(of, "/", "-"))
	// Of packages that are tested at once, one builds and the others wait. The end of a process frees its lock.
	lock, err := os.OpenFile(kept+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	// The same flags as in the Makefile; without a revision, as in a copy of the repository. cp rather than this process
	// writes the copy: a process that another goroutine starts meanwhile would hold it open for writing.
	for _, args := range [][]string{{"go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", kept, of}, {"cp", kept, file}} {
		command := exec.Command(args[0], args[1:]...)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// Root is the module's folder, wherever in it the test runs.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no module above the working folder")
		}
	}
	return "", err
}
