/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of a mechanism: the order in which the checks are made. From cheap to costly, and from
 * the file inwards: container and digest, description, the figures by the routes that made them (which finds any change
 * of the file), then the same by other routes and from the noise stream itself (which finds errors of this library).
 *
 * Anybody who can change a file can also compute its digest again. What verification then proves is that the figures
 * are those of the coefficients: that the noise is as large as the guarantee needs. It does not show who made the file.
 */
#include "verify/verify.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

#include <math.h>
#include <string.h>

static dpmf_status verify_all(const dpmf_mechanism *m, const dpmf_run *run, dpmf_verification *out) {
    verify_task v = {.mechanism = m, .run = run, .out = out};
    TRY(verify_figures(&v));
    TRY(verify_privacy(&v));
    if (!v.evaluated) return DPMF_OK; /* a strategy that cannot even be evaluated has failed already */
    if (verify_is_small(m)) {
        TRY(verify_matrices(&v));
    } else {
        TRY(verify_stream(&v));
        TRY(verify_long(&v));
    }
    return verify_law(&v);
}

static void add_outcome(dpmf_verification *v, const char *name, dpmf_status status, const char *how) {
    const dpmf_check check = {.name = name, .ok = status == DPMF_OK, .claimed = NAN, .found = NAN};
    verify_check_add(v, check, "%s", status == DPMF_OK ? how : dpmf_last_error());
}

/* Container, digest and description; *mechanism stays NULL if one of them does not hold. */
static dpmf_status open_bytes(const uint8_t *bytes, size_t size, dpmf_verification *v, dpmf_mechanism **mechanism) {
    base_tensors tensors = {0};
    char *text = NULL, digest[65] = "";
    dpmf_status status = base_safetensors_read(bytes, size, &text, digest, &tensors);
    base_free(text);
    if (status == DPMF_ERROR_FORMAT && !base_safetensors_is_container(bytes, size)) return status;
    if (status != DPMF_OK && status != DPMF_ERROR_FORMAT) return status;
    add_outcome(v, "digest", status, "SHA-256 over the description and the arrays, computed again");
    if (status != DPMF_OK) return DPMF_OK;
    status = dpmf_mechanism_decode(bytes, size, mechanism);
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    add_outcome(v, "description", status, "every object is made again from it, and has the same description");
    return DPMF_OK;
}

static dpmf_status verify_aligned(const uint8_t *bytes, size_t size, const dpmf_run *run, dpmf_verification **out) {
    dpmf_verification *v = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof *v, "the checks", (void **)&v));
    TRY_DONE(open_bytes(bytes, size, v, &mechanism));
    if (mechanism != NULL) TRY_DONE(verify_all(mechanism, run, v));
    *out = v;
    v = NULL;
done:
    dpmf_mechanism_free(mechanism);
    base_free(v);
    return status;
}

static dpmf_status verify_bytes(const uint8_t *bytes, size_t size, const dpmf_run *run, dpmf_verification **out) {
    uint8_t *copy = NULL;
    if ((uintptr_t)bytes % sizeof(double) == 0) return verify_aligned(bytes, size, run, out);
    TRY(base_alloc((int64_t)size, 1, "a copy of the bytes", (void **)&copy));
    memcpy(copy, bytes, size);
    dpmf_status status = verify_aligned(copy, size, run, out);
    base_free(copy);
    return status;
}

static dpmf_status verify_file(const char *path, const dpmf_run *run, dpmf_verification **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    TRY(base_file_read(path, "mechanism file", &bytes, &size));
    dpmf_status status = verify_bytes(bytes, size, run, out);
    base_free(bytes);
    char shown[BASE_SHOWN_PATH];
    if (status == DPMF_ERROR_FORMAT)
        return base_fail(status, "'%s': %s", base_show_path(path, shown), dpmf_last_error());
    return status;
}

dpmf_status dpmf_verify(const dpmf_verify_source *source, const dpmf_run *run, dpmf_verification **out) {
    const dpmf_run defaults = dpmf_run_defaults();
    if (source == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "verify: the source or the output is NULL");
    if ((source->path != NULL) + (source->bytes != NULL) + (source->mechanism != NULL) != 1)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "verify: the source names none or several, accepted one of path, bytes and mechanism");
    if (run == NULL) run = &defaults;
    if (source->path != NULL) return verify_file(source->path, run, out);
    if (source->bytes != NULL) return verify_bytes(source->bytes, source->size, run, out);
    dpmf_verification *v = NULL;
    TRY(base_alloc(1, sizeof *v, "the checks", (void **)&v));
    dpmf_status status = verify_all(source->mechanism, run, v);
    if (status == DPMF_OK)
        *out = v;
    else
        base_free(v);
    return status;
}
