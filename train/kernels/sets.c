/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's own kernels in every instruction set; which one runs is chosen as for those of the library. */
#include "kernels/isa.h"
#include "train/kernels/exact/exact.h"
#include "train/kernels/multiply/multiply.h"

KERNEL(kernels_exact, KERNELS_ISA_FUSED)
KERNEL(kernels_multiply, KERNELS_ISA_PLAIN)
