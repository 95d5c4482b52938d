/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guarantee in sentences, in the order in which a reader asks: what is released, for whom, against whom, on what
 * condition, how sure. Figures are rounded up where a guarantee would otherwise be overstated.
 */
#include "account/question.h"

#include "base/text.h"

#include <math.h>

typedef base_text text;
#define add base_text_add /* said in every line below */

/* `value` with four significant digits, not below it. */
static double up(double value) {
    if (!(value > 0) || !isfinite(value)) return value;
    double unit = pow(10, floor(log10(value)) - 3);
    double rounded = ceil(value / unit * (1 - 1e-14)) * unit;
    return fmax(rounded, value);
}

static void add_neighbours(text *t, dpmf_adjacency adjacency, const char *unit) {
    if (adjacency == DPMF_ADJACENCY_ZERO_OUT)
        add(t,
            "Data sets are neighbours when all contributions of one %s are replaced by zeros (zero-out adjacency).\n",
            unit);
    else if (adjacency == DPMF_ADJACENCY_ADD_REMOVE)
        add(t, "Data sets are neighbours when one %s is added or removed (add-remove adjacency).\n", unit);
    else
        add(t, "Data sets are neighbours when one %s is replaced by another (replace-one adjacency).\n", unit);
}

static void add_sampling(text *t, const dpmf_privacy *p, const dpmf_account_options *o, const char *unit) {
    const dpmf_sampling *s = &o->sampling;
    long long b = (long long)s->count;
    if (s->kind == DPMF_SAMPLING_NONE) {
        add(t, "No secret sampling is assumed: the figures hold for any order of the data that fits the participation "
               "for which the sensitivity was computed.\n");
        return;
    }
    add(t, "This holds only for batches sampled exactly this way, with the randomness kept secret: ");
    if (s->kind == DPMF_SAMPLING_POISSON)
        add(t, "every %s takes part in each of %lld steps, independently, with probability %.9g.\n", unit,
            (long long)p->compositions, s->probability);
    if (s->kind == DPMF_SAMPLING_BLOCK_CYCLIC)
        add(t,
            "the data are split once into %lld blocks, step t draws from block t mod %lld, every %s in it "
            "independently with probability %.9g; accounted for as %lld compositions.\n",
            b, b, unit, p->probability, (long long)p->compositions);
    if (o->batch_cap > 0)
        add(t,
            "At most %lld take part in a batch: if more are drawn from the %lld units, a random %lld of them take "
            "part%s.\n",
            (long long)o->batch_cap, (long long)o->units, (long long)o->batch_cap,
            o->adjacency == DPMF_ADJACENCY_ZERO_OUT ? "; zeroed-out ones count too" : "");
    if (s->kind == DPMF_SAMPLING_BALLS_IN_BINS)
        add(t, "every %s is put into one of %lld bins at random, %s, and step t uses bin t mod %lld.\n", unit, b,
            o->epochs > 0 ? "freshly in each epoch" : "once", b);
    if (s->kind == DPMF_SAMPLING_MIN_SEPARATION)
        add(t, "every %s that may take part does so with probability %.9g and then waits %lld steps%s.\n", unit,
            s->probability, b, o->warm ? "; at the start the waits are spread over all positions" : "");
    if (s->kind == DPMF_SAMPLING_ALLOCATION)
        add(t,
            "every %s takes part in exactly %lld of %lld steps, chosen at random for each %s separately, freshly in "
            "each of %lld epochs.\n",
            unit, (long long)s->picks, b, unit, (long long)p->compositions);
    add(t, "Batches from a shuffled data loader do not satisfy this.\n");
    if (p->without_sampling > 0)
        add(t, "Without that assumption the same noise gives epsilon = %.4g at this delta.\n", up(p->without_sampling));
}

const char *account_real_noise(void) {
    return "Arithmetic: the noise is taken as real-valued";
}

static void add_certainty(text *t, const dpmf_privacy *p) {
    if (p->kind == DPMF_EXACT)
        add(t, "The figure is exact (%s).\n", p->method);
    else if (p->kind == DPMF_ESTIMATE)
        add(t, "The figure is an estimate without a certificate (%s): do not publish it as a guarantee.\n", p->method);
    else if (p->confidence > 0)
        add(t, "The figure is an upper bound that holds with probability %.6g over the simulation (%s).\n",
            p->confidence, p->method);
    else
        add(t, "The figure is a proven upper bound (%s)%s.\n", p->method,
            p->slack_met ? "" : "; it may be looser than requested");
    add(t, "%s; hyper-parameters chosen on the same data are not accounted for.\n", account_real_noise());
}

size_t dpmf_privacy_statement(const dpmf_privacy *p, const dpmf_account_options *options, const char *unit, char *out,
                              size_t size) {
    dpmf_account_options o = options == NULL ? dpmf_account_options_defaults() : *options;
    if (o.batch_cap == 0) o.batch_cap = o.sampling.cap;
    if (o.units == 0) o.units = o.sampling.units;
    text t = {.out = out, .size = size};
    if (unit == NULL) unit = "example";
    if (size > 0) out[0] = 0;
    add(&t,
        "All noisy outputs of the run together - every intermediate model or sum, not only the last - are (epsilon, "
        "delta)-differentially private with epsilon = %.4g and delta = %.4g.\n",
        up(p->epsilon), up(p->delta));
    if (p->sigma > 0)
        add(&t, "Noise multiplier sigma = %.9g: Gaussian noise of standard deviation clip norm x sigma x %s%s.\n",
            p->sigma, o.sampling.kind == DPMF_SAMPLING_NONE ? "sensitivity" : "largest column norm of C",
            o.sigma_unit == 2 ? " (replace-one, twice the zero-out one)" : "");
    add(&t, "Privacy unit: one %s. ", unit);
    add_neighbours(&t, o.adjacency, unit);
    if (p->total_rho > 0) add(&t, "The run is %.6g-zCDP", up(p->total_rho));
    if (p->total_rho > 0 && p->total_mu > 0) add(&t, " and %.6g-GDP", up(p->total_mu));
    if (p->total_rho > 0) add(&t, ".\n");
    add_sampling(&t, p, &o, unit);
    add_certainty(&t, p);
    return t.length;
}
