/* SPDX-License-Identifier: Apache-2.0 */
/* Poisson sampling of a C whose columns overlap. */
#ifndef DPMF_ACCOUNT_OVERLAP_H
#define DPMF_ACCOUNT_OVERLAP_H

#include "account/account.h"

/* epsilon or ln delta of a question with an overlap above 1: zero-out or add-remove, no cap and no group. */
DPMF_MUST_CHECK dpmf_status overlap_answer(const account_question *q, account_answer *out);

#endif
