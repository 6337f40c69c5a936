//go:build arm.6

#include "textflag.h"

// func addEight(dst *[scalarCols]float32, x *float32, k int, b *float32, stride int)
// F0-F7: the sums. F8: x. F9-F12: b. As the plain Go, with a multiplication and
// addition in one instruction, which rounds twice as the two do.
TEXT ·addEight(SB), NOSPLIT, $0-20
	MOVW dst+0(FP), R0
	MOVW x+4(FP), R1
	MOVW k+8(FP), R2
	MOVW b+12(FP), R3
	MOVW stride+16(FP), R4
	MOVW R4<<2, R4
	MOVF 0(R0), F0
	MOVF 4(R0), F1
	MOVF 8(R0), F2
	MOVF 12(R0), F3
	MOVF 16(R0), F4
	MOVF 20(R0), F5
	MOVF 24(R0), F6
	MOVF 28(R0), F7

step:
	MOVF  0(R1), F8
	MOVF  0(R3), F9
	MOVF  4(R3), F10
	MOVF  8(R3), F11
	MOVF  12(R3), F12
	MULAF F8, F9, F0
	MOVF  16(R3), F9
	MULAF F8, F10, F1
	MOVF  20(R3), F10
	MULAF F8, F11, F2
	MOVF  24(R3), F11
	MULAF F8, F12, F3
	MOVF  28(R3), F12
	MULAF F8, F9, F4
	MULAF F8, F10, F5
	ADD   $4, R1
	MULAF F8, F11, F6
	ADD   R4, R3
	MULAF F8, F12, F7
	SUB.S $1, R2
	BNE   step

	MOVF F0, 0(R0)
	MOVF F1, 4(R0)
	MOVF F2, 8(R0)
	MOVF F3, 12(R0)
	MOVF F4, 16(R0)
	MOVF F5, 20(R0)
	MOVF F6, 24(R0)
	MOVF F7, 28(R0)
	RET
