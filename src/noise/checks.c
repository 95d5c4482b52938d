/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that every call on a stream makes first, and those of going to a row. They use only the stream's state. */
#include "noise/noise.h"

#include <inttypes.h>
#include <unistd.h>

dpmf_status noise_check_usable(const dpmf_noise *noise) {
    if (noise == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "noise: the stream is NULL");
    if (noise->pid != getpid())
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "this noise stream belongs to process %lld, which forked: two "
                         "processes would give the same rows",
                         (long long)noise->pid);
    if (noise->ended)
        return base_fail(DPMF_ERROR_IO, "this noise stream has ended: its state file could not be written");
    return DPMF_OK;
}

dpmf_status noise_check_seek(const dpmf_noise *noise, int64_t step) {
    TRY(noise_check_usable(noise));
    if (step < 0 || step > noise->binding.steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 ", accepted 0 to %" PRId64, step, noise->binding.steps);
    if (noise->state == NULL) return DPMF_OK;
    const int64_t reserved = noise_state_reserved(noise->state);
    if (step > reserved)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64 ": the next row of the state file is %" PRId64 ", and rows may not be skipped",
                         step, reserved);
    if (step < reserved && !noise->replay)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "row %" PRId64
                         " has been reserved and may have been used (the next row of the state file is %" PRId64
                         "): only the option replay gives it again",
                         step, reserved);
    return DPMF_OK;
}
