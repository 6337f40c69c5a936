//go:build !linux

package bench

func pin() func() { return func() {} }
