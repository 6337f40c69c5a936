package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// The layout of a bbolt file, version 2, as far as a walk over its pages needs it.
// bbolt itself trusts its pages: damage there can panic in a goroutine of its own,
// loop for ever or overflow the stack, none of which a caller can recover from. So
// all pages are checked before bbolt maps the file.
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	headerBytes  = 16 // id, flags, count, overflow
	elementBytes = 16
	bucketBytes  = 16 // root page, sequence
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
	maxDepth     = 32
	noFreelist   = ^uint64(0)
)

// pageWalker visits every page that the newest valid meta page leads to, once.
type pageWalker struct {
	file      io.ReaderAt
	size      int64
	pageSize  int64
	highWater uint64 // the first page number never used
	visited   []bool
}

// checkPages returns what is wrong with a file's structure.
func checkPages(file io.ReaderAt, size int64) error {
	w := &pageWalker{file: file, size: size}
	metas := readMetas(file)
	if len(metas) == 0 {
		return errors.New("it has no valid meta page")
	}
	w.pageSize, w.highWater = metas[0].pageSize, metas[0].highWater
	if int64(w.highWater) > size/w.pageSize {
		return fmt.Errorf("it is cut short at %d of %d bytes", size, int64(w.highWater)*w.pageSize)
	}
	w.visited = make([]bool, w.highWater)
	if err := w.tree(metas[0].root, 0); err != nil {
		return err
	}
	if metas[0].freelist == noFreelist {
		return nil
	}
	return w.freelist(metas[0].freelist)
}

// readMetas returns the valid meta pages, the newest first.
func readMetas(file io.ReaderAt) (metas []meta) {
	// The second is one page on, and only a meta page has the page size.
	for _, offset := range []int64{0, 4096, 8192, 16384, 32768, 65536} {
		raw := make([]byte, headerBytes+64)
		if _, err := file.ReadAt(raw, offset); err != nil {
			break
		}
		m := raw[headerBytes:]
		sum := fnv.New64a()
		sum.Write(m[:56])
		pageSize := int64(binary.LittleEndian.Uint32(m[8:]))
		if binary.LittleEndian.Uint32(m) != boltMagic || binary.LittleEndian.Uint32(m[4:]) != boltVersion ||
			binary.LittleEndian.Uint64(m[56:]) != sum.Sum64() || pageSize < 1024 || pageSize > 65536 ||
			offset != 0 && offset != pageSize || binary.LittleEndian.Uint16(raw[8:]) != flagMeta {
			continue
		}
		metas = append(metas, meta{offset, pageSize, raw, uint64At(m, 48), uint64At(m, 16), uint64At(m, 32), uint64At(m, 40)})
	}
	slices.SortStableFunc(metas, func(a, b meta) int { return cmp.Compare(b.txid, a.txid) })
	return metas
}

// page reads a page with its overflow and claims it.
func (w *pageWalker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= w.highWater {
		return nil, fmt.Errorf("page %d does not exist", id)
	}
	header := make([]byte, headerBytes)
	if _, err := w.file.ReadAt(header, int64(id)*w.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	more := uint64(binary.LittleEndian.Uint32(header[12:]))
	if binary.LittleEndian.Uint64(header) != id || id+more >= w.highWater {
		return nil, fmt.Errorf("page %d does not match its header", id)
	}
	for p := id; p <= id+more; p++ {
		if w.visited[p] {
			return nil, fmt.Errorf("page %d is used twice", p)
		}
		w.visited[p] = true
	}
	raw := make([]byte, int64(more+1)*w.pageSize)
	if _, err := w.file.ReadAt(raw, int64(id)*w.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return raw, nil
}

func (w *pageWalker) tree(id uint64, depth int) error {
	if depth > maxDepth {
		return errors.New("its tree is too deep")
	}
	raw, err := w.page(id)
	if err != nil {
		return err
	}
	if err := w.node(raw, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// node checks a branch or leaf page, or a bucket stored inside a leaf.
func (w *pageWalker) node(raw []byte, depth int) error {
	if len(raw) < headerBytes {
		return errors.New("cut short")
	}
	flags, count := binary.LittleEndian.Uint16(raw[8:]), int(binary.LittleEndian.Uint16(raw[10:]))
	if flags != flagBranch && flags != flagLeaf || flags == flagBranch && count == 0 {
		return fmt.Errorf("type %#x with %d entries", flags, count)
	}
	if headerBytes+count*elementBytes > len(raw) {
		return errors.New("more entries than fit")
	}
	var last []byte
	for i := range count {
		at := headerBytes + i*elementBytes
		e := raw[at : at+elementBytes]
		var position, keyBytes, valueBytes uint64
		if flags == flagBranch {
			position, keyBytes = uint64(binary.LittleEndian.Uint32(e)), uint64(binary.LittleEndian.Uint32(e[4:]))
		} else {
			position, keyBytes = uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:]))
			valueBytes = uint64(binary.LittleEndian.Uint32(e[12:]))
		}
		begin := uint64(at) + position
		if begin < uint64(headerBytes+count*elementBytes) || begin+keyBytes+valueBytes > uint64(len(raw)) {
			return fmt.Errorf("entry %d lies outside", i)
		}
		key := raw[begin : begin+keyBytes]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("entry %d is out of order", i)
		}
		last = key
		switch {
		case flags == flagBranch:
			if err := w.tree(binary.LittleEndian.Uint64(e[8:]), depth+1); err != nil {
				return err
			}
		case binary.LittleEndian.Uint32(e)&1 != 0:
			if err := w.bucket(raw[begin+keyBytes:begin+keyBytes+valueBytes], depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *pageWalker) bucket(value []byte, depth int) error {
	if len(value) < bucketBytes {
		return errors.New("a bucket is cut short")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return w.tree(root, depth+1)
	}
	inline := value[bucketBytes:]
	if len(inline) >= headerBytes && binary.LittleEndian.Uint16(inline[8:]) != flagLeaf {
		return errors.New("a small bucket is no leaf")
	}
	return w.node(inline, depth+1)
}

// freelist checks that free pages exist, are listed once and are not used.
func (w *pageWalker) freelist(id uint64) error {
	raw, err := w.page(id)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(raw[8:]) != flagFreelist {
		return fmt.Errorf("page %d is no free list", id)
	}
	count, body := uint64(binary.LittleEndian.Uint16(raw[10:])), raw[headerBytes:]
	if count == 0xFFFF {
		count, body = binary.LittleEndian.Uint64(body), body[8:]
	}
	if count > uint64(len(body)/8) {
		return errors.New("the free list is longer than its pages")
	}
	for i := range count {
		p := binary.LittleEndian.Uint64(body[8*i:])
		if p < 2 || p >= w.highWater || w.visited[p] {
			return fmt.Errorf("page %d is listed as free and is not", p)
		}
		w.visited[p] = true
	}
	return nil
}
