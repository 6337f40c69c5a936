#include "textflag.h"

// func tileNEON(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)
//
// A 6x16 tile of c in V0-V23, four registers a row. Per step of k: V24-V27
// hold a row of b, V28-V31 take turns to broadcast an element of a. R0-R5
// walk down six rows of a, R9 (aK) bytes a step; R6 walks down b.
#define ROW(address, broadcast, c0, c1, c2, c3) \
	VLD1R.P (address)(R9), [broadcast.S4]; \
	VFMLA V24.S4, broadcast.S4, c0.S4; \
	VFMLA V25.S4, broadcast.S4, c1.S4; \
	VFMLA V26.S4, broadcast.S4, c2.S4; \
	VFMLA V27.S4, broadcast.S4, c3.S4

#define ZERO(c0, c1, c2, c3) \
	VEOR c0.B16, c0.B16, c0.B16; \
	VEOR c1.B16, c1.B16, c1.B16; \
	VEOR c2.B16, c2.B16, c2.B16; \
	VEOR c3.B16, c3.B16, c3.B16

TEXT ·tileNEON(SB), NOSPLIT, $0-65
	MOVD k+0(FP), R12
	MOVD a+8(FP), R0
	MOVD aRow+16(FP), R8
	MOVD aK+24(FP), R9
	MOVD b+32(FP), R6
	MOVD bRow+40(FP), R10
	MOVD c+48(FP), R7
	MOVD cRow+56(FP), R11
	MOVBU accumulate+64(FP), R13
	LSL  $2, R8
	LSL  $2, R9
	LSL  $2, R10
	LSL  $2, R11
	ADD  R8, R0, R1
	ADD  R8, R1, R2
	ADD  R8, R2, R3
	ADD  R8, R3, R4
	ADD  R8, R4, R5
	CBZ  R13, zero
	MOVD R7, R14
	VLD1.P (R14)(R11), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P (R14)(R11), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P (R14)(R11), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1.P (R14)(R11), [V12.S4, V13.S4, V14.S4, V15.S4]
	VLD1.P (R14)(R11), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1 (R14), [V20.S4, V21.S4, V22.S4, V23.S4]
	B    step

zero:
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	ZERO(V8, V9, V10, V11)
	ZERO(V12, V13, V14, V15)
	ZERO(V16, V17, V18, V19)
	ZERO(V20, V21, V22, V23)

step:
	VLD1.P (R6)(R10), [V24.S4, V25.S4, V26.S4, V27.S4]
	ROW(R0, V28, V0, V1, V2, V3)
	ROW(R1, V29, V4, V5, V6, V7)
	ROW(R2, V30, V8, V9, V10, V11)
	ROW(R3, V31, V12, V13, V14, V15)
	ROW(R4, V28, V16, V17, V18, V19)
	ROW(R5, V29, V20, V21, V22, V23)
	SUBS $1, R12
	BNE  step

	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], (R7)(R11)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], (R7)(R11)
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], (R7)(R11)
	VST1.P [V12.S4, V13.S4, V14.S4, V15.S4], (R7)(R11)
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], (R7)(R11)
	VST1 [V20.S4, V21.S4, V22.S4, V23.S4], (R7)
	RET

// func packFullRows(dst, src *float32, stride, k int)
TEXT ·packFullRows(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD stride+16(FP), R2
	MOVD k+24(FP), R3
	LSL  $2, R2

copy16:
	VLD1.P (R1)(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS $1, R3
	BNE  copy16
	RET

// Four rows of eight, in two registers each, become eight rows of four in
// the same registers, in the order a0 b0 c0 d0 a1 b1 c1 d1.
#define TRANSPOSE4X8(a0, a1, b0, b1, c0, c1, d0, d1) \
	VZIP1 c0.S4, a0.S4, V16.S4; \
	VZIP2 c0.S4, a0.S4, V17.S4; \
	VZIP1 d0.S4, b0.S4, V18.S4; \
	VZIP2 d0.S4, b0.S4, V19.S4; \
	VZIP1 c1.S4, a1.S4, V20.S4; \
	VZIP2 c1.S4, a1.S4, V21.S4; \
	VZIP1 d1.S4, b1.S4, V22.S4; \
	VZIP2 d1.S4, b1.S4, V23.S4; \
	VZIP1 V18.S4, V16.S4, a0.S4; \
	VZIP2 V18.S4, V16.S4, b0.S4; \
	VZIP1 V19.S4, V17.S4, c0.S4; \
	VZIP2 V19.S4, V17.S4, d0.S4; \
	VZIP1 V22.S4, V20.S4, a1.S4; \
	VZIP2 V22.S4, V20.S4, b1.S4; \
	VZIP1 V23.S4, V21.S4, c1.S4; \
	VZIP2 V23.S4, V21.S4, d1.S4

#define STORE_COLUMN(top, bottom) \
	VST1 [top.S4], (R0); \
	ADD  $16, R0, R13; \
	VST1 [bottom.S4], (R13); \
	ADD  R1, R0

// func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int)
// R2, R5-R11 walk along eight rows of src.
TEXT ·transpose8(SB), NOSPLIT, $0-40
	MOVD dst+0(FP), R0
	MOVD dstStride+8(FP), R1
	MOVD src+16(FP), R2
	MOVD srcStride+24(FP), R3
	MOVD blocks+32(FP), R4
	LSL  $2, R1
	LSL  $2, R3
	ADD  R3, R2, R5
	ADD  R3, R5, R6
	ADD  R3, R6, R7
	ADD  R3, R7, R8
	ADD  R3, R8, R9
	ADD  R3, R9, R10
	ADD  R3, R10, R11

block8:
	VLD1.P 32(R2), [V0.S4, V1.S4]
	VLD1.P 32(R5), [V2.S4, V3.S4]
	VLD1.P 32(R6), [V4.S4, V5.S4]
	VLD1.P 32(R7), [V6.S4, V7.S4]
	VLD1.P 32(R8), [V8.S4, V9.S4]
	VLD1.P 32(R9), [V10.S4, V11.S4]
	VLD1.P 32(R10), [V12.S4, V13.S4]
	VLD1.P 32(R11), [V14.S4, V15.S4]
	TRANSPOSE4X8(V0, V1, V2, V3, V4, V5, V6, V7)
	TRANSPOSE4X8(V8, V9, V10, V11, V12, V13, V14, V15)
	STORE_COLUMN(V0, V8)
	STORE_COLUMN(V2, V10)
	STORE_COLUMN(V4, V12)
	STORE_COLUMN(V6, V14)
	STORE_COLUMN(V1, V9)
	STORE_COLUMN(V3, V11)
	STORE_COLUMN(V5, V13)
	STORE_COLUMN(V7, V15)
	SUBS $1, R4
	BNE  block8
	RET
