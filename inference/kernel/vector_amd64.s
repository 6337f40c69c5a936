#include "textflag.h"

// Row operations on n float32, n a positive multiple of 8, with AVX2 and FMA.
// In all of them AX counts the bytes done and CX holds the bytes to do.

// Positions in vectorConstants, in bytes.
#define FLOOR 0
#define CEILING 4
#define ONE 48
#define MINUS_SCALE 52
#define MINUS_CUBIC 56
#define SCALE 60
#define THREE_CUBIC 64

// Constants of EXP: Y4 floor, Y6 log2(e), Y7 shift, Y8 and Y9 ln(2), Y10-Y15
// the polynomial. R8 points at the table.
#define EXP_SETUP \
	LEAQ ·vectorConstants(SB), R8; \
	VBROADCASTSS FLOOR(R8), Y4; \
	VBROADCASTSS 8(R8), Y6; \
	VBROADCASTSS 12(R8), Y7; \
	VBROADCASTSS 16(R8), Y8; \
	VBROADCASTSS 20(R8), Y9; \
	VBROADCASTSS 24(R8), Y10; \
	VBROADCASTSS 28(R8), Y11; \
	VBROADCASTSS 32(R8), Y12; \
	VBROADCASTSS 36(R8), Y13; \
	VBROADCASTSS 40(R8), Y14; \
	VBROADCASTSS 44(R8), Y15

// Y2 = exp(Y0), as the reference in exp.go; Y0, Y1, Y3 are lost. The shift
// carries 127, so the low bits of the shifted number are the exponent of 2^n.
// Where a maximum or minimum meets a NaN it keeps the first operand here.
#define EXP \
	VBROADCASTSS CEILING(R8), Y2; \
	VMAXPS Y0, Y4, Y1; \
	VMINPS Y1, Y2, Y1; \
	VMOVAPS Y7, Y2; \
	VFMADD231PS Y6, Y1, Y2; \
	VPSLLD $23, Y2, Y3; \
	VSUBPS Y7, Y2, Y2; \
	VFNMADD231PS Y8, Y2, Y1; \
	VFNMADD231PS Y9, Y2, Y1; \
	VMOVAPS Y10, Y2; \
	VFMADD213PS Y11, Y1, Y2; \
	VFMADD213PS Y12, Y1, Y2; \
	VFMADD213PS Y13, Y1, Y2; \
	VFMADD213PS Y14, Y1, Y2; \
	VFMADD213PS Y15, Y1, Y2; \
	VMULPS Y1, Y2, Y2; \
	VFMADD213PS Y1, Y1, Y2; \
	VFMADD213PS Y3, Y3, Y2; \
	VCMPPS $21, Y4, Y0, Y0; \
	VANDPS Y0, Y2, Y2

// Y2 = 1 + exp(-x (s + s c x²)) of the x in Y0: one over the gate of GELU.
#define GATE \
	VMULPS Y0, Y0, Y1; \
	VBROADCASTSS MINUS_CUBIC(R8), Y2; \
	VBROADCASTSS MINUS_SCALE(R8), Y3; \
	VFMADD231PS Y2, Y1, Y3; \
	VMULPS Y3, Y0, Y0; \
	EXP; \
	VBROADCASTSS ONE(R8), Y3; \
	VADDPS Y3, Y2, Y2

// X0 = the sum of Y0; X1 is lost.
#define SUM(y0, x0, x1) \
	VEXTRACTF128 $1, y0, x1; \
	VADDPS x1, x0, x0; \
	VHADDPS x0, x0, x0; \
	VHADDPS x0, x0, x0

// func addVector(dst, x *float32, n int)
TEXT ·addVector(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	SHLQ $2, CX
	XORQ AX, AX

add8:
	VMOVUPS (SI)(AX*1), Y0
	VADDPS  (DI)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     add8
	VZEROUPPER
	RET

// func addScaledVector(dst *float32, s float32, x *float32, n int)
TEXT ·addScaledVector(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	VBROADCASTSS s+8(FP), Y1
	MOVQ         x+16(FP), SI
	MOVQ         n+24(FP), CX
	SHLQ         $2, CX
	XORQ         AX, AX

addScaled8:
	VMOVUPS     (DI)(AX*1), Y0
	VFMADD231PS (SI)(AX*1), Y1, Y0
	VMOVUPS     Y0, (DI)(AX*1)
	ADDQ        $32, AX
	CMPQ        AX, CX
	JLT         addScaled8
	VZEROUPPER
	RET

// func geluAVX2(dst, x *float32, n int)
TEXT ·geluAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	SHLQ $2, CX
	XORQ AX, AX
	EXP_SETUP

gelu8:
	VMOVUPS (SI)(AX*1), Y0
	GATE
	VMOVUPS (SI)(AX*1), Y0
	VDIVPS  Y2, Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     gelu8
	VZEROUPPER
	RET

// func geluBackwardAVX2(dx, dy, x *float32, n int)
TEXT ·geluBackwardAVX2(SB), NOSPLIT, $0-32
	MOVQ dx+0(FP), DI
	MOVQ dy+8(FP), DX
	MOVQ x+16(FP), SI
	MOVQ n+24(FP), CX
	SHLQ $2, CX
	XORQ AX, AX
	EXP_SETUP

geluBackward8:
	VMOVUPS      (SI)(AX*1), Y0
	GATE
	VDIVPS       Y2, Y3, Y2           // the gate g
	VSUBPS       Y2, Y3, Y3           // 1 - g
	VMULPS       Y2, Y3, Y3           // g (1 - g)
	VMOVUPS      (SI)(AX*1), Y0
	VMULPS       Y0, Y3, Y3           // x g (1 - g)
	VMULPS       Y0, Y0, Y0
	VBROADCASTSS THREE_CUBIC(R8), Y5
	VBROADCASTSS SCALE(R8), Y1
	VFMADD231PS  Y5, Y0, Y1           // the slope of the exponent
	VFMADD231PS  Y3, Y1, Y2
	VMULPS       (DX)(AX*1), Y2, Y2
	VMOVUPS      Y2, (DI)(AX*1)
	ADDQ         $32, AX
	CMPQ         AX, CX
	JLT          geluBackward8
	VZEROUPPER
	RET

// func maxVector(x *float32, n int) float32
TEXT ·maxVector(SB), NOSPLIT, $0-20
	MOVQ    x+0(FP), SI
	MOVQ    n+8(FP), CX
	SHLQ    $2, CX
	XORQ    AX, AX
	VMOVUPS (SI), Y0

max8:
	VMAXPS       (SI)(AX*1), Y0, Y0
	ADDQ         $32, AX
	CMPQ         AX, CX
	JLT          max8
	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VSHUFPS      $0x4e, X0, X0, X1
	VMAXPS       X1, X0, X0
	VSHUFPS      $0xb1, X0, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSS       X0, ret+16(FP)
	VZEROUPPER
	RET

// func expSumVector(x *float32, top float32, n int) float32
TEXT ·expSumVector(SB), NOSPLIT, $0-28
	MOVQ   x+0(FP), SI
	MOVQ   n+16(FP), CX
	SHLQ   $2, CX
	XORQ   AX, AX
	VXORPS Y5, Y5, Y5
	EXP_SETUP

exp8:
	VBROADCASTSS top+8(FP), Y1
	VMOVUPS      (SI)(AX*1), Y0
	VSUBPS       Y1, Y0, Y0
	EXP
	VADDPS       Y2, Y5, Y5
	VMOVUPS      Y2, (SI)(AX*1)
	ADDQ         $32, AX
	CMPQ         AX, CX
	JLT          exp8
	SUM(Y5, X5, X1)
	VMOVSS       X5, ret+24(FP)
	VZEROUPPER
	RET

// func scaleVector(x *float32, s float32, n int)
TEXT ·scaleVector(SB), NOSPLIT, $0-24
	MOVQ         x+0(FP), SI
	VBROADCASTSS s+8(FP), Y1
	MOVQ         n+16(FP), CX
	SHLQ         $2, CX
	XORQ         AX, AX

scale8:
	VMULPS  (SI)(AX*1), Y1, Y0
	VMOVUPS Y0, (SI)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     scale8
	VZEROUPPER
	RET

// func dotVector(a, b *float32, n int) float32
TEXT ·dotVector(SB), NOSPLIT, $0-28
	MOVQ   a+0(FP), SI
	MOVQ   b+8(FP), DX
	MOVQ   n+16(FP), CX
	SHLQ   $2, CX
	XORQ   AX, AX
	VXORPS Y0, Y0, Y0

dot8:
	VMOVUPS     (SI)(AX*1), Y1
	VFMADD231PS (DX)(AX*1), Y1, Y0
	ADDQ        $32, AX
	CMPQ        AX, CX
	JLT         dot8
	SUM(Y0, X0, X1)
	VMOVSS      X0, ret+24(FP)
	VZEROUPPER
	RET

// func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int)
TEXT ·softmaxBackwardVector(SB), NOSPLIT, $0-40
	MOVQ         dx+0(FP), DI
	MOVQ         dy+8(FP), DX
	MOVQ         y+16(FP), SI
	VBROADCASTSS dot+24(FP), Y1
	MOVQ         n+32(FP), CX
	SHLQ         $2, CX
	XORQ         AX, AX

softmaxBackward8:
	VMOVUPS (DX)(AX*1), Y0
	VSUBPS  Y1, Y0, Y0
	VMULPS  (SI)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     softmaxBackward8
	VZEROUPPER
	RET

// func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32)
// Y2: mean. Y3: rstd. X4: n.
TEXT ·layerNormVector(SB), NOSPLIT, $0-56
	MOVQ      dst+0(FP), DI
	MOVQ      x+8(FP), SI
	MOVQ      gain+16(FP), R8
	MOVQ      bias+24(FP), R9
	MOVQ      n+40(FP), CX
	VXORPS    X4, X4, X4
	VCVTSI2SSQ CX, X4, X4
	SHLQ      $2, CX
	VXORPS    Y0, Y0, Y0
	XORQ      AX, AX

mean8:
	VADDPS       (SI)(AX*1), Y0, Y0
	ADDQ         $32, AX
	CMPQ         AX, CX
	JLT          mean8
	SUM(Y0, X0, X1)
	VDIVSS       X4, X0, X0
	VMOVSS       X0, mean+48(FP)
	VBROADCASTSS X0, Y2
	VXORPS       Y0, Y0, Y0
	XORQ         AX, AX

variance8:
	VMOVUPS      (SI)(AX*1), Y1
	VSUBPS       Y2, Y1, Y1
	VFMADD231PS  Y1, Y1, Y0
	ADDQ         $32, AX
	CMPQ         AX, CX
	JLT          variance8
	SUM(Y0, X0, X1)
	VDIVSS       X4, X0, X0
	VADDSS       eps+32(FP), X0, X0
	VSQRTSS      X0, X0, X0
	MOVL         $0x3f800000, R10 // 1
	VMOVD        R10, X1
	VDIVSS       X0, X1, X0
	VMOVSS       X0, rstd+52(FP)
	VBROADCASTSS X0, Y3
	XORQ         AX, AX

normalise8:
	VMOVUPS     (SI)(AX*1), Y0
	VSUBPS      Y2, Y0, Y0
	VMULPS      Y3, Y0, Y0
	VMOVUPS     (R9)(AX*1), Y1
	VFMADD231PS (R8)(AX*1), Y0, Y1
	VMOVUPS     Y1, (DI)(AX*1)
	ADDQ        $32, AX
	CMPQ        AX, CX
	JLT         normalise8
	VZEROUPPER
	RET

// func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int)
// Y2: mean. Y3: rstd. Y4: sum of g, then its mean. Y5: sum of g h, then its
// mean. X6: n.
TEXT ·layerNormBackwardVector(SB), NOSPLIT, $0-72
	MOVQ         dx+0(FP), DI
	MOVQ         dy+8(FP), DX
	MOVQ         x+16(FP), SI
	MOVQ         gain+24(FP), R8
	VBROADCASTSS mean+32(FP), Y2
	VBROADCASTSS rstd+36(FP), Y3
	MOVQ         dgain+40(FP), R9
	MOVQ         dbias+48(FP), R10
	MOVQ         n+64(FP), CX
	VXORPS       X6, X6, X6
	VCVTSI2SSQ   CX, X6, X6
	SHLQ         $2, CX
	VXORPS       Y4, Y4, Y4
	VXORPS       Y5, Y5, Y5
	XORQ         AX, AX

sums8:
	VMOVUPS     (SI)(AX*1), Y0
	VSUBPS      Y2, Y0, Y0
	VMULPS      Y3, Y0, Y0             // h
	VMOVUPS     (DX)(AX*1), Y1         // dy
	VMOVUPS     (R9)(AX*1), Y7
	VFMADD231PS Y0, Y1, Y7
	VMOVUPS     Y7, (R9)(AX*1)
	VADDPS      (R10)(AX*1), Y1, Y7
	VMOVUPS     Y7, (R10)(AX*1)
	VMULPS      (R8)(AX*1), Y1, Y1     // g
	VADDPS      Y1, Y4, Y4
	VFMADD231PS Y0, Y1, Y5
	ADDQ        $32, AX
	CMPQ        AX, CX
	JLT         sums8
	SUM(Y4, X4, X1)
	SUM(Y5, X5, X1)
	VDIVSS       X6, X4, X4
	VDIVSS       X6, X5, X5
	VBROADCASTSS X4, Y4
	VBROADCASTSS X5, Y5
	XORQ         AX, AX

dx8:
	VMOVUPS      (SI)(AX*1), Y0
	VSUBPS       Y2, Y0, Y0
	VMULPS       Y3, Y0, Y0            // h
	VMOVUPS      (DX)(AX*1), Y1
	VMULPS       (R8)(AX*1), Y1, Y1    // g
	VSUBPS       Y4, Y1, Y1
	VFNMADD231PS Y0, Y5, Y1
	VMULPS       Y3, Y1, Y1
	CMPB         accumulate+56(FP), $0
	JEQ          set8
	VADDPS       (DI)(AX*1), Y1, Y1

set8:
	VMOVUPS Y1, (DI)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     dx8
	VZEROUPPER
	RET
