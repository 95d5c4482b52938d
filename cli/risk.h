/* SPDX-License-Identifier: Apache-2.0 */
/* The risks of a guarantee (--risk), and sigma from a largest risk (--advantage, or --tpr with --fpr). */
#ifndef DPMF_CLI_RISK_H
#define DPMF_CLI_RISK_H

#include "dpmf.h"
#include "options/options.h"
#include "output.h"

enum { RISK_RATES = 16, RISK_STATEMENT = 4000 };

typedef struct risk_answer {
    bool asked;      /* --risk, or a target */
    bool target;     /* --advantage or --tpr */
    double tpr_most; /* --tpr; 0: the target is the advantage */
    double advantage_most;
    double fpr[RISK_RATES], tpr[RISK_RATES];
    dpmf_risk_options how;
    dpmf_risk found;
    char statement[RISK_STATEMENT];
} risk_answer;

/* Each: 0, or the exit code after a message. */
int risk_read(const arguments *given, const char *verb, risk_answer *out);
/* The least sigma for the target. */
dpmf_status risk_sigma(const risk_answer *a, const dpmf_account_options *how, double *sigma);
/* delta: of the guarantee; the remainder of mu. */
dpmf_status risk_compute(risk_answer *a, double sigma, double delta, const dpmf_account_options *how);

void risk_json(text_buffer *t, const risk_answer *a); /* the member "risk" */
void risk_table(text_buffer *t, const risk_answer *a);

#endif
