#include "textflag.h"

// Micro-kernels of the matrix product. Both hold a whole tile of c in vector
// registers, load one row of the panel of b per step of k, and broadcast one
// element of a per row of the tile. Three rows share a base register:
// (base), (base)(R8*1), (base)(R8*2) with R8 the row stride of a in bytes.
//
//	AX steps of k left       R8 aRow      DX b    DI c
//	SI, R10, R11, R12 bases  R9 aK        CX bRow BX cRow

// One row of the 12x32 tile: Z0, Z1 hold the row of b.
#define ROW512(address, broadcast, left, right) \
	VBROADCASTSS address, broadcast; \
	VFMADD231PS Z0, broadcast, left; \
	VFMADD231PS Z1, broadcast, right

#define ZERO512(left, right) \
	VPXORD left, left, left; \
	VPXORD right, right, right

#define ADD512(left, right) \
	VADDPS (DI), left, left; \
	VADDPS 64(DI), right, right; \
	VMOVUPS left, (DI); \
	VMOVUPS right, 64(DI); \
	ADDQ BX, DI

#define SET512(left, right) \
	VMOVUPS left, (DI); \
	VMOVUPS right, 64(DI); \
	ADDQ BX, DI

// func tileAVX512(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)
// Z8-Z31: the tile, two registers a row. Z2-Z7: broadcasts, in turn.
TEXT ·tileAVX512(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), AX
	MOVQ a+8(FP), SI
	MOVQ aRow+16(FP), R8
	MOVQ aK+24(FP), R9
	MOVQ b+32(FP), DX
	MOVQ bRow+40(FP), CX
	MOVQ c+48(FP), DI
	MOVQ cRow+56(FP), BX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, CX
	SHLQ $2, BX
	LEAQ (R8)(R8*2), R13
	LEAQ (SI)(R13*1), R10
	LEAQ (SI)(R13*2), R11
	LEAQ (R10)(R13*2), R12
	ZERO512(Z8, Z9)
	ZERO512(Z10, Z11)
	ZERO512(Z12, Z13)
	ZERO512(Z14, Z15)
	ZERO512(Z16, Z17)
	ZERO512(Z18, Z19)
	ZERO512(Z20, Z21)
	ZERO512(Z22, Z23)
	ZERO512(Z24, Z25)
	ZERO512(Z26, Z27)
	ZERO512(Z28, Z29)
	ZERO512(Z30, Z31)

step512:
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	ROW512((SI), Z2, Z8, Z9)
	ROW512((SI)(R8*1), Z3, Z10, Z11)
	ROW512((SI)(R8*2), Z4, Z12, Z13)
	ROW512((R10), Z5, Z14, Z15)
	ROW512((R10)(R8*1), Z6, Z16, Z17)
	ROW512((R10)(R8*2), Z7, Z18, Z19)
	ROW512((R11), Z2, Z20, Z21)
	ROW512((R11)(R8*1), Z3, Z22, Z23)
	ROW512((R11)(R8*2), Z4, Z24, Z25)
	ROW512((R12), Z5, Z26, Z27)
	ROW512((R12)(R8*1), Z6, Z28, Z29)
	ROW512((R12)(R8*2), Z7, Z30, Z31)
	ADDQ R9, SI
	ADDQ R9, R10
	ADDQ R9, R11
	ADDQ R9, R12
	ADDQ CX, DX
	DECQ AX
	JNZ  step512

	CMPB accumulate+64(FP), $0
	JEQ  set512
	ADD512(Z8, Z9)
	ADD512(Z10, Z11)
	ADD512(Z12, Z13)
	ADD512(Z14, Z15)
	ADD512(Z16, Z17)
	ADD512(Z18, Z19)
	ADD512(Z20, Z21)
	ADD512(Z22, Z23)
	ADD512(Z24, Z25)
	ADD512(Z26, Z27)
	ADD512(Z28, Z29)
	ADD512(Z30, Z31)
	VZEROUPPER
	RET

set512:
	SET512(Z8, Z9)
	SET512(Z10, Z11)
	SET512(Z12, Z13)
	SET512(Z14, Z15)
	SET512(Z16, Z17)
	SET512(Z18, Z19)
	SET512(Z20, Z21)
	SET512(Z22, Z23)
	SET512(Z24, Z25)
	SET512(Z26, Z27)
	SET512(Z28, Z29)
	SET512(Z30, Z31)
	VZEROUPPER
	RET

// func tile4AVX512(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)
// The first four rows of the tile above, for what is left below full tiles.
TEXT ·tile4AVX512(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), AX
	MOVQ a+8(FP), SI
	MOVQ aRow+16(FP), R8
	MOVQ aK+24(FP), R9
	MOVQ b+32(FP), DX
	MOVQ bRow+40(FP), CX
	MOVQ c+48(FP), DI
	MOVQ cRow+56(FP), BX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, CX
	SHLQ $2, BX
	LEAQ (R8)(R8*2), R10
	ADDQ SI, R10
	ZERO512(Z8, Z9)
	ZERO512(Z10, Z11)
	ZERO512(Z12, Z13)
	ZERO512(Z14, Z15)

step4:
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	ROW512((SI), Z2, Z8, Z9)
	ROW512((SI)(R8*1), Z3, Z10, Z11)
	ROW512((SI)(R8*2), Z4, Z12, Z13)
	ROW512((R10), Z5, Z14, Z15)
	ADDQ R9, SI
	ADDQ R9, R10
	ADDQ CX, DX
	DECQ AX
	JNZ  step4

	CMPB accumulate+64(FP), $0
	JEQ  set4
	ADD512(Z8, Z9)
	ADD512(Z10, Z11)
	ADD512(Z12, Z13)
	ADD512(Z14, Z15)
	VZEROUPPER
	RET

set4:
	SET512(Z8, Z9)
	SET512(Z10, Z11)
	SET512(Z12, Z13)
	SET512(Z14, Z15)
	VZEROUPPER
	RET

// One row of the 6x16 tile: Y0, Y1 hold the row of b.
#define ROW256(address, broadcast, left, right) \
	VBROADCASTSS address, broadcast; \
	VFMADD231PS Y0, broadcast, left; \
	VFMADD231PS Y1, broadcast, right

#define ZERO256(left, right) \
	VXORPS left, left, left; \
	VXORPS right, right, right

#define ADD256(left, right) \
	VADDPS (DI), left, left; \
	VADDPS 32(DI), right, right; \
	VMOVUPS left, (DI); \
	VMOVUPS right, 32(DI); \
	ADDQ BX, DI

#define SET256(left, right) \
	VMOVUPS left, (DI); \
	VMOVUPS right, 32(DI); \
	ADDQ BX, DI

// func tileAVX2(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)
// Y4-Y15: the tile, two registers a row. Y2, Y3: broadcasts, in turn.
TEXT ·tileAVX2(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), AX
	MOVQ a+8(FP), SI
	MOVQ aRow+16(FP), R8
	MOVQ aK+24(FP), R9
	MOVQ b+32(FP), DX
	MOVQ bRow+40(FP), CX
	MOVQ c+48(FP), DI
	MOVQ cRow+56(FP), BX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, CX
	SHLQ $2, BX
	LEAQ (R8)(R8*2), R10
	ADDQ SI, R10
	ZERO256(Y4, Y5)
	ZERO256(Y6, Y7)
	ZERO256(Y8, Y9)
	ZERO256(Y10, Y11)
	ZERO256(Y12, Y13)
	ZERO256(Y14, Y15)

step256:
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	ROW256((SI), Y2, Y4, Y5)
	ROW256((SI)(R8*1), Y3, Y6, Y7)
	ROW256((SI)(R8*2), Y2, Y8, Y9)
	ROW256((R10), Y3, Y10, Y11)
	ROW256((R10)(R8*1), Y2, Y12, Y13)
	ROW256((R10)(R8*2), Y3, Y14, Y15)
	ADDQ R9, SI
	ADDQ R9, R10
	ADDQ CX, DX
	DECQ AX
	JNZ  step256

	CMPB accumulate+64(FP), $0
	JEQ  set256
	ADD256(Y4, Y5)
	ADD256(Y6, Y7)
	ADD256(Y8, Y9)
	ADD256(Y10, Y11)
	ADD256(Y12, Y13)
	ADD256(Y14, Y15)
	VZEROUPPER
	RET

set256:
	SET256(Y4, Y5)
	SET256(Y6, Y7)
	SET256(Y8, Y9)
	SET256(Y10, Y11)
	SET256(Y12, Y13)
	SET256(Y14, Y15)
	VZEROUPPER
	RET

// func packRows32(dst, src *float32, stride, k int)
TEXT ·packRows32(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ k+24(FP), AX
	SHLQ $2, R8

copy32:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, 64(DI)
	ADDQ    R8, SI
	ADDQ    $128, DI
	DECQ    AX
	JNZ     copy32
	VZEROUPPER
	RET

// func packRows16(dst, src *float32, stride, k int)
TEXT ·packRows16(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ k+24(FP), AX
	SHLQ $2, R8

copy16:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    R8, SI
	ADDQ    $64, DI
	DECQ    AX
	JNZ     copy16
	VZEROUPPER
	RET

// Turns columns o..o+3 of eight rows into four rows of eight. Each register
// pairs row r with row r+4 in its two halves, so that two rounds of unpacking
// inside the halves finish the job.
#define TRANSPOSE8X4(o) \
	VMOVUPS o(SI), X0; \
	VMOVUPS o(SI)(R8*1), X1; \
	VMOVUPS o(SI)(R8*2), X2; \
	VMOVUPS o(R10), X3; \
	VINSERTF128 $1, o(R11), Y0, Y0; \
	VINSERTF128 $1, o(R11)(R8*1), Y1, Y1; \
	VINSERTF128 $1, o(R11)(R8*2), Y2, Y2; \
	VINSERTF128 $1, o(R12), Y3, Y3; \
	VUNPCKLPS Y1, Y0, Y4; \
	VUNPCKHPS Y1, Y0, Y5; \
	VUNPCKLPS Y3, Y2, Y6; \
	VUNPCKHPS Y3, Y2, Y7; \
	VUNPCKLPD Y6, Y4, Y0; \
	VUNPCKHPD Y6, Y4, Y1; \
	VUNPCKLPD Y7, Y5, Y2; \
	VUNPCKHPD Y7, Y5, Y3; \
	VMOVUPS Y0, (DI); \
	VMOVUPS Y1, (DI)(R9*1); \
	VMOVUPS Y2, (DI)(R9*2); \
	ADDQ R13, DI; \
	VMOVUPS Y3, (DI); \
	ADDQ R9, DI

// func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int)
// SI, R10, R11, R12: rows 0, 3, 4, 7 of src. R8, R9: strides. R13: 3 dstStride.
TEXT ·transpose8(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R9
	MOVQ src+16(FP), SI
	MOVQ srcStride+24(FP), R8
	MOVQ blocks+32(FP), AX
	SHLQ $2, R8
	SHLQ $2, R9
	LEAQ (R9)(R9*2), R13
	LEAQ (R8)(R8*2), R10
	LEAQ (SI)(R8*4), R11
	LEAQ (R11)(R10*1), R12
	ADDQ SI, R10

block8:
	TRANSPOSE8X4(0)
	TRANSPOSE8X4(16)
	ADDQ $32, SI
	ADDQ $32, R10
	ADDQ $32, R11
	ADDQ $32, R12
	DECQ AX
	JNZ  block8
	VZEROUPPER
	RET

// func hasF16C() bool
TEXT ·hasF16C(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	SHRL $29, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET
