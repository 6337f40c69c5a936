#include "textflag.h"

// GELU on n float32, n a positive multiple of 16, with AVX-512: as in
// vector_amd64.s, sixteen at a time and with every constant in a register.

// Z16 floor, Z17 ceiling, Z18 log2(e), Z19 shift, Z20 and Z21 ln(2), Z22-Z27
// the polynomial, Z28 one, Z29 minus scale, Z30 minus cubic, Z31 scale, Z15
// three times the cubic.
#define SETUP512 \
	LEAQ ·vectorConstants(SB), R8; \
	VBROADCASTSS (R8), Z16; \
	VBROADCASTSS 4(R8), Z17; \
	VBROADCASTSS 8(R8), Z18; \
	VBROADCASTSS 12(R8), Z19; \
	VBROADCASTSS 16(R8), Z20; \
	VBROADCASTSS 20(R8), Z21; \
	VBROADCASTSS 24(R8), Z22; \
	VBROADCASTSS 28(R8), Z23; \
	VBROADCASTSS 32(R8), Z24; \
	VBROADCASTSS 36(R8), Z25; \
	VBROADCASTSS 40(R8), Z26; \
	VBROADCASTSS 44(R8), Z27; \
	VBROADCASTSS 48(R8), Z28; \
	VBROADCASTSS 52(R8), Z29; \
	VBROADCASTSS 56(R8), Z30; \
	VBROADCASTSS 60(R8), Z31; \
	VBROADCASTSS 64(R8), Z15; \
	SHLQ $2, CX; \
	XORQ AX, AX

// Z2 = 1 + exp(-x (s + s c x²)) of the x in Z0; Z4 = x². Where a maximum or
// minimum meets a NaN it keeps the first operand here.
#define GATE512 \
	VMULPS Z0, Z0, Z4; \
	VMOVAPS Z29, Z3; \
	VFMADD231PS Z30, Z4, Z3; \
	VMULPS Z3, Z0, Z5; \
	VMAXPS Z5, Z16, Z1; \
	VMINPS Z1, Z17, Z1; \
	VMOVAPS Z19, Z2; \
	VFMADD231PS Z18, Z1, Z2; \
	VPSLLD $23, Z2, Z3; \
	VSUBPS Z19, Z2, Z2; \
	VFNMADD231PS Z20, Z2, Z1; \
	VFNMADD231PS Z21, Z2, Z1; \
	VMOVAPS Z22, Z2; \
	VFMADD213PS Z23, Z1, Z2; \
	VFMADD213PS Z24, Z1, Z2; \
	VFMADD213PS Z25, Z1, Z2; \
	VFMADD213PS Z26, Z1, Z2; \
	VFMADD213PS Z27, Z1, Z2; \
	VMULPS Z1, Z2, Z2; \
	VFMADD213PS Z1, Z1, Z2; \
	VFMADD213PS Z3, Z3, Z2; \
	VCMPPS $21, Z16, Z5, K1; \
	VMOVAPS.Z Z2, K1, Z2; \
	VADDPS Z28, Z2, Z2

// func geluAVX512(dst, x *float32, n int)
TEXT ·geluAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	SETUP512

gelu16:
	VMOVUPS (SI)(AX*1), Z0
	GATE512
	VDIVPS  Z2, Z0, Z0
	VMOVUPS Z0, (DI)(AX*1)
	ADDQ    $64, AX
	CMPQ    AX, CX
	JLT     gelu16
	VZEROUPPER
	RET

// func geluBackwardAVX512(dx, dy, x *float32, n int)
TEXT ·geluBackwardAVX512(SB), NOSPLIT, $0-32
	MOVQ dx+0(FP), DI
	MOVQ dy+8(FP), DX
	MOVQ x+16(FP), SI
	MOVQ n+24(FP), CX
	SETUP512

geluBackward16:
	VMOVUPS     (SI)(AX*1), Z0
	GATE512
	VDIVPS      Z2, Z28, Z2       // the gate g
	VSUBPS      Z2, Z28, Z3       // 1 - g
	VMULPS      Z2, Z3, Z3        // g (1 - g)
	VMULPS      Z0, Z3, Z3        // x g (1 - g)
	VMOVAPS     Z31, Z1
	VFMADD231PS Z15, Z4, Z1       // the slope of the exponent
	VFMADD231PS Z3, Z1, Z2
	VMULPS      (DX)(AX*1), Z2, Z2
	VMOVUPS     Z2, (DI)(AX*1)
	ADDQ        $64, AX
	CMPQ        AX, CX
	JLT         geluBackward16
	VZEROUPPER
	RET
