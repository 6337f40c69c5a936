#include "textflag.h"

// Row operations on n float32, n a positive multiple of 8, four at a time.
// R4 counts down what is left.

// Vector arithmetic that the assembler does not know, on four float32:
// d = n + m, n - m, n · m, n / m, the greater, the smaller (both keep a NaN),
// all ones where n > m, n without the bits of m, sums of neighbours, and the
// greatest of n.
#define FADD(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))
#define FSUB(m, n, d) WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d))
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FDIV(m, n, d) WORD $(0x6E20FC00 | (m)<<16 | (n)<<5 | (d))
#define FMAX(m, n, d) WORD $(0x4E20F400 | (m)<<16 | (n)<<5 | (d))
#define FMIN(m, n, d) WORD $(0x4EA0F400 | (m)<<16 | (n)<<5 | (d))
#define FCMGT(m, n, d) WORD $(0x6EA0E400 | (m)<<16 | (n)<<5 | (d))
#define BIC(m, n, d) WORD $(0x4E601C00 | (m)<<16 | (n)<<5 | (d))
#define FADDP(m, n, d) WORD $(0x6E20D400 | (m)<<16 | (n)<<5 | (d))
#define FMAXV(n, d) WORD $(0x6E30F800 | (n)<<5 | (d))

// Every lane of v becomes the sum of its lanes.
#define SUM(v) \
	FADDP(v, v, v); \
	FADDP(v, v, v)

// vectorConstants, broadcast: V15 floor, V16 ceiling, V17 log2(e), V18 shift,
// V19 and V20 ln(2), V21-V26 the polynomial, V27 one, V28-V31 the slopes of
// GELU's exponent: -s, -s c, s, 3 s c.
#define CONSTANTS \
	MOVD $·vectorConstants(SB), R5; \
	VLD1R.P 4(R5), [V15.S4]; \
	VLD1R.P 4(R5), [V16.S4]; \
	VLD1R.P 4(R5), [V17.S4]; \
	VLD1R.P 4(R5), [V18.S4]; \
	VLD1R.P 4(R5), [V19.S4]; \
	VLD1R.P 4(R5), [V20.S4]; \
	VLD1R.P 4(R5), [V21.S4]; \
	VLD1R.P 4(R5), [V22.S4]; \
	VLD1R.P 4(R5), [V23.S4]; \
	VLD1R.P 4(R5), [V24.S4]; \
	VLD1R.P 4(R5), [V25.S4]; \
	VLD1R.P 4(R5), [V26.S4]; \
	VLD1R.P 4(R5), [V27.S4]; \
	VLD1R.P 4(R5), [V28.S4]; \
	VLD1R.P 4(R5), [V29.S4]; \
	VLD1R.P 4(R5), [V30.S4]; \
	VLD1R.P 4(R5), [V31.S4]

// V2 = exp(V0), as the reference in exp.go; V1, V3, V4 are lost. The shift
// carries 127, so the low bits of the shifted number are the exponent of 2^n.
#define EXP \
	FMAX(0, 15, 1); \
	FMIN(1, 16, 1); \
	VMOV V18.B16, V2.B16; \
	VFMLA V17.S4, V1.S4, V2.S4; \
	VSHL $23, V2.S4, V3.S4; \
	FSUB(18, 2, 2); \
	VFMLS V19.S4, V2.S4, V1.S4; \
	VFMLS V20.S4, V2.S4, V1.S4; \
	VMOV V22.B16, V2.B16; \
	VFMLA V21.S4, V1.S4, V2.S4; \
	VMOV V23.B16, V4.B16; \
	VFMLA V2.S4, V1.S4, V4.S4; \
	VMOV V24.B16, V2.B16; \
	VFMLA V4.S4, V1.S4, V2.S4; \
	VMOV V25.B16, V4.B16; \
	VFMLA V2.S4, V1.S4, V4.S4; \
	VMOV V26.B16, V2.B16; \
	VFMLA V4.S4, V1.S4, V2.S4; \
	FMUL(1, 2, 2); \
	VMOV V1.B16, V4.B16; \
	VFMLA V2.S4, V1.S4, V4.S4; \
	VMOV V3.B16, V2.B16; \
	VFMLA V4.S4, V3.S4, V2.S4; \
	FCMGT(0, 15, 1); \
	BIC(1, 2, 2)

// V2 = 1 + exp(-x (s + s c x²)) of the x in V5: one over the gate of GELU.
#define GATE \
	FMUL(5, 5, 0); \
	VMOV V28.B16, V1.B16; \
	VFMLA V29.S4, V0.S4, V1.S4; \
	FMUL(1, 5, 0); \
	EXP; \
	FADD(27, 2, 2)

// func addVector(dst, x *float32, n int)
TEXT ·addVector(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R4

add4:
	VLD1   (R0), [V0.S4]
	VLD1.P 16(R1), [V1.S4]
	FADD(1, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    add4
	RET

// func addScaledVector(dst *float32, s float32, x *float32, n int)
TEXT ·addScaledVector(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD $s+8(FP), R2
	VLD1R (R2), [V2.S4]
	MOVD x+16(FP), R1
	MOVD n+24(FP), R4

addScaled4:
	VLD1   (R0), [V0.S4]
	VLD1.P 16(R1), [V1.S4]
	VFMLA  V1.S4, V2.S4, V0.S4
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    addScaled4
	RET

// func geluVector(dst, x *float32, n int)
TEXT ·geluVector(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R4
	CONSTANTS

gelu4:
	VLD1.P 16(R1), [V5.S4]
	GATE
	FDIV(2, 5, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    gelu4
	RET

// func geluBackwardVector(dx, dy, x *float32, n int)
TEXT ·geluBackwardVector(SB), NOSPLIT, $0-32
	MOVD dx+0(FP), R0
	MOVD dy+8(FP), R1
	MOVD x+16(FP), R2
	MOVD n+24(FP), R4
	CONSTANTS

geluBackward4:
	VLD1.P 16(R2), [V5.S4]
	GATE
	FDIV(2, 27, 2)                 // the gate g
	FSUB(2, 27, 3)                 // 1 - g
	FMUL(2, 3, 3)                  // g (1 - g)
	FMUL(5, 3, 3)                  // x g (1 - g)
	FMUL(5, 5, 0)
	VMOV   V30.B16, V1.B16
	VFMLA  V31.S4, V0.S4, V1.S4    // the slope of the exponent
	VFMLA  V3.S4, V1.S4, V2.S4
	VLD1.P 16(R1), [V0.S4]
	FMUL(0, 2, 2)
	VST1.P [V2.S4], 16(R0)
	SUBS   $4, R4
	BNE    geluBackward4
	RET

// func maxVector(x *float32, n int) float32
TEXT ·maxVector(SB), NOSPLIT, $0-20
	MOVD x+0(FP), R0
	MOVD n+8(FP), R4
	VLD1 (R0), [V0.S4]

max4:
	VLD1.P 16(R0), [V1.S4]
	FMAX(1, 0, 0)
	SUBS   $4, R4
	BNE    max4
	FMAXV(0, 0)
	FMOVS  F0, ret+16(FP)
	RET

// func expSumVector(x *float32, top float32, n int) float32
// V6: the sum. V7: top.
TEXT ·expSumVector(SB), NOSPLIT, $0-28
	MOVD x+0(FP), R0
	MOVD n+16(FP), R4
	MOVD $top+8(FP), R1
	VLD1R (R1), [V7.S4]
	VEOR V6.B16, V6.B16, V6.B16
	CONSTANTS

exp4:
	VLD1   (R0), [V0.S4]
	FSUB(7, 0, 0)
	EXP
	FADD(2, 6, 6)
	VST1.P [V2.S4], 16(R0)
	SUBS   $4, R4
	BNE    exp4
	SUM(6)
	FMOVS  F6, ret+24(FP)
	RET

// func scaleVector(x *float32, s float32, n int)
TEXT ·scaleVector(SB), NOSPLIT, $0-24
	MOVD x+0(FP), R0
	MOVD $s+8(FP), R1
	VLD1R (R1), [V1.S4]
	MOVD n+16(FP), R4

scale4:
	VLD1   (R0), [V0.S4]
	FMUL(1, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    scale4
	RET

// func dotVector(a, b *float32, n int) float32
TEXT ·dotVector(SB), NOSPLIT, $0-28
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD n+16(FP), R4
	VEOR V0.B16, V0.B16, V0.B16

dot4:
	VLD1.P 16(R0), [V1.S4]
	VLD1.P 16(R1), [V2.S4]
	VFMLA  V1.S4, V2.S4, V0.S4
	SUBS   $4, R4
	BNE    dot4
	SUM(0)
	FMOVS  F0, ret+24(FP)
	RET

// func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int)
TEXT ·softmaxBackwardVector(SB), NOSPLIT, $0-40
	MOVD dx+0(FP), R0
	MOVD dy+8(FP), R1
	MOVD y+16(FP), R2
	MOVD $dot+24(FP), R5
	VLD1R (R5), [V3.S4]
	MOVD n+32(FP), R4

softmaxBackward4:
	VLD1.P 16(R1), [V0.S4]
	VLD1.P 16(R2), [V1.S4]
	FSUB(3, 0, 0)
	FMUL(1, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    softmaxBackward4
	RET

// func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32)
// V2: mean. V3: rstd. V6: n.
TEXT ·layerNormVector(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD gain+16(FP), R2
	MOVD bias+24(FP), R3
	MOVD n+40(FP), R4
	SCVTFS R4, F6
	VDUP V6.S[0], V6.S4
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	MOVD R1, R5

mean4:
	VLD1.P 16(R5), [V0.S4]
	FADD(0, 2, 2)
	SUBS   $4, R4
	BNE    mean4
	SUM(2)
	FDIV(6, 2, 2)
	FMOVS  F2, mean+48(FP)
	MOVD   n+40(FP), R4
	MOVD   R1, R5

variance4:
	VLD1.P 16(R5), [V0.S4]
	FSUB(2, 0, 0)
	VFMLA  V0.S4, V0.S4, V3.S4
	SUBS   $4, R4
	BNE    variance4
	SUM(3)
	FDIV(6, 3, 3)
	FMOVS  eps+32(FP), F0
	FADDS  F0, F3, F3
	FSQRTS F3, F3
	FMOVS  $1.0, F0
	FDIVS  F3, F0, F3
	FMOVS  F3, rstd+52(FP)
	VDUP   V3.S[0], V3.S4
	MOVD   n+40(FP), R4

normalise4:
	VLD1.P 16(R1), [V0.S4]
	FSUB(2, 0, 0)
	FMUL(3, 0, 0)
	VLD1.P 16(R2), [V1.S4]
	VLD1.P 16(R3), [V4.S4]
	VFMLA  V0.S4, V1.S4, V4.S4
	VST1.P [V4.S4], 16(R0)
	SUBS   $4, R4
	BNE    normalise4
	RET

// func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int)
// V2: mean. V3: rstd. V4: sum of g, then its mean. V5: sum of g h, then its
// mean. V6: n.
TEXT ·layerNormBackwardVector(SB), NOSPLIT, $0-72
	MOVD dx+0(FP), R0
	MOVD dy+8(FP), R1
	MOVD x+16(FP), R2
	MOVD gain+24(FP), R3
	MOVD $mean+32(FP), R5
	VLD1R (R5), [V2.S4]
	MOVD $rstd+36(FP), R5
	VLD1R (R5), [V3.S4]
	MOVD dgain+40(FP), R9
	MOVD dbias+48(FP), R10
	MOVBU accumulate+56(FP), R11
	MOVD n+64(FP), R4
	SCVTFS R4, F6
	VDUP V6.S[0], V6.S4
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	MOVD R1, R6
	MOVD R2, R7
	MOVD R3, R8

sums4:
	VLD1.P 16(R7), [V0.S4]
	FSUB(2, 0, 0)
	FMUL(3, 0, 0)                  // h
	VLD1.P 16(R6), [V1.S4]         // dy
	VLD1   (R9), [V7.S4]
	VFMLA  V0.S4, V1.S4, V7.S4
	VST1.P [V7.S4], 16(R9)
	VLD1   (R10), [V7.S4]
	FADD(1, 7, 7)
	VST1.P [V7.S4], 16(R10)
	VLD1.P 16(R8), [V7.S4]
	FMUL(7, 1, 1)                  // g
	FADD(1, 4, 4)
	VFMLA  V0.S4, V1.S4, V5.S4
	SUBS   $4, R4
	BNE    sums4
	SUM(4)
	SUM(5)
	FDIV(6, 4, 4)
	FDIV(6, 5, 5)
	MOVD   n+64(FP), R4

dx4:
	VLD1.P 16(R2), [V0.S4]
	FSUB(2, 0, 0)
	FMUL(3, 0, 0)                  // h
	VLD1.P 16(R1), [V1.S4]
	VLD1.P 16(R3), [V7.S4]
	FMUL(7, 1, 1)                  // g
	FSUB(4, 1, 1)
	VFMLS  V0.S4, V5.S4, V1.S4
	FMUL(3, 1, 1)
	CBZ    R11, set4
	VLD1   (R0), [V7.S4]
	FADD(7, 1, 1)

set4:
	VST1.P [V1.S4], 16(R0)
	SUBS   $4, R4
	BNE    dx4
	RET
