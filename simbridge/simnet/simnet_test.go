package simnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/telemetry/datagram"
)

const server = "127.0.0.1:1883"

// pair is a stream from program a to program b.
func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Program("b").Listen("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if near, err = n.Program("a").Dial(t.Context(), "tcp", server); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func write(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%d bytes of %q, %v", n, text, err)
	}
}

// read returns what one Read returns, and when.
func read(t *testing.T, c io.Reader) (text string, at time.Time) {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), time.Now()
}

// A stream's bytes arrive whole and in order, whatever the latency of each, and no sooner than
// the bandwidth permits; then comes its end.
func TestStream(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		const rate = 10_000
		n.Set("a", "b", &Conditions{Latency: 20 * time.Millisecond, Jitter: 80 * time.Millisecond, BytesPerS: rate})
		near, far := pair(t, n)
		if near.LocalAddr().String() != far.RemoteAddr().String() || near.RemoteAddr().String() != server ||
			far.LocalAddr().String() != server {
			t.Errorf("from %v to %v, there %v and %v", near.LocalAddr(), near.RemoteAddr(), far.RemoteAddr(), far.LocalAddr())
		}
		random := rand.New(rand.NewPCG(1, 2))
		var sent []byte
		began := time.Now()
		go func() {
			for range 500 {
				piece := make([]byte, 1+random.IntN(200))
				for i := range piece {
					piece[i] = byte(random.Uint32())
				}
				sent = append(sent, piece...)
				near.Write(piece)
				time.Sleep(time.Duration(random.IntN(int(5 * time.Millisecond))))
			}
			near.Close()
		}()
		got, err := io.ReadAll(far)
		took := time.Since(began)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, want the %d that were sent; %v", len(got), len(sent), err)
		}
		least := time.Duration(float64(len(sent))/rate*1e9) + 20*time.Millisecond
		if took < least || took > least+100*time.Millisecond {
			t.Errorf("%d bytes took %v, want about %v", len(sent), took, least)
		}
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write to who has closed: %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after Close: %v", err)
		}
		far.Close()
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
	})
}

// What a stream loses is sent again, and all behind it waits.
func TestLossyStream(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		near, far := pair(t, n)
		n.Set("a", "b", &Conditions{Loss: 0.05})
		late, sent := 0, []byte{}
		for i := range 1000 {
			began := time.Now()
			piece := []byte{byte(i)}
			sent = append(sent, piece...)
			write(t, near, string(piece))
			if _, err := io.ReadFull(far, piece); err != nil || piece[0] != byte(i) {
				t.Fatalf("%d came as %d, %v", byte(i), piece[0], err)
			}
			if took := time.Since(began); took > time.Millisecond {
				if late++; took < 200*time.Millisecond || took%(200*time.Millisecond) > time.Millisecond {
					t.Errorf("it took %v", took)
				}
			}
		}
		if late < 30 || late > 70 {
			t.Errorf("%d of 1,000 were lost once or more", late)
		}
		write(t, near, string(sent))
		near.Close()
		if got, err := io.ReadAll(far); !bytes.Equal(got, sent) || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// Who writes no more may still be answered.
func TestHalfClosed(t *testing.T) {
	Test(t, func(t *testing.T) {
		near, far := pair(t, New(1))
		write(t, near, "question")
		near.(interface{ CloseWrite() error }).CloseWrite()
		if got, err := io.ReadAll(far); string(got) != "question" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after CloseWrite: %v", err)
		}
		write(t, far, "answer")
		far.Close()
		if got, err := io.ReadAll(near); string(got) != "answer" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		near.Close()
	})
}

// Each Write arrives whole, though others wait with it for the window.
func TestConcurrentWrites(t *testing.T) {
	Test(t, func(t *testing.T) {
		near, far := pair(t, New(1))
		var writers sync.WaitGroup
		const size = window/2 + 1
		for i := range 5 {
			writers.Go(func() { near.Write(bytes.Repeat([]byte{byte(i)}, size)) })
		}
		go func() { writers.Wait(); near.Close() }()
		got, err := io.ReadAll(far)
		if err != nil || len(got) != 5*size {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		for message := range slices.Chunk(got, size) {
			if !bytes.Equal(message, bytes.Repeat(message[:1], size)) {
				t.Error("two messages are mixed")
			}
		}
	})
}

// A cut in one direction delays what is sent there, in order, also behind it; the other
// direction goes on. The end of a stream waits too.
func TestCut(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		near, far := pair(t, n)
		n.Set("a", Any, &Conditions{Cut: true})
		write(t, near, "one ")
		time.Sleep(time.Second)
		write(t, near, "two ")
		write(t, far, "back")
		if text, _ := read(t, near); text != "back" {
			t.Errorf("back came %q", text)
		}
		far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("during the cut: %v", err)
		}
		far.SetReadDeadline(time.Time{})
		n.Set("a", Any, nil)
		ended := time.Now()
		write(t, near, "three")
		near.Close()
		got, err := io.ReadAll(far)
		if string(got) != "one two three" || err != nil || time.Since(ended) > time.Millisecond {
			t.Errorf("%q, %v, %v after the end of the cut", got, err, time.Since(ended))
		}
	})
}

// Dial is refused where nobody listens or a firewall rejects, and waits for the end of a cut or
// of its context.
func TestDial(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		a := n.Program("a")
		if _, err := a.Dial(t.Context(), "tcp", server); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
		for _, address := range []string{"nowhere.invalid:1", "127.0.0.1", "127.0.0.1:none"} {
			if _, err := a.Dial(t.Context(), "tcp", address); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", address, err)
			}
		}
		if _, err := a.Dial(t.Context(), "udp", server); err == nil {
			t.Error("a datagram socket was dialled")
		}
		l, err := n.Program("b").Listen("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		n.Set("a", "b", &Conditions{RefuseConnect: true})
		if _, err := a.Dial(t.Context(), "tcp", server); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a firewall: %v", err)
		}
		n.Set("a", "b", &Conditions{Latency: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		if _, err := a.Dial(ctx, "tcp", server); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow network: %v", err)
		}
		cancel()
		n.Set("a", "b", nil)
		n.Set("b", "a", &Conditions{Cut: true}) // the answer does not come
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		began := time.Now()
		if _, err := a.Dial(ctx, "tcp", server); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("a cut: %v after %v", err, time.Since(began))
		}
		cancel()
		time.AfterFunc(10*time.Second, func() { n.Set("b", "a", nil) })
		began = time.Now()
		c, err := a.Dial(t.Context(), "tcp", server)
		if took := time.Since(began); err != nil || took < 10*time.Second || took > 12*time.Second {
			t.Fatalf("a cut that ends: %v after %v", err, took)
		}
		l.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("nobody will accept it: %v", err)
		}
		if _, err := a.Dial(t.Context(), "tcp", server); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens any more: %v", err)
		}
	})
}

// An address has one program at a time, streams and datagrams apart; port 0 is a free one.
func TestAddressInUse(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		a, b := n.Program("a"), n.Program("b")
		l, err := a.Listen("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Listen("tcp", server); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v", err)
		}
		s, err := b.Socket(server)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Socket(server); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v", err)
		}
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		s.Close()
		if _, err := b.Listen("tcp", server); err != nil {
			t.Error(err)
		}
		if _, err := a.Socket(server); err != nil {
			t.Error(err)
		}
		a.Crash()
		if _, err := b.Socket(server); err != nil {
			t.Errorf("after a crash: %v", err)
		}
		if _, err := a.Listen("tcp", "127.0.0.1:7"); err == nil {
			t.Error("a program that has crashed listens")
		}
		if _, err := b.Listen("tcp", "127.0.0.1:7"); err != nil {
			t.Error(err)
		}
		used := map[string]bool{}
		for range 100 {
			l, err := b.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			used[l.Addr().String()] = true
			used[n.FreeAddress()] = true
		}
		if len(used) != 200 {
			t.Errorf("%d free addresses, want 200", len(used))
		}
		b.Crash()
	})
}

func socketAt(t *testing.T, p *Program, address string) datagram.Socket {
	t.Helper()
	s, err := p.Socket(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// arrivals are what a socket receives, with when, until a while after the last.
func arrivals(t *testing.T, n *Network, send func(from datagram.Socket, to netip.AddrPort)) (texts []string, at []time.Duration) {
	t.Helper()
	from, to := socketAt(t, n.Program("a"), "127.0.0.1:0"), socketAt(t, n.Program("b"), server)
	began := time.Now()
	var receiver sync.WaitGroup
	receiver.Go(func() {
		for b := make([]byte, 100); ; {
			k, _, err := to.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			texts, at = append(texts, string(b[:k])), append(at, time.Since(began))
		}
	})
	send(from, netip.MustParseAddrPort(server))
	time.Sleep(time.Minute)
	from.Close()
	to.Close()
	receiver.Wait()
	return texts, at
}

// sendMany sends a numbered datagram each 10 ms.
func sendMany(from datagram.Socket, to netip.AddrPort) {
	for i := range 1000 {
		from.WriteToUDPAddrPort(fmt.Appendf(nil, "%03d", i), to)
		time.Sleep(10 * time.Millisecond)
	}
}

// Datagrams are whole and in order, unless conditions say how many are lost, come twice or are
// late and so out of order.
func TestDatagrams(t *testing.T) {
	for name, x := range map[string]struct {
		c                     Conditions
		lost, twice, reversed [2]int // at least and at most, of 1,000
	}{
		"as sent":    {Conditions{Latency: 5 * time.Millisecond, Jitter: 50 * time.Millisecond}, [2]int{}, [2]int{}, [2]int{}},
		"lost":       {Conditions{Loss: 0.2}, [2]int{150, 250}, [2]int{}, [2]int{}},
		"duplicated": {Conditions{Duplicate: 0.3}, [2]int{}, [2]int{250, 350}, [2]int{}},
		"late":       {Conditions{Late: 0.1, LateBy: time.Second}, [2]int{}, [2]int{}, [2]int{70, 130}},
		"cut":        {Conditions{Cut: true}, [2]int{1000, 1000}, [2]int{}, [2]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			Test(t, func(t *testing.T) {
				n := New(1)
				n.Set(Any, "b", &x.c)
				texts, _ := arrivals(t, n, sendMany)
				seen, reversed, newest := map[string]int{}, 0, ""
				twice := 0
				for _, text := range texts {
					if seen[text]++; seen[text] == 2 {
						twice++
					}
					if text < newest {
						reversed++
					}
					newest = max(newest, text)
				}
				for _, y := range []struct {
					what string
					got  int
					want [2]int
				}{{"lost", 1000 - len(seen), x.lost}, {"twice", twice, x.twice}, {"out of order", reversed, x.reversed}} {
					if y.got < y.want[0] || y.got > y.want[1] {
						t.Errorf("%d %s, want %v", y.got, y.what, y.want)
					}
				}
			})
		})
	}
}

// A seed decides when everything arrives, and another one decides otherwise.
func TestSeed(t *testing.T) {
	conditions := &Conditions{Latency: time.Millisecond, Jitter: time.Second, Loss: 0.1, Duplicate: 0.1, Late: 0.1, LateBy: time.Second}
	times := func(t *testing.T, seed uint64) (all string) {
		n := New(seed)
		n.Set(Any, Any, conditions)
		texts, at := arrivals(t, n, sendMany)
		near, far := pair(t, n)
		for range 100 {
			write(t, near, "x")
			_, now := read(t, far)
			at = append(at, time.Duration(now.UnixNano()))
		}
		near.Close()
		far.Close()
		n.Program("b").Crash()
		return fmt.Sprint(texts, at)
	}
	results := make([]string, 3)
	for i, seed := range []uint64{7, 7, 8} {
		Bubble(t, func(t *testing.T) { results[i] = times(t, seed) })
	}
	if results[0] != results[1] {
		t.Error("the same seed gave other times")
	}
	if results[0] == results[2] {
		t.Error("another seed gave the same times")
	}
}

// A datagram for nobody is lost, one for who comes in time is not; a socket that is closed
// receives nothing.
func TestDatagramForNobody(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		s := socketAt(t, n.Program("a"), "127.0.0.1:0")
		to := netip.MustParseAddrPort(server)
		if k, err := s.WriteToUDPAddrPort([]byte("lost"), to); k != 4 || err != nil {
			t.Errorf("%d, %v", k, err)
		}
		r := socketAt(t, n.Program("b"), server)
		s.WriteToUDPAddrPort([]byte("kept"), netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port()))
		b := make([]byte, 10)
		k, from, err := r.ReadFromUDPAddrPort(b)
		if string(b[:k]) != "kept" || from.String() != s.LocalAddr().String() || err != nil {
			t.Errorf("%q of %v, %v", b[:k], from, err)
		}
		s.WriteToUDPAddrPort([]byte("unread"), to)
		time.Sleep(time.Second)
		r.Close()
		if _, _, err := r.ReadFromUDPAddrPort(b); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := r.WriteToUDPAddrPort(b, to); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A serial line's bytes come in pieces, in order, at its baud rate, whatever other links there
// are between the two. Nobody need listen, and who opens it again goes on.
func TestSerial(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		n.Cable("/dev/ttyS1", "leader", "autopilot")
		open := func(program string) net.Conn {
			t.Helper()
			c, err := n.Program(program).Serial("/dev/ttyS1", 57600)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		if _, err := n.Program("crew").Serial("/dev/ttyS1", 57600); err == nil {
			t.Error("a program without an end opened it")
		}
		if _, err := n.Program("leader").Serial("/dev/ttyS2", 57600); err == nil {
			t.Error("a cable that there is not was opened")
		}
		autopilot := open("autopilot")
		autopilot.SetWriteDeadline(time.Now().Add(time.Minute))
		for range 100 { // 100 kB that nobody reads
			write(t, autopilot, string(make([]byte, 1000)))
		}
		time.Sleep(time.Second)
		leader := open("leader")
		n.Set("autopilot", "leader", nil) // the rate is the line's
		began := time.Now()
		message := make([]byte, 2880) // half a second of it
		for i := range message {
			message[i] = byte(i)
		}
		write(t, autopilot, string(message))
		var got []byte
		pieces := 0
		for ; len(got) < len(message); pieces++ {
			text, _ := read(t, leader)
			got = append(got, text...)
		}
		if took := time.Since(began); !bytes.Equal(got, message) || took < time.Second/2 || took > 501*time.Millisecond || pieces < 4 {
			t.Errorf("%d bytes in %d pieces after %v", len(got), pieces, took)
		}
		write(t, leader, "down")
		if text, _ := read(t, autopilot); text[0] != 'd' {
			t.Errorf("%q", text)
		}
		n.Program("leader").Crash()
		write(t, autopilot, "for nobody")
		time.Sleep(time.Second)
		again := open("leader")
		write(t, autopilot, "x")
		if text, _ := read(t, again); text != "x" {
			t.Errorf("%q after it was opened again", text)
		}
		for range 10 {
			write(t, autopilot, string(make([]byte, 1000))) // of which nobody reads, more is lost than fits
		}
		time.Sleep(time.Minute)
		if text, _ := read(t, again); len(text) > serialBuffer {
			t.Errorf("%d bytes were kept", len(text))
		}
		if _, err := leader.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("of a program that crashed: %v", err)
		}
	})
}

// The system of a program that crashes tells the other end, after what it had sent; without
// power nobody does. The name may be used again.
func TestCrashAndPowerCut(t *testing.T) {
	for name, end := range map[string]func(*Program){"crash": (*Program).Crash, "power cut": (*Program).LosePower} {
		t.Run(name, func(t *testing.T) {
			Test(t, func(t *testing.T) {
				n := New(1)
				near, far := pair(t, n)
				write(t, near, "last words")
				a := n.Program("a")
				a.Stop()
				end(a)
				if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("its own write: %v", err)
				}
				if text, _ := read(t, far); text != "last words" {
					t.Errorf("%q", text)
				}
				far.SetReadDeadline(time.Now().Add(time.Hour))
				want := io.EOF
				if name == "power cut" {
					want = os.ErrDeadlineExceeded
				}
				if _, err := far.Read(make([]byte, 1)); !errors.Is(err, want) {
					t.Errorf("the other end: %v, want %v", err, want)
				}
				if again := n.Program("a"); again == a {
					t.Error("it has not ended")
				} else if c, err := again.Dial(t.Context(), "tcp", server); err != nil {
					t.Error(err)
				} else {
					c.Close()
				}
				if _, err := a.Dial(t.Context(), "tcp", server); err == nil {
					t.Error("a program that has ended has dialled")
				}
			})
		})
	}
}

// What waits for the end of a cut is lost with its sender's power.
func TestPowerCutDuringCut(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		near, far := pair(t, n)
		n.Set("a", "b", &Conditions{Cut: true})
		write(t, near, "held")
		n.Program("a").LosePower()
		n.Set("a", "b", nil)
		far.SetReadDeadline(time.Now().Add(time.Minute))
		if k, err := far.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", k, err)
		}
	})
}

// A stopped program reads, writes, accepts and dials nothing, and its timers wait; what came
// meanwhile is there when it goes on. The others do not notice.
func TestStop(t *testing.T) {
	Test(t, func(t *testing.T) {
		n := New(1)
		near, far := pair(t, n)
		b := n.Program("b")
		l, err := b.Listen("tcp", "127.0.0.1:2")
		if err != nil {
			t.Fatal(err)
		}
		s, from := socketAt(t, b, "127.0.0.1:3"), socketAt(t, n.Program("a"), "127.0.0.1:0")
		began := time.Now()
		var done sync.WaitGroup
		run := func(what string, f func() error) {
			done.Go(func() {
				if err := f(); err != nil || time.Since(began) < time.Minute || time.Since(began) > time.Minute+10*time.Millisecond {
					t.Errorf("%s: %v after %v", what, err, time.Since(began))
				}
			})
		}
		run("a read", func() error { _, err := io.ReadFull(far, make([]byte, 5)); return err })
		run("an accept", func() error { c, err := l.Accept(); c.Close(); return err })
		run("a datagram", func() error { _, _, err := s.ReadFromUDPAddrPort(make([]byte, 9)); return err })
		run("a timer", func() error { <-b.After(time.Second); return nil })
		synctest.Wait()
		b.Stop()
		run("a write", func() error { _, err := far.Write([]byte("x")); return err })
		run("a dial", func() error {
			_, err := b.Dial(t.Context(), "tcp", "127.0.0.1:1")
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("dial: %w", err)
			}
			return nil
		})
		write(t, near, "hello")
		from.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort("127.0.0.1:3"))
		c, err := n.Program("a").Dial(t.Context(), "tcp", "127.0.0.1:2")
		if err != nil {
			t.Fatal(err)
		}
		if now := b.Now(); b.Now() != now {
			t.Error("the time passes")
		}
		time.Sleep(time.Until(began.Add(time.Minute)))
		b.Continue()
		done.Wait()
		if text, _ := read(t, near); text != "x" {
			t.Errorf("%q", text)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		c.Close()
	})
}

// A deadline ends what waits, also one that is set meanwhile; another one undoes it.
func TestDeadlines(t *testing.T) {
	Test(t, func(t *testing.T) {
		near, far := pair(t, New(1))
		expect := func(what string, took time.Duration, f func() error) {
			t.Helper()
			began := time.Now()
			if err := f(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != took {
				t.Errorf("%s: %v after %v, want %v", what, err, time.Since(began), took)
			}
		}
		reads := func() error { _, err := near.Read(make([]byte, 1)); return err }
		near.SetReadDeadline(time.Now().Add(time.Second))
		expect("a read", time.Second, reads)
		expect("another", 0, reads)
		write(t, far, "x")
		time.Sleep(time.Second)
		expect("of what is there", 0, reads)
		near.SetReadDeadline(time.Time{})
		if text, _ := read(t, near); text != "x" {
			t.Errorf("%q", text)
		}
		time.AfterFunc(time.Second, func() { near.SetDeadline(time.Unix(1, 0)) })
		expect("one that is set meanwhile", time.Second, reads)
		expect("a write", 0, func() error { _, err := near.Write([]byte("x")); return err })
		near.SetDeadline(time.Now().Add(time.Second))
		time.AfterFunc(time.Second, func() { near.SetDeadline(time.Now().Add(time.Hour)) }) // at that moment
		near.Read(make([]byte, 1))
		near.SetDeadline(time.Now().Add(time.Hour))
		expect("one that is put off", time.Hour, reads)
		near.SetDeadline(time.Time{})
		near.SetWriteDeadline(time.Now().Add(time.Second))
		expect("a write that nobody reads", time.Second, func() error { _, err := near.Write(make([]byte, 2*window)); return err })
	})
}

// A writer waits for a reader once the window is full, and goes on as it reads.
func TestWindow(t *testing.T) {
	Test(t, func(t *testing.T) {
		near, far := pair(t, New(1))
		near.SetWriteDeadline(time.Now().Add(time.Second))
		if k, err := near.Write(make([]byte, 2*window)); k != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v; want %d", k, err, window)
		}
		near.SetWriteDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { io.ReadFull(far, make([]byte, 1000)) })
		began := time.Now()
		write(t, near, string(make([]byte, 1000)))
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it waited for %v", took)
		}
		time.AfterFunc(time.Minute, func() { near.Close() })
		if _, err := near.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write that waits when it is closed: %v", err)
		}
		if got, err := io.ReadAll(far); len(got) != window || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// Conditions are those of the most particular pair.
func TestConditions(t *testing.T) {
	n := New(1)
	if c := n.Between("a", "b"); c != defaultConditions {
		t.Errorf("%+v", c)
	}
	for i, pair := range [][2]string{{Any, Any}, {Any, "b"}, {"a", Any}, {"a", "b"}} {
		n.Set(pair[0], pair[1], &Conditions{Loss: float64(1 + i)})
		if c := n.Between("a", "b"); c.Loss != float64(1+i) {
			t.Errorf("%v: %+v", pair, c)
		}
	}
	n.Set("a", "b", nil)
	if c := n.Between("a", "b"); c.Loss != 3 {
		t.Errorf("%+v", c)
	}
}

// Endpoints of the leader's configuration reach each other.
func TestEndpoint(t *testing.T) {
	n := New(1)
	for text, works := range map[string]bool{"udp:127.0.0.1:1": true, "udp-listen:127.0.0.1:1": true, "serial:/dev/ttyS1:57600": true,
		"serial:/dev/ttyS1:fast": false, "serial": false, "tcp:127.0.0.1:1": false} {
		if _, err := n.Program("a").Endpoint(text); (err == nil) != works {
			t.Errorf("%s: %v", text, err)
		}
	}
}
