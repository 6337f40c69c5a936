package real

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const insideScript = "PREFDT_TEST_INSIDE" // has this program run a script, as simbridge real -inside

func TestMain(m *testing.M) {
	if script := os.Getenv(insideScript); script != "" {
		fmt.Fprintln(os.Stderr, Inside(script))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A flight has a loopback of its own, on which nobody else listens, and a /tmp of its own with the folders of the machine's;
// what it leaves running ends with it.
func TestInside(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	shared, own := t.TempDir(), "/tmp/prefdt-"+filepath.Base(t.TempDir())+port
	run := func(script string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, os.Args[0])
		command.SysProcAttr, command.Dir = isolation(), t.TempDir()
		command.Env = append(os.Environ(), insideScript+"="+script)
		out, err := command.CombinedOutput()
		t.Logf("%s%v", out, err)
		return err
	}
	if err := run("true"); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("no network of its own may be made here: ", err)
	}
	if err := run(fmt.Sprintf("(echo >/dev/tcp/127.0.0.1/%[1]s) 2>/dev/null && exit 3; echo >/dev/udp/127.0.0.1/%[1]s || exit 4\n"+
		"touch %[2]s; (sleep 0.3; touch %[3]s/late) & touch %[3]s/there", port, own, shared)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(shared, "there")); err != nil {
		t.Error(err)
	}
	time.Sleep(600 * time.Millisecond)
	for _, path := range []string{own, filepath.Join(shared, "late")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}
