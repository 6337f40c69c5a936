#include "textflag.h"

// The assembler does not know the widening conversion, FCVTL and FCVTL2: four
// float16 of the lower or upper half of n become four float32 in d.
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// V27, V28 hold 16 weights; V29-V30 take them widened; V24-V26 hold x.
#define WIDEN(n) \
	FCVTL(n, 29); \
	FCVTL2(n, 30)

#define ONE(lo, hi) \
	VFMLA V29.S4, V24.S4, lo.S4; \
	VFMLA V30.S4, V24.S4, hi.S4

#define TWO(lo0, hi0, lo1, hi1) \
	ONE(lo0, hi0); \
	VFMLA V29.S4, V25.S4, lo1.S4; \
	VFMLA V30.S4, V25.S4, hi1.S4

#define THREE(lo0, hi0, lo1, hi1, lo2, hi2) \
	TWO(lo0, hi0, lo1, hi1); \
	VFMLA V29.S4, V26.S4, lo2.S4; \
	VFMLA V30.S4, V26.S4, hi2.S4

#define SIXTEEN VLD1.P 32(R3), [V27.H8, V28.H8]

#define LOAD(s0, s1, s2, s3, s4, s5, s6, s7) \
	ADD  $64, R10, R11; \
	VLD1 (R10), [s0.S4, s1.S4, s2.S4, s3.S4]; \
	VLD1 (R11), [s4.S4, s5.S4, s6.S4, s7.S4]; \
	ADD  R5, R10

#define STORE(s0, s1, s2, s3, s4, s5, s6, s7) \
	ADD  $64, R4, R11; \
	VST1 [s0.S4, s1.S4, s2.S4, s3.S4], (R4); \
	VST1 [s4.S4, s5.S4, s6.S4, s7.S4], (R11); \
	ADD  R5, R4

// func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)
// V0-V7, V8-V15, V16-V23: the sums of a row. R0-R2 walk along rows of x, R3
// along w.
TEXT ·addHalf(SB), NOSPLIT, $0-56
	MOVD rows+0(FP), R6
	MOVD k+8(FP), R7
	MOVD x+16(FP), R0
	MOVD xRow+24(FP), R8
	MOVD w+32(FP), R3
	MOVD c+40(FP), R4
	MOVD cRow+48(FP), R5
	LSL  $2, R8
	LSL  $2, R5
	ADD  R8, R0, R1
	ADD  R8, R1, R2
	MOVD R4, R10
	LOAD(V0, V1, V2, V3, V4, V5, V6, V7)
	CMP  $2, R6
	BLT  one
	LOAD(V8, V9, V10, V11, V12, V13, V14, V15)
	BEQ  two
	LOAD(V16, V17, V18, V19, V20, V21, V22, V23)

three:
	VLD1R.P 4(R0), [V24.S4]
	VLD1R.P 4(R1), [V25.S4]
	VLD1R.P 4(R2), [V26.S4]
	SIXTEEN
	WIDEN(27)
	THREE(V0, V1, V8, V9, V16, V17)
	WIDEN(28)
	THREE(V2, V3, V10, V11, V18, V19)
	SIXTEEN
	WIDEN(27)
	THREE(V4, V5, V12, V13, V20, V21)
	WIDEN(28)
	THREE(V6, V7, V14, V15, V22, V23)
	SUBS $1, R7
	BNE  three
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	STORE(V8, V9, V10, V11, V12, V13, V14, V15)
	STORE(V16, V17, V18, V19, V20, V21, V22, V23)
	RET

two:
	VLD1R.P 4(R0), [V24.S4]
	VLD1R.P 4(R1), [V25.S4]
	SIXTEEN
	WIDEN(27)
	TWO(V0, V1, V8, V9)
	WIDEN(28)
	TWO(V2, V3, V10, V11)
	SIXTEEN
	WIDEN(27)
	TWO(V4, V5, V12, V13)
	WIDEN(28)
	TWO(V6, V7, V14, V15)
	SUBS $1, R7
	BNE  two
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	STORE(V8, V9, V10, V11, V12, V13, V14, V15)
	RET

one:
	VLD1R.P 4(R0), [V24.S4]
	SIXTEEN
	WIDEN(27)
	ONE(V0, V1)
	WIDEN(28)
	ONE(V2, V3)
	SIXTEEN
	WIDEN(27)
	ONE(V4, V5)
	WIDEN(28)
	ONE(V6, V7)
	SUBS $1, R7
	BNE  one
	STORE(V0, V1, V2, V3, V4, V5, V6, V7)
	RET
