/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the kernels: each of them in every instruction set, looked up by kernels/isa.c. */
#include "kernels/block/block.h"
#include "kernels/combine/combine.h"
#include "kernels/grid/grid.h"
#include "kernels/isa.h"
#include "kernels/ladder/ladder.h"
#include "kernels/sample/sample.h"
#include "kernels/seed/seed.h"
#include "kernels/toeplitz/toeplitz.h"
#include "kernels/tvblt/tvblt.h"
#include "kernels/whole/whole.h"

extern const kernels_seed_set kernels_seed_vaes;

KERNEL(kernels_block, KERNELS_ISA_PLAIN)
KERNEL(kernels_combine, KERNELS_ISA_PLAIN)
KERNEL(kernels_grid, KERNELS_ISA_PLAIN)
KERNEL(kernels_ladder, KERNELS_ISA_PLAIN)
KERNEL(kernels_sample, KERNELS_ISA_PLAIN)
KERNEL_WITH(kernels_seed, KERNELS_ISA_AES, IF_X86_64(kernels_seed_vaes))
KERNEL(kernels_toeplitz, KERNELS_ISA_PLAIN)
KERNEL(kernels_tvblt, KERNELS_ISA_PLAIN)
KERNEL(kernels_whole, KERNELS_ISA_PLAIN)

int64_t kernels_toeplitz_table_size(int64_t bands) {
    return (bands + KERNELS_TOEPLITZ_LANES) * KERNELS_TOEPLITZ_LANES;
}
