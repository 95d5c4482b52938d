/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All tables, and the published results that are not computed here.
 *
 * Figures stand in the tables as the papers print them; `unit` says what their last digit is worth where the text does
 * not show it, and half of it is what a claimed figure may be away.
 */
#include "reproduce/reproduce.h"

#include <string.h>

const published_table *const published_tables[] = {
    &denisov_table_2,     &choquette_choo_table_1, &choquette_choo_table_3, &choquette_choo_table_6,
    &mckenna_example_b_1, &mckenna_figure_1a,      &mckenna_figure_1b,      &mckenna_figure_2a,
    &mckenna_figure_2b,   &mckenna_figure_6a,      &mckenna_figure_6b,      &mckenna_figure_7a,
    &mckenna_figure_7b,   &mckenna_figure_8,       &mckenna_figure_10a,     &mckenna_figure_10b,
    &mckenna_figure_11,   &mckenna_memory,         &mckenna_appendix_i,     &pillutla_table_2_2,
    &pillutla_table_2_3,
};

const int published_table_count = COUNT_OF(published_tables);

#define STACK_OVERFLOW "needs federated training on StackOverflow, a data set that this project does not have"
#define CIFAR "needs training of a convolutional network on CIFAR-10, a data set that this project does not have"
#define BERT "needs training of a BERT model on StackOverflow, a data set that this project does not have"
#define ACCELERATORS "times on the paper's accelerators; `dpmf bench` has ours, as ratios"
#define NO_NUMBERS "curves or pictures without printed values"

const published_omission published_omissions[] = {
    {"denisov-2022-figure-1", "Denisov et al. 2022, Figure 1: error of every step", NO_NUMBERS},
    {"denisov-2022-figure-2", "Denisov et al. 2022, Figure 2: test accuracy", STACK_OVERFLOW},
    {"denisov-2022-figure-3", "Denisov et al. 2022, Figure 3: test accuracy with learning-rate decay", STACK_OVERFLOW},
    {"denisov-2022-figure-4", "Denisov et al. 2022, Figure 4: time of three optimizers",
     "times on the paper's machine; `dpmf bench` has ours, as ratios"},
    {"denisov-2022-figure-5", "Denisov et al. 2022, Figure 5: the optimal factors as pictures", NO_NUMBERS},
    {"denisov-2022-figure-6", "Denisov et al. 2022, Figure 6: validation accuracy", STACK_OVERFLOW},
    {"choquette-choo-2023-figure-1", "Choquette-Choo et al. 2023, Figures 1, 8 and 9: test accuracy", CIFAR},
    {"choquette-choo-2023-figure-2", "Choquette-Choo et al. 2023, Figures 2 and 13: the optimal factors as pictures",
     NO_NUMBERS},
    {"choquette-choo-2023-figure-3", "Choquette-Choo et al. 2023, Figures 3 and 12: test accuracy", STACK_OVERFLOW},
    {"choquette-choo-2023-figure-4", "Choquette-Choo et al. 2023, Figures 4, 5 and 6: variance of every iterate",
     NO_NUMBERS},
    {"choquette-choo-2023-figure-7", "Choquette-Choo et al. 2023, Figure 7: accuracy by the number of stamps", CIFAR},
    {"choquette-choo-2023-figure-10", "Choquette-Choo et al. 2023, Figures 10 and 11, Table 2: runs that diverge",
     STACK_OVERFLOW},
    {"choquette-choo-2023-figure-14", "Choquette-Choo et al. 2023, Figure 14: FFT mechanism and a lower bound",
     NO_NUMBERS},
    {"choquette-choo-2023-table-4", "Choquette-Choo et al. 2023, Tables 4 and 5: test accuracy", STACK_OVERFLOW},
    {"mckenna-2024-figure-3", "McKenna 2024, Figure 3a: time of noise and of clipping", ACCELERATORS},
    {"mckenna-2024-figure-3bc", "McKenna 2024, Figures 3b, 3c and 9: RMS and max loss against cross entropy", BERT},
    {"mckenna-2024-figure-4", "McKenna 2024, Figure 4: time of loss and gradient", ACCELERATORS},
    {"mckenna-2024-table-2", "McKenna 2024, Table 2: which mechanism is the best in some setting",
     "a table of yes and no over all settings up to a million steps; Figures 1b and 7 have the comparisons"},
    {"pillutla-2025-figure-3.2", "Pillutla et al. 2025, Figure 3.2: test accuracy", CIFAR},
    {"pillutla-2025-figures", "Pillutla et al. 2025, Figures 2.1, 2.5, 2.6, 3.1, 3.3 to 3.5 and 4.3", NO_NUMBERS},
};

const int published_omission_count = COUNT_OF(published_omissions);

const published_table *find_published_table(const char *name) {
    for (int i = 0; i < published_table_count; ++i)
        if (strcmp(published_tables[i]->name, name) == 0) return published_tables[i];
    return NULL;
}
