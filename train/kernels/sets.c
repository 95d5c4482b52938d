/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's own kernels in every instruction set; which one runs is chosen as for those of the library. */
#include "kernels/isa.h"
#include "train/kernels/exact/exact.h"
#include "train/kernels/half/half.h"
#include "train/kernels/multiply/multiply.h"
#include "train/kernels/scatter/scatter.h"

KERNEL(kernels_exact, KERNELS_ISA_FUSED)
KERNEL(kernels_half, KERNELS_ISA_PLAIN)
KERNEL(kernels_multiply, KERNELS_ISA_PLAIN)
KERNEL(kernels_scatter, KERNELS_ISA_PLAIN)

int64_t kernels_scatter_room(const kernels_scatter_plan *plan) {
    const int64_t rows = plan->rows.length, columns = plan->columns.length;
    return 7 * rows * (columns + 1) + 7 * (rows > columns ? rows : columns);
}

int64_t kernels_scatter_paths(const kernels_scatter_plan *plan) {
    const int64_t j = plan->scales, l = plan->angles;
    return 1 + j * l + j * (j - 1) / 2 * l * l;
}
