/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a mechanism to a ledger: its sigma, with the account options that follow from the mechanism. */
#include "base/status.h"
#include "mechanism/mechanism.h"

dpmf_status dpmf_ledger_add_mechanism(dpmf_ledger *ledger, const dpmf_mechanism *mechanism, int64_t times) {
    const double sigma = mechanism->sigma;
    const dpmf_account_options how = dpmf_mechanism_account(mechanism);
    if (!(sigma > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism is not calibrated: it has no sigma to account for");
    return dpmf_ledger_add_sampled(ledger, sigma, &how, times);
}
