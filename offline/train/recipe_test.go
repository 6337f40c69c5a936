package train

import (
	"testing"

	"prefdt/configs"
)

// The commented file is the defaults' documentation, so it must say the same.
func TestRecipeFile(t *testing.T) {
	var c Config
	if err := configs.Load("../../configs/train.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if c != Default() {
		t.Errorf("configs/train.yaml is %+v, want the defaults %+v", c, Default())
	}
}
