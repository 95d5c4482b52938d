/* SPDX-License-Identifier: Apache-2.0 */
/* A mechanism into a ledger: its sigma, and how it says that it is to be accounted for. */
#include "base/status.h"
#include "mechanism/mechanism.h"

dpmf_status dpmf_ledger_add_mechanism(dpmf_ledger *ledger, const dpmf_mechanism *mechanism, int64_t times) {
    const double sigma = mechanism->sigma;
    const dpmf_account_options how = dpmf_mechanism_account(mechanism);
    if (!(sigma > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism is not calibrated: it has no sigma to account for");
    return dpmf_ledger_add_sampled(ledger, sigma, &how, times);
}
