/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that are made elsewhere, for example on a device. The stream keeps the key, the state file and the rules for when a
 * row may be used, and gives a recipe for each row, with the same coefficients that its own kernels would use. If the
 * arithmetic elsewhere is the same, then the rows are the same bits.
 *
 * A row is used in the order of noise/noise.c: all checks have passed, the row is reserved, the row is made.
 */
#include "noise/noise.h"

#include "crypto/crypto.h"

#include <inttypes.h>
#include <string.h>

static dpmf_status check_elsewhere(const dpmf_noise *noise) {
    TRY(noise_check_usable(noise));
    if (noise->elsewhere) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED, "this stream makes its own rows: its options name no maker");
}

dpmf_status dpmf_noise_recipe(dpmf_noise *noise, int64_t step, dpmf_recipe *out) {
    TRY(check_elsewhere(noise));
    return noise_stream_recipe(noise->stream, step, noise->recipe_seed, out);
}

dpmf_status dpmf_noise_subkey(dpmf_noise *noise, uint8_t subkey[DPMF_KEY_SIZE]) {
    static const uint8_t none[DPMF_KEY_SIZE];
    TRY(check_elsewhere(noise));
    if (memcmp(noise->subkey, none, sizeof none) == 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the key of the seeds has been given already: it is given once");
    memcpy(subkey, noise->subkey, sizeof noise->subkey);
    crypto_wipe(noise->subkey, sizeof noise->subkey);
    return DPMF_OK;
}

dpmf_status dpmf_noise_reserve(dpmf_noise *noise, double factor, double *scale) {
    TRY(check_elsewhere(noise));
    TRY(noise_check_row(noise));
    TRY(noise_check_factor(noise, factor));
    TRY(noise_check_bound(noise));
    TRY(noise_reserve(noise));
    *scale = factor * noise->release.scale;
    return DPMF_OK;
}

dpmf_status dpmf_noise_arrived(dpmf_noise *noise) {
    TRY(check_elsewhere(noise));
    if (noise->step >= noise->binding.steps || (noise->state != NULL && noise->step >= dpmf_noise_get(noise).reserved))
        return base_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 " has not been reserved: it cannot have arrived",
                         noise->step);
    noise->step++;
    noise->bound = 0;
    return DPMF_OK;
}
