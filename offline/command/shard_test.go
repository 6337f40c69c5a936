package command

import (
	"io"
	"testing"

	"prefdt/configs/cli"
)

func TestShardFlag(t *testing.T) {
	parse := func(args ...string) (Shard, error) {
		call := cli.NewCall("offline", args, io.Discard, io.Discard)
		shard := ShardFlag(call.Flags, "")
		if _, err := call.Parse("", 0); err != nil {
			t.Fatal(err)
		}
		return shard()
	}
	if s, err := parse(); err != nil || !s.Whole() || !s.Has(0) || !s.Has(7) {
		t.Errorf("without the flag: %v, %v", s, err)
	}
	for text, want := range map[string]Shard{"0/1": {0, 1}, "0/8": {0, 8}, "7/8": {7, 8}} {
		if s, err := parse("-shard", text); s != want || err != nil || s.Whole() || !s.Has(s.I+s.N) || s.N > 1 && s.Has(s.I+1) {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"8/8", "-1/8", "1", "1/", "/8", "0/0", "1/2/3", "a/b"} {
		if s, err := parse("-shard", text); err == nil {
			t.Errorf("%s: %v", text, s)
		}
	}
}
