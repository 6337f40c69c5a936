package command

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"prefdt/configs/cli"
)

// Shard is the I-th of N parts of a work, which N processes do at a time. The zero value
// is the whole.
type Shard struct{ I, N int }

const maxShards = 10_000 // far more than any work has parts

// Whole reports whether s is no part.
func (s Shard) Whole() bool { return s.N == 0 }

// Has reports whether the shard has the k-th of some equal pieces of work.
func (s Shard) Has(k int) bool { return s.Whole() || k%s.N == s.I }

func (s Shard) String() string { return fmt.Sprintf("shard %d of %d", s.I, s.N) }

// ShardFlag adds -shard; what is the part of something, as in "of the arms", ends its
// explanation. The function that it returns is called after parsing; its error is bad
// input.
func ShardFlag(f *flag.FlagSet, what string) func() (Shard, error) {
	text := f.String("shard", "", "only the `I/N`-th part, I from 0 to N-1, "+what)
	return func() (Shard, error) {
		if *text == "" {
			return Shard{}, nil
		}
		i, n, _ := strings.Cut(*text, "/")
		s := Shard{}
		var err error
		if s.I, err = strconv.Atoi(i); err == nil {
			s.N, err = strconv.Atoi(n)
		}
		if err != nil || s.N < 1 || s.N > maxShards || s.I < 0 || s.I >= s.N {
			return s, cli.BadInputf("-shard is %q, want I/N with I from 0 to N-1 and N to %d, as in 0/8", *text, maxShards)
		}
		return s, nil
	}
}
