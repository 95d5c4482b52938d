/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions, to near full double precision, in log space where the value itself would underflow. */
#ifndef DPMF_BASE_SPECIAL_H
#define DPMF_BASE_SPECIAL_H

double base_normal_cdf(double x);        /* Phi(x); relative accuracy in the lower tail */
double base_log_normal_cdf(double x);    /* ln Phi(x), for x down to -1e150 */
double base_log_add(double a, double b); /* ln(e^a + e^b) */
double base_log_sub(double a, double b); /* ln(e^a - e^b), a >= b; -inf when equal */
double base_agm(double a, double b);     /* arithmetic-geometric mean, a, b > 0 */

#endif
