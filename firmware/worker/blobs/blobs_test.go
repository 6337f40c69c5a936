package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The blobs that were drawn are found, and parts joined are the whole.
func TestFind(t *testing.T) {
	image, want := generate(rand.New(rand.NewPCG(1, 0)), 60)
	whole, err := find(image)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range want {
		if got := int(binary.LittleEndian.Uint16(whole[8*i:])); got != n {
			t.Errorf("tile %d has %d blobs, %d were found", i, n, got)
		}
	}
	if digest := fmt.Sprintf("%x", sha256.Sum256(whole)); !strings.HasPrefix(digest, "11f8e6474b291012") { // on every architecture
		t.Errorf("the output of 60 tiles has the digest %s", digest)
	}
	first, _ := find(image[:17*unitBytes])
	second, _ := find(image[17*unitBytes:])
	if !bytes.Equal(append(first, second...), whole) {
		t.Error("two parts are not the whole")
	}
	if _, err := find(image[:100]); err == nil {
		t.Error("a part of a tile was accepted")
	}
}

func BenchmarkFind(b *testing.B) {
	image, _ := generate(rand.New(rand.NewPCG(1, 0)), 16)
	b.SetBytes(int64(len(image)))
	for b.Loop() {
		find(image)
	}
}
