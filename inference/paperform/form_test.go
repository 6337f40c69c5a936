package paperform

import (
	"slices"
	"testing"
)

// The heads read each user in the frame of its nearest aircraft, in that aircraft's columns;
// of several as near, in all of theirs, as the graph's Equal does.
func TestNearestFrames(t *testing.T) {
	f := Form{Aircraft: 3, UserFeatures: []string{"bits", distance}}
	users := []float32{
		7, 2, 7, -1, 7, 3,
		8, 4, 8, 5, 8, 4,
	}
	got := slices.Repeat([]float32{9}, len(users)) // what a buffer held before
	NearestFrames(&f, got, users)
	want := []float32{
		0, 0, 7, -1, 0, 0,
		8, 4, 0, 0, 8, 4,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCheckWantsDistance(t *testing.T) {
	f := Published(8)
	f.UserFeatures = slices.DeleteFunc(f.UserFeatures, func(name string) bool { return name == distance })
	if err := f.Check(); err == nil {
		t.Error("a form whose bypass has no distance to choose a frame by is accepted")
	}
}
