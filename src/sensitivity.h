/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity: the names of its methods, which a mechanism file spells out. */
#ifndef DPMF_SENSITIVITY_H
#define DPMF_SENSITIVITY_H

/* The constant equal to `text` among the methods' names, or NULL. */
const char *dpmf_i_sensitivity_method(const char *text);

#endif
