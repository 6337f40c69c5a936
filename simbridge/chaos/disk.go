package chaos

import (
	"context"
	"path/filepath"
	"runtime"
)

// BuildDisk builds a leader whose disk can fail as disks do when the power does, and when
// they are worn: after each fdatasync a copy of the file is kept beside it, with
// syncedSuffix, which is what is on the disk for certain; and while there is a file with
// stallSuffix, an fdatasync does not end; one with fullSuffix or readOnlySuffix makes it
// fail. There is no other way to see from outside what
// a program has synced. program is its file, overlay further files of this module to
// replace, by their path in it.
func BuildDisk(ctx context.Context, program string, overlay map[string][]byte) error {
	const declared = "func Fdatasync(fd int) (err error) {"
	return buildLeader(ctx, program, overlay, change{
		file:   filepath.Join("syscall", "zsyscall_linux_"+runtime.GOARCH+".go"),
		before: declared,
		after: `func Fdatasync(fd int) (err error) {
	name := make([]byte, 4096)
	digits := ""
	for n := fd; n > 0 || digits == ""; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	length, err := Readlink("/proc/self/fd/"+digits, name)
	if err != nil {
		return err
	}
	path := string(name[:length])
	for Access(path+"` + stallSuffix + `", 0) == nil {
		Nanosleep(&Timespec{Nsec: 1000000}, nil)
	}
	switch {
	case Access(path+"` + fullSuffix + `", 0) == nil:
		return ENOSPC
	case Access(path+"` + readOnlySuffix + `", 0) == nil:
		return EROFS
	}
	if err := fdatasync(fd); err != nil {
		return err
	}
	part := path + "` + syncedSuffix + `.part"
	to, err := Open(part, O_CREAT|O_WRONLY|O_TRUNC|O_CLOEXEC, 0o640)
	if err != nil {
		return err
	}
	for offset := int64(0); ; {
		n, err := Sendfile(to, fd, &offset, 1<<20)
		if err != nil || n == 0 {
			break
		}
	}
	Close(to)
	return Rename(part, path+"` + syncedSuffix + `")
}

func fdatasync(fd int) (err error) {`,
	})
}

const (
	syncedSuffix   = ".synced"
	stallSuffix    = ".stall"
	fullSuffix     = ".full"
	readOnlySuffix = ".readonly"
)
