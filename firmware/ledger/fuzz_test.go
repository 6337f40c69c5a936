package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/account"
)

// fullLedger is a ledger with everything it may contain: earlier flights, rows in a
// tree of pages, commands and a list of free pages.
func fullLedger(f *testing.F) []byte {
	dir := f.TempDir()
	l, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"m1", "m2"} {
		s := testState(60)
		s.Mission = name
		rows := []account.Row{}
		for i := range 60 {
			rows = append(rows, account.Row{Slot: i, EnergyJ: 270, Aircraft: make([]account.AircraftRow, 2)})
		}
		if err := l.WriteCommands(s, nil); err != nil {
			f.Fatal(err)
		}
		if err := l.WriteRows(s, rows); err != nil {
			f.Fatal(err)
		}
		if err := l.WriteCommands(s, []Command{{ID: "c-" + name, Ack: json.RawMessage(`{"id":"c"}`)}}); err != nil {
			f.Fatal(err)
		}
	}
	l.Close()
	whole, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		f.Fatal(err)
	}
	return whole
}

// corrupt changes a genuine file by six bytes: where, how, with what.
func corrupt(file, p []byte) {
	at := (int(p[0])<<16 | int(p[1])<<8 | int(p[2])) % len(file)
	x := binary.LittleEndian.Uint16(p[4:])
	switch p[3] % 6 {
	case 0:
		file[at] ^= p[4]
	case 1:
		copy(file[at:], p[4:6])
	case 2:
		copy(file[at:], binary.LittleEndian.AppendUint64(nil, uint64(x)))
	case 3:
		copy(file[at:], bytes.Repeat(p[4:5], int(p[5])))
	case 4: // a page in the place of another
		page := int(x) * 4096 % len(file)
		copy(file[at/4096*4096:], bytes.Clone(file[page:min(page+4096, len(file))]))
	case 5: // a field of a meta page, with its checksum as it should be
		meta := file[int(p[5])%2*4096+headerBytes:][:64]
		binary.LittleEndian.PutUint64(meta[at%7*8:], uint64(x%512))
		sum := fnv.New64a()
		sum.Write(meta[:56])
		binary.LittleEndian.PutUint64(meta[56:], sum.Sum64())
	}
}

// FuzzFile opens a damaged ledger in every way. A refusal is an error of one line; what
// is not refused can be read, and a mission continued from it.
func FuzzFile(f *testing.F) {
	whole := fullLedger(f)
	f.Add([]byte{}, uint32(0))
	f.Add([]byte{}, uint32(5000))
	for page := range byte(len(whole) / 4096) {
		if testing.Short() && page%4 > 0 { // an emulator takes a minute
			continue
		}
		for _, at := range []byte{8, 10, 12, 16, 20, 24} {
			f.Add([]byte{0, page << 4, at, 2, 1, 0}, uint32(0))
		}
		f.Add([]byte{0, page << 4, 0, 4, page / 2, 0}, uint32(0))
	}
	for field := range byte(7) {
		f.Add([]byte{0, 0, field, 5, 3, 0, 0, 0, field, 5, 3, 1}, uint32(0))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, fileName)
	f.Fuzz(func(t *testing.T, patches []byte, cut uint32) {
		file := bytes.Clone(whole)
		for n := 0; len(patches) >= 6 && n < 16; n++ {
			corrupt(file, patches)
			patches = patches[6:]
		}
		file = file[:len(file)-int(cut%uint32(len(file)))]
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		oneLine := func(err error) {
			if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
		}
		recoverBytes(file)
		l, err := OpenReadOnly(path)
		oneLine(err)
		if err == nil {
			_, err := l.Flights()
			oneLine(err)
			l.Close()
		}
		l, err = Open(dir)
		oneLine(err)
		if err != nil {
			return
		}
		defer l.Close()
		l.db.NoSync, l.db.NoGrowSync = true, true
		s, _, err := l.Load()
		oneLine(err)
		_, _, err = l.Command("c-m1")
		oneLine(err)
		oneLine(l.WriteCommands(s, []Command{{ID: "new", Ack: json.RawMessage(`{}`)}}))
		oneLine(l.WriteRows(s, []account.Row{{Slot: 61}}))
		oneLine(l.WriteCommands(missionState("m3", 0), nil))
	})
}

// FuzzValues puts any values, with correct checksums, into a ledger whose structure is
// consistent.
func FuzzValues(f *testing.F) {
	text := func(v any) []byte { raw, _ := json.Marshal(v); return raw }
	f.Add(text(account.Row{Slot: 3, Mission: "m1"}), text(stateRecord{State: testState(3), Tx: 7}),
		text(commandRecord{Command{ID: "c1", Ack: json.RawMessage(`{}`)}, 4}), []byte("crew"), uint64(1))
	f.Add([]byte(`{"slot":-1,"mission":"m1","aircraft":[{"number":-7}]}`), []byte(`{"mission":"","aircraft":null}`),
		[]byte(`{"id":"","sequence":18446744073709551615}`), []byte{0}, uint64(1<<63))
	f.Add([]byte(`{"slot":9223372036854775807}`), []byte(`{"mission":"m1","tx":-1,"counters":{"":1}}`), []byte(`{"id":"c","ack":`),
		[]byte{}, uint64(0))
	dir := f.TempDir()
	l, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	l.db.NoSync, l.db.NoGrowSync = true, true
	sealed := func(raw []byte) []byte {
		v, err := encodeWithChecksum(json.RawMessage(raw))
		if err != nil { // no JSON, with a checksum that matches
			v, _ = encodeWithChecksum(string(raw))
		}
		return v
	}
	f.Fuzz(func(t *testing.T, row, state, command, key []byte, n uint64) {
		err := l.update(State{}, func(tx *bolt.Tx) error {
			for _, name := range [][]byte{bucketSlots, bucketCommands, bucketIDs} {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			tx.Bucket(bucketSlots).Put(encodeUint64(n), sealed(row))
			tx.Bucket(bucketCommands).Put(encodeUint64(n), sealed(command))
			tx.Bucket(bucketIDs).Put([]byte("c1"), encodeUint64(n))
			if len(key) > 0 && len(key) < 1000 {
				tx.Bucket(bucketSlots).Put(key, sealed(row))
			}
			return tx.Bucket(bucketState).Put(keyState, sealed(state))
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = fmt.Sprint(l.check())
		l.Flights()
		s, _, err := l.Load()
		if err == nil {
			l.WriteRows(s, []account.Row{{Slot: 61}})
		}
		l.Command("c1")
		var file []byte
		for _, v := range [][]byte{row, command, state} {
			file = append(file, sealed(v)...)
		}
		if found := recoverBytes(file); len(found.Flights) > 0 {
			out, err := os.MkdirTemp(dir, "")
			if err != nil {
				t.Fatal(err)
			}
			found.Save(out)
			os.RemoveAll(out)
		}
	})
}
