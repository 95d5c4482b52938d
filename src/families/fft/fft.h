/* SPDX-License-Identifier: Apache-2.0 */
/* The FFT mechanism, and with its best decoder (families/fft/fft.c). */
#ifndef DPMF_FAMILIES_FFT_H
#define DPMF_FAMILIES_FFT_H

#include "strategy/strategy.h"

DPMF_MUST_CHECK dpmf_status fft_create(int64_t steps, int best, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status fft_read(const strategy_source *source, dpmf_strategy **out);

#endif
