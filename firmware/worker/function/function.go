// Package function is a function that tasks name, as a configuration describes it: a program
// that speaks the pipe, a WebAssembly module, or an HTTP service of one's own.
//
// Inputs: the configuration. Outputs: what package share runs, and the digest by which
// grants name the program. The worker and the user's program use it.
package function

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
	"prefdt/telemetry"
)

// Config is one function; configs/worker.yaml explains every key.
type Config struct {
	ID          string   `yaml:"id"`
	Command     []string `yaml:"command"`
	WASM        string   `yaml:"wasm"`
	HTTP        string   `yaml:"http"`
	Index       int      `yaml:"index"`
	UnitBytes   int      `yaml:"unit_bytes"`
	OutputBytes int      `yaml:"output_bytes"`
	MemoryMB    float64  `yaml:"memory_mb"`
	Reads       []string `yaml:"reads"`
	Sample      string   `yaml:"sample"`
	CPUHz       float64  `yaml:"cpu_hz"`
	Concurrency int      `yaml:"concurrency"`
}

// Check returns what is wrong.
func (c *Config) Check() error {
	backends := 0
	for _, set := range []bool{len(c.Command) > 0, c.WASM != "", c.HTTP != ""} {
		if set {
			backends++
		}
	}
	switch {
	case !telemetry.ValidID(c.ID):
		return fmt.Errorf("function id %q, want 1 to 64 of A-Z a-z 0-9 . _ -", c.ID)
	case backends != 1:
		return fmt.Errorf("function %s: want one of command, wasm and http", c.ID)
	case c.UnitBytes < 1 || c.UnitBytes > 1<<24 || c.OutputBytes < 1 || c.OutputBytes > 1<<24:
		return fmt.Errorf("function %s: unit_bytes %d and output_bytes %d, want each 1 to 16777216", c.ID, c.UnitBytes, c.OutputBytes)
	case c.Index < 0 || c.MemoryMB < 0 || c.MemoryMB > 1<<16:
		return fmt.Errorf("function %s: index %d, memory_mb %v, want index 0 or more and memory_mb 0 to 65536", c.ID, c.Index, c.MemoryMB)
	case c.HTTP != "" && !(c.CPUHz > 0 && c.CPUHz <= 1e15 && c.Concurrency >= 1 && c.Concurrency <= 1024):
		return fmt.Errorf("function %s: http wants cpu_hz, what its service can compute, and concurrency, 1 to 1024", c.ID)
	}
	if u, err := url.Parse(c.HTTP); err != nil || c.HTTP != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("function %s: http %q, want http://host:port/path", c.ID, c.HTTP)
	}
	return nil
}

// Digest is the SHA-256 of the function's program, its arguments and its place in it; of a
// service, of its address. An argument that names a file counts by its content as well: what
// `python3 script.py` computes is the script's. What the program itself opens does not count.
func (c *Config) Digest() (string, error) {
	h := sha256.New()
	if c.HTTP != "" {
		io.WriteString(h, c.HTTP)
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	path, arguments := c.WASM, []string(nil)
	if path == "" {
		var err error
		if path, err = exec.LookPath(c.Command[0]); err != nil {
			return "", fmt.Errorf("function %s: %w", c.ID, err)
		}
		arguments = c.Command[1:]
	}
	if err := hashFile(h, path); err != nil {
		return "", fmt.Errorf("function %s: %w", c.ID, err)
	}
	fmt.Fprintf(h, "\n%d", c.Index)
	for _, a := range arguments {
		fmt.Fprintf(h, "\n%q ", a)
		if info, err := os.Stat(a); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := hashFile(h, a); err != nil {
			return "", fmt.Errorf("function %s: argument: %w", c.ID, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashFile adds a file's SHA-256, which has one length whatever the file's.
func hashFile(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	_, err = h.Write(content.Sum(nil))
	return err
}

// New is the function for a scheduler. Modules are run by the program module, with a
// folder for compiled ones; empty: there is none. Without groups its processes have none.
func (c *Config) New(module, cache string, groups *executor.Groups) (*share.Function, error) {
	f := &share.Function{Index: uint32(c.Index), UnitBytes: c.UnitBytes, MaxOutput: c.OutputBytes}
	p := executor.Program{Command: c.Command, MemoryBytes: uint64(c.MemoryMB * (1 << 20)), Reads: c.Reads, Groups: groups}
	switch {
	case c.HTTP != "":
		f.Start = func() (share.Executor, error) { return newService(c.HTTP), nil }
		return f, nil
	case c.WASM != "":
		most := p.MemoryBytes
		if most == 0 {
			most = 64 << 20
		}
		// the module's memory is bounded by its host
		p.MemoryBytes, p.Command = 0, []string{module, "-file", c.WASM, "-memory", strconv.FormatUint(most, 10), "-cache", cache}
		if cache != "" {
			if err := os.MkdirAll(cache, 0o755); err != nil {
				return nil, fmt.Errorf("cache: %w", err)
			}
			p.Writes = []string{cache}
		}
	}
	f.Start = func() (share.Executor, error) { return p.Start() }
	return f, nil
}

// service is one connection to an HTTP service: a chunk is the body of a POST, its output
// that of the answer.
type service struct {
	url    string
	client http.Client
	ctx    context.Context
	kill   context.CancelFunc
}

func newService(url string) *service {
	s := &service{url: url, client: http.Client{Timeout: 3 * time.Second}}
	s.ctx, s.kill = context.WithCancel(context.Background())
	return s
}

func (s *service) Run(_ uint32, input []byte, most int) ([]byte, time.Duration, error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.url, bytes.NewReader(input))
	if err != nil {
		return nil, 0, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, 0, s.reason(err)
	}
	defer answer.Body.Close()
	output, err := io.ReadAll(io.LimitReader(answer.Body, int64(most)+1))
	took := time.Since(began)
	switch {
	case err != nil:
		return nil, took, s.reason(err)
	case answer.StatusCode != http.StatusOK:
		return nil, took, executor.ErrFailed
	case len(output) > most:
		return nil, took, executor.ErrOutput
	}
	return output, took, nil
}

// reason is why a request has no answer.
func (s *service) reason(err error) error {
	var network *net.OpError
	switch {
	case s.ctx.Err() != nil:
		return executor.ErrKilled
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("the service at %s %w: %w", s.url, executor.ErrAway, network)
	}
	return fmt.Errorf("%w: %w", executor.ErrBroken, err)
}

func (s *service) Stop()                                     {} // its service shares its own CPU
func (s *service) Continue()                                 {}
func (s *service) Kill()                                     { s.kill() }
func (s *service) Ended() bool                               { return s.ctx.Err() != nil }
func (s *service) Exceeds() bool                             { return false }
func (s *service) CPU() (kernel, own time.Duration, ok bool) { return 0, 0, false }
