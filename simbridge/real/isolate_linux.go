package real

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolation has a process begin in a network, a table of processes and of mounts of its own, and end with this one: with it all
// that it started does. Who is not root becomes it there.
func isolation() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
		Setsid: true} // its own share of the CPUs
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// Inside is the process that isolation begins: it runs a script in the present folder.
func Inside(script string) error {
	// Beside twenty busy programs an ArduCopter's clock ran at 0.78 of the time, and its start is refused. As PX4 does by itself,
	// a flight of root's goes first; it mostly waits.
	os.WriteFile("/proc/self/autogroup", []byte("-10"), 0)
	if err := ownTmp(); err != nil {
		return fmt.Errorf("a /tmp of its own: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return fmt.Errorf("a loopback of its own: %w", err)
	}
	return syscall.Exec("/bin/bash", []string{"bash", "-c", script}, os.Environ())
}

// ownTmp covers /tmp, where PX4 has sockets of fixed names, with one of its own. Folders and links of the machine's stay.
func ownTmp() error {
	const tmp, private = "/tmp", "tmp"
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	if err := os.Mkdir(private, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", private, "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(tmp, e.Name()), filepath.Join(private, e.Name())
		if target, err := os.Readlink(from); err == nil {
			os.Symlink(target, to)
		}
		if !e.IsDir() || os.Mkdir(to, 0o755) != nil {
			continue
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	return unix.Mount(private, tmp, "", unix.MS_MOVE, "")
}

func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}
