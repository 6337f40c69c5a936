// Blobs is an example of a function: it finds bright blobs in tiles of an image, as an
// executor. It also makes such images.
package main

import (
	"context"
	"math/rand/v2"

	"prefdt/configs/cli"
	"prefdt/firmware/worker/sdk"
)

var program = cli.Program{
	Name:  "blobs",
	Usage: "blobs finds bright blobs in tiles of 32 by 32 bytes; a worker or user starts it as an executor.",
	Commands: []cli.Command{
		{Args: "", Summary: "serve the pipe: a task in, 8 bytes for each tile out", Run: func(_ context.Context, call *cli.Call) error {
			if _, err := call.Parse("", 0); err != nil {
				return err
			}
			return sdk.Serve(find)
		}},
		{Name: "generate", Args: "[-tiles N] [-seed N]", Summary: "write an image of so many tiles to standard output",
			Run: func(_ context.Context, call *cli.Call) error {
				tiles := call.Flags.Int("tiles", 100, "how many `tiles`")
				seed := call.Flags.Uint64("seed", 1, "`number` that it is drawn from")
				if _, err := call.Parse("", 0); err != nil {
					return err
				}
				image, _ := generate(rand.New(rand.NewPCG(*seed, 0)), *tiles)
				_, err := call.Stdout.Write(image)
				return err
			}},
	},
}

func main() { program.Main() }
