#include "textflag.h"

// Products of 1 to 3 rows with 32 columns of a float32 matrix, read where it
// lies. As half_arm64.s, without the widening.

// V27-V30 hold 16 numbers of b; V24-V26 hold x.
#define SIXTEEN(from) VLD1 (from), [V27.S4, V28.S4, V29.S4, V30.S4]

#define ONE(x, s0, s1, s2, s3) \
	VFMLA V27.S4, x, s0.S4; \
	VFMLA V28.S4, x, s1.S4; \
	VFMLA V29.S4, x, s2.S4; \
	VFMLA V30.S4, x, s3.S4

#define ZERO(s0, s1, s2, s3, s4, s5, s6, s7) \
	VEOR s0.B16, s0.B16, s0.B16; \
	VEOR s1.B16, s1.B16, s1.B16; \
	VEOR s2.B16, s2.B16, s2.B16; \
	VEOR s3.B16, s3.B16, s3.B16; \
	VEOR s4.B16, s4.B16, s4.B16; \
	VEOR s5.B16, s5.B16, s5.B16; \
	VEOR s6.B16, s6.B16, s6.B16; \
	VEOR s7.B16, s7.B16, s7.B16

#define STORE(s0, s1, s2, s3, s4, s5, s6, s7) \
	ADD  $64, R4, R11; \
	VST1 [s0.S4, s1.S4, s2.S4, s3.S4], (R4); \
	VST1 [s4.S4, s5.S4, s6.S4, s7.S4], (R11); \
	ADD  R5, R4

// func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)
// V0-V7, V8-V15, V16-V23: the sums of a row. R0-R2 walk along rows of x, R3
// down b.
TEXT ·rows32(SB), NOSPLIT, $0-64
	MOVD rows+0(FP), R6
	MOVD k+8(FP), R7
	MOVD x+16(FP), R0
	MOVD xRow+24(FP), R8
	MOVD b+32(FP), R3
	MOVD bRow+40(FP), R9
	MOVD c+48(FP), R4
	MOVD cRow+56(FP), R5
	LSL  $2, R8
	LSL  $2, R9
	LSL  $2, R5
	ADD  R8, R0, R1
	ADD  R8, R1, R2
	ZERO(V0, V1, V2, V3, V4, V5, V6, V7)
	ZERO(V8, V9, V10, V11, V12, V13, V14, V15)
	ZERO(V16, V17, V18, V19, V20, V21, V22, V23)
	CMP  $2, R6
	BLT  one
	BEQ  two

three:
	VLD1R.P 4(R0), [V24.S4]
	VLD1R.P 4(R1), [V25.S4]
	VLD1R.P 4(R2), [V26.S4]
	SIXTEEN(R3)
	ADD  $64, R3, R11
	ONE(V24.S4, V0, V1, V2, V3)
	ONE(V25.S4, V8, V9, V10, V11)
	ONE(V26.S4, V16, V17, V18, V19)
	SIXTEEN(R11)
	ADD  R9, R3
	ONE(V24.S4, V4, V5, V6, V7)
	ONE(V25.S4, V12, V13, V14, V15)
	ONE(V26.S4, V20, V21, V22, V23)
	SUBS $1, R7
	BNE  three
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	STORE(V8, V9, V10, V11, V12, V13, V14, V15)
	STORE(V16, V17, V18, V19, V20, V21, V22, V23)
	RET

two:
	VLD1R.P 4(R0), [V24.S4]
	VLD1R.P 4(R1), [V25.S4]
	SIXTEEN(R3)
	ADD  $64, R3, R11
	ONE(V24.S4, V0, V1, V2, V3)
	ONE(V25.S4, V8, V9, V10, V11)
	SIXTEEN(R11)
	ADD  R9, R3
	ONE(V24.S4, V4, V5, V6, V7)
	ONE(V25.S4, V12, V13, V14, V15)
	SUBS $1, R7
	BNE  two
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	STORE(V8, V9, V10, V11, V12, V13, V14, V15)
	RET

one:
	VLD1R.P 4(R0), [V24.S4]
	SIXTEEN(R3)
	ADD  $64, R3, R11
	ONE(V24.S4, V0, V1, V2, V3)
	SIXTEEN(R11)
	ADD  R9, R3
	ONE(V24.S4, V4, V5, V6, V7)
	SUBS $1, R7
	BNE  one
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	RET
