#include "textflag.h"

// Products of 1 to 3 rows with 32 columns of a float32 matrix, read where it
// lies. With AVX-512 two steps of k at a time, which keeps four sums in flight
// even for one row; with AVX2 as half_amd64.s, without the widening.
//
//	SI, R10, R11 rows of x   AX position in them   CX pairs of steps left
//	DX b                     R13 bRow              DI c    BX cRow

#define SETUP \
	MOVQ rows+0(FP), R9; \
	MOVQ k+8(FP), CX; \
	MOVQ x+16(FP), SI; \
	MOVQ xRow+24(FP), R8; \
	MOVQ b+32(FP), DX; \
	MOVQ bRow+40(FP), R13; \
	MOVQ c+48(FP), DI; \
	MOVQ cRow+56(FP), BX; \
	SHLQ $2, R8; \
	SHLQ $2, R13; \
	SHLQ $2, BX; \
	LEAQ (SI)(R8*1), R10; \
	LEAQ (SI)(R8*2), R11; \
	XORQ AX, AX

// Z0-Z3: two rows of b. Z16-Z19, Z20-Z23, Z24-Z27: the sums of a row, left and
// right half, even and odd step.
#define PAIR512 \
	VMOVUPS (DX), Z0; \
	VMOVUPS 64(DX), Z1; \
	VMOVUPS (DX)(R13*1), Z2; \
	VMOVUPS 64(DX)(R13*1), Z3

#define ROW512(x, b0, b1, s0, s1, s2, s3) \
	VBROADCASTSS (x)(AX*4), b0; \
	VBROADCASTSS 4(x)(AX*4), b1; \
	VFMADD231PS Z0, b0, s0; \
	VFMADD231PS Z1, b0, s1; \
	VFMADD231PS Z2, b1, s2; \
	VFMADD231PS Z3, b1, s3

#define LAST512(x, b0, s0, s1) \
	VBROADCASTSS (x)(AX*4), b0; \
	VFMADD231PS Z0, b0, s0; \
	VFMADD231PS Z1, b0, s1

#define STORE512(s0, s1, s2, s3) \
	VADDPS s0, s2, s0; \
	VADDPS s1, s3, s1; \
	VMOVUPS s0, (DI); \
	VMOVUPS s1, 64(DI); \
	ADDQ BX, DI

#define ZERO512(s0, s1, s2, s3) \
	VPXORD s0, s0, s0; \
	VPXORD s1, s1, s1; \
	VPXORD s2, s2, s2; \
	VPXORD s3, s3, s3

#define NEXT512(again) \
	ADDQ $2, AX; \
	LEAQ (DX)(R13*2), DX; \
	DECQ CX; \
	JNZ again

// func rowsAVX512(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)
TEXT ·rowsAVX512(SB), NOSPLIT, $0-64
	SETUP
	ZERO512(Z16, Z17, Z18, Z19)
	ZERO512(Z20, Z21, Z22, Z23)
	ZERO512(Z24, Z25, Z26, Z27)
	MOVQ CX, R12
	ANDQ $1, R12
	SHRQ $1, CX
	JZ   odd512
	CMPQ R9, $2
	JEQ  two512
	JGT  three512

one512:
	PAIR512
	ROW512(SI, Z4, Z5, Z16, Z17, Z18, Z19)
	NEXT512(one512)
	JMP odd512

two512:
	PAIR512
	ROW512(SI, Z4, Z5, Z16, Z17, Z18, Z19)
	ROW512(R10, Z6, Z7, Z20, Z21, Z22, Z23)
	NEXT512(two512)
	JMP odd512

three512:
	PAIR512
	ROW512(SI, Z4, Z5, Z16, Z17, Z18, Z19)
	ROW512(R10, Z6, Z7, Z20, Z21, Z22, Z23)
	ROW512(R11, Z8, Z9, Z24, Z25, Z26, Z27)
	NEXT512(three512)

odd512:
	TESTQ R12, R12
	JZ    store512
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	LAST512(SI, Z4, Z16, Z17)
	CMPQ R9, $2
	JLT  store512
	LAST512(R10, Z6, Z20, Z21)
	CMPQ R9, $3
	JLT  store512
	LAST512(R11, Z8, Z24, Z25)

store512:
	STORE512(Z16, Z17, Z18, Z19)
	CMPQ R9, $2
	JLT  done512
	STORE512(Z20, Z21, Z22, Z23)
	CMPQ R9, $3
	JLT  done512
	STORE512(Z24, Z25, Z26, Z27)

done512:
	VZEROUPPER
	RET

// One step of k. Y0-Y3, Y4-Y7, Y8-Y11: the sums of a row. Y12-Y14: x
// broadcast. Y15: eight numbers of b, used by every row.
#define STORE256(s0, s1, s2, s3) \
	VMOVUPS s0, (DI); \
	VMOVUPS s1, 32(DI); \
	VMOVUPS s2, 64(DI); \
	VMOVUPS s3, 96(DI); \
	ADDQ BX, DI

#define ZERO256(s0, s1, s2, s3) \
	VXORPS s0, s0, s0; \
	VXORPS s1, s1, s1; \
	VXORPS s2, s2, s2; \
	VXORPS s3, s3, s3

#define EIGHT1(o, s0) \
	VMOVUPS o(DX), Y15; \
	VFMADD231PS Y15, Y12, s0

#define EIGHT2(o, s0, s1) \
	EIGHT1(o, s0); \
	VFMADD231PS Y15, Y13, s1

#define EIGHT3(o, s0, s1, s2) \
	EIGHT2(o, s0, s1); \
	VFMADD231PS Y15, Y14, s2

#define NEXT256(again) \
	INCQ AX; \
	ADDQ R13, DX; \
	CMPQ AX, CX; \
	JLT again

// func rowsAVX2(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)
TEXT ·rowsAVX2(SB), NOSPLIT, $0-64
	SETUP
	ZERO256(Y0, Y1, Y2, Y3)
	ZERO256(Y4, Y5, Y6, Y7)
	ZERO256(Y8, Y9, Y10, Y11)
	CMPQ R9, $2
	JEQ  two256
	JGT  three256

one256:
	VBROADCASTSS (SI)(AX*4), Y12
	EIGHT1(0, Y0)
	EIGHT1(32, Y1)
	EIGHT1(64, Y2)
	EIGHT1(96, Y3)
	NEXT256(one256)
	JMP store256

two256:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R10)(AX*4), Y13
	EIGHT2(0, Y0, Y4)
	EIGHT2(32, Y1, Y5)
	EIGHT2(64, Y2, Y6)
	EIGHT2(96, Y3, Y7)
	NEXT256(two256)
	JMP store256

three256:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R10)(AX*4), Y13
	VBROADCASTSS (R11)(AX*4), Y14
	EIGHT3(0, Y0, Y4, Y8)
	EIGHT3(32, Y1, Y5, Y9)
	EIGHT3(64, Y2, Y6, Y10)
	EIGHT3(96, Y3, Y7, Y11)
	NEXT256(three256)

store256:
	STORE256(Y0, Y1, Y2, Y3)
	CMPQ R9, $2
	JLT  done256
	STORE256(Y4, Y5, Y6, Y7)
	CMPQ R9, $3
	JLT  done256
	STORE256(Y8, Y9, Y10, Y11)

done256:
	VZEROUPPER
	RET
