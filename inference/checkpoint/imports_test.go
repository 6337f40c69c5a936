package checkpoint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The decoder links no linear algebra, and nothing because of which the linker would
// keep what is never called.
func TestDecoderLinksWhatItNeeds(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "prefdt/inference/checkpoint").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/owulveryck/onnx-go") {
		t.Error("onnx-go is not the decoder")
	}
	for _, heavy := range []string{"encoding/gob", "text/template", "gonum.org/v1/gonum/mat", "gonum.org/v1/gonum/blas/gonum",
		"github.com/apache/arrow/go/arrow"} {
		if slices.Contains(deps, heavy) {
			t.Errorf("the decoder imports %s", heavy)
		}
	}
}
