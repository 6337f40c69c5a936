#include "textflag.h"

// Products of 1 to 3 rows with a panel of float16 weights, (k, 32): one pass
// over the panel, widening in registers.
//
//	SI, R10, R11 rows of x   AX position in them   CX steps left
//	DX w                     DI c                  BX cRow

#define HALF_SETUP \
	MOVQ rows+0(FP), R9; \
	MOVQ k+8(FP), CX; \
	MOVQ x+16(FP), SI; \
	MOVQ xRow+24(FP), R8; \
	MOVQ w+32(FP), DX; \
	MOVQ c+40(FP), DI; \
	MOVQ cRow+48(FP), BX; \
	SHLQ $2, R8; \
	SHLQ $2, BX; \
	LEAQ (SI)(R8*1), R10; \
	LEAQ (SI)(R8*2), R11; \
	XORQ AX, AX

// One step of k. Y0-Y3, Y4-Y7, Y8-Y11: the sums of a row. Y12-Y14: x
// broadcast. Y15: eight weights, used by every row.
#define STORE256(s0, s1, s2, s3) \
	VADDPS (DI), s0, s0; \
	VADDPS 32(DI), s1, s1; \
	VADDPS 64(DI), s2, s2; \
	VADDPS 96(DI), s3, s3; \
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
	VCVTPH2PS o(DX), Y15; \
	VFMADD231PS Y15, Y12, s0

#define EIGHT2(o, s0, s1) \
	EIGHT1(o, s0); \
	VFMADD231PS Y15, Y13, s1

#define EIGHT3(o, s0, s1, s2) \
	EIGHT2(o, s0, s1); \
	VFMADD231PS Y15, Y14, s2

#define NEXT256(again) \
	INCQ AX; \
	ADDQ $64, DX; \
	CMPQ AX, CX; \
	JLT again

// func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)
TEXT ·addHalf(SB), NOSPLIT, $0-56
	HALF_SETUP
	ZERO256(Y0, Y1, Y2, Y3)
	ZERO256(Y4, Y5, Y6, Y7)
	ZERO256(Y8, Y9, Y10, Y11)
	CMPQ R9, $2
	JEQ  two256
	JGT  three256

one256:
	VBROADCASTSS (SI)(AX*4), Y12
	EIGHT1(0, Y0)
	EIGHT1(16, Y1)
	EIGHT1(32, Y2)
	EIGHT1(48, Y3)
	NEXT256(one256)
	JMP store256

two256:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R10)(AX*4), Y13
	EIGHT2(0, Y0, Y4)
	EIGHT2(16, Y1, Y5)
	EIGHT2(32, Y2, Y6)
	EIGHT2(48, Y3, Y7)
	NEXT256(two256)
	JMP store256

three256:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R10)(AX*4), Y13
	VBROADCASTSS (R11)(AX*4), Y14
	EIGHT3(0, Y0, Y4, Y8)
	EIGHT3(16, Y1, Y5, Y9)
	EIGHT3(32, Y2, Y6, Y10)
	EIGHT3(48, Y3, Y7, Y11)
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
