/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ln delta of rho-zCDP at epsilon, directly as a minimum (Canonne, Kamath and Steinke 2020, Proposition 12): h(b) = b
 * ((1+b) rho - epsilon) + b ln b - (1+b) ln(1+b), convex in b > 0, by the golden section. The library solves h' = 0
 * instead.
 */
#include "oracle/oracle.h"

#include <math.h>

static double exponent(double rho, double epsilon, double b) {
    return b * ((1 + b) * rho - epsilon) - b * log1p(1 / b) - log1p(b);
}

double oracle_zcdp_log_delta(double rho, double epsilon) {
    const double golden = 0.61803398874989484820;
    double low = -100, high = 100; /* ln b */
    for (int round = 0; round < 100; round++) {
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (exponent(rho, epsilon, exp(left)) < exponent(rho, epsilon, exp(right)))
            high = right;
        else
            low = left;
    }
    return exponent(rho, epsilon, exp(0.5 * (low + high)));
}
