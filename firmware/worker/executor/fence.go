package executor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel holds a process to what its function needs. It reads the system's programs, its own folder and [Program].Reads, writes in
// Writes alone, and signals nobody outside (Landlock); it opens no socket (seccomp: Landlock knows TCP alone, and lets MPTCP pass).

// systemReads is what programs and interpreters read of a system; what is not there is left out.
var systemReads = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/etc/ld.so.cache", "/etc/localtime", "/dev/zero",
	"/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system", "/sys/kernel/mm"}

// levels is what kernels can forbid, the newest first: one refuses what it does not know.
var levels = []unix.LandlockRulesetAttr{
	{Handled_access_fs: 1<<17 - 1, Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
	{Handled_access_fs: 1<<16 - 1, Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
	{Handled_access_fs: 1<<16 - 1}, {Handled_access_fs: 1<<15 - 1}, {Handled_access_fs: 1<<14 - 1}, {Handled_access_fs: 1<<13 - 1},
}

// Rights, of which a file has fewer than a folder.
const (
	reading = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// newRuleset returns the most that this kernel can forbid. Without Landlock there is no file descriptor.
func newRuleset() (fd int, forbids unix.LandlockRulesetAttr) {
	for _, forbids = range levels {
		if r, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&forbids)), unsafe.Sizeof(forbids), 0); e == 0 {
			return int(r), forbids
		}
	}
	return -1, unix.LandlockRulesetAttr{}
}

// Fence is what this kernel holds processes to, in words.
func Fence() string {
	files, sockets := "no files but the system's programs and their own (Landlock)", "no sockets (seccomp)"
	fd, _ := newRuleset()
	if unix.Close(fd) != nil {
		files = "this program's rights to files, without Landlock"
	}
	if _, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil {
		sockets = "to sockets, without seccomp"
	}
	return "functions have " + files + ", " + sockets
}

// architectures are those by which a filter knows this program's system calls from those of other processors.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "arm": unix.AUDIT_ARCH_ARM}

// noSockets forbids this thread, and what it starts, to open sockets, for good. io_uring opens them by itself.
func noSockets() error {
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	is := func(x uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: x}
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	filter := []unix.SockFilter{ // of struct seccomp_data: the call's number at 0, the architecture at 4
		load(4), is(architectures[runtime.GOARCH], 0, 4),
		load(0), is(unix.SYS_SOCKET, 2, 0), is(unix.SYS_IO_URING_SETUP, 1, 0),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: 1 << 30}, // amd64's numbers for 32-bit pointers
		{Code: unix.BPF_RET | unix.BPF_K, K: refuse},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	if err == unix.EINVAL { // a kernel without it
		return nil
	}
	return err
}

// fence restricts this thread, and what it starts, for good, as far as the kernel can.
func (p *Program) fence(own []string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := noSockets(); err != nil {
		return fmt.Errorf("forbid a function sockets: %w", err)
	}
	fd, forbids := newRuleset()
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	allow := func(path string, rights uint64) error {
		parent, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		var is unix.Stat_t
		if err := unix.Fstat(parent, &is); err != nil {
			return err
		}
		if is.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= ofFiles
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & forbids.Handled_access_fs, Parent_fd: int32(parent)}
		if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
			return e
		}
		return nil
	}
	for _, of := range []struct {
		paths  []string
		rights uint64
		needed bool
	}{
		{systemReads, reading, false}, {[]string{os.DevNull}, reading | unix.LANDLOCK_ACCESS_FS_WRITE_FILE, false}, {own, reading, true},
		{p.Reads, reading, true}, {p.Writes, forbids.Handled_access_fs, true},
	} {
		for _, path := range of.paths {
			if err := allow(path, of.rights); err != nil && (of.needed || !errors.Is(err, unix.ENOENT)) {
				return fmt.Errorf("allow a function %s: %w", path, err)
			}
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); e != 0 {
		return fmt.Errorf("restrict a function: %w", e)
	}
	return nil
}
