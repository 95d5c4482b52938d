/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a stream as bytes: the number of rows made, if rows are made ahead, and then the slots in order. */
#include "noise/plan.h"

#include <string.h>

static int64_t head_size(const noise_stream *s) {
    return s->plan.route->holds ? (int64_t)sizeof(int64_t) : 0;
}

noise_stream_layout noise_stream_state_layout(const noise_stream *s) {
    const noise_plan *plan = &s->plan;
    if (!plan->route->has_state) return (noise_stream_layout){0};
    int64_t size = plan->route->in_doubles ? (int64_t)sizeof(double) : (int64_t)plan->size;
    return (noise_stream_layout){head_size(s), plan->slots, size};
}

int64_t noise_stream_state_size(const noise_stream *s) {
    const noise_stream_layout of = noise_stream_state_layout(s);
    return of.head + of.slots * s->plan.count * of.size;
}

static void copy_slots(const noise_stream *s, uint8_t *bytes, int load) {
    const noise_plan *plan = &s->plan;
    size_t size = plan->route->in_doubles ? sizeof(double) : plan->size;
    for (int64_t k = 0; k < plan->tiles; k++) {
        noise_tile tile = noise_tile_at(s, k);
        int64_t from = tile.start > plan->first ? tile.start : plan->first;
        int64_t to = noise_at_most(tile.start + tile.count, plan->first + plan->count);
        for (int64_t j = 0; j < plan->slots; j++) {
            char *inside = tile.slots + (size_t)(j * tile.stride + from - tile.start) * size;
            uint8_t *outside = bytes + (size_t)(j * plan->count + from - plan->first) * size;
            if (load)
                memcpy(inside, outside, (size_t)(to - from) * size);
            else
                memcpy(outside, inside, (size_t)(to - from) * size);
        }
    }
}

dpmf_status noise_stream_state_save(noise_stream *s, uint8_t *bytes) {
    if (!s->plan.route->has_state) return DPMF_OK;
    if (s->plan.elsewhere) {
        int64_t made = 0;
        TRY(s->maker.read(s->maker.context, &made, bytes + head_size(s)));
        memcpy(bytes, &made, (size_t)head_size(s));
        return DPMF_OK;
    }
    noise_turns_level(s);
    memcpy(bytes, &s->made, (size_t)head_size(s));
    copy_slots(s, bytes + head_size(s), 0);
    return DPMF_OK;
}

dpmf_status noise_stream_state_load(noise_stream *s, int64_t step, const uint8_t *bytes) {
    const noise_plan *plan = &s->plan;
    int64_t steps = plan->strategy->steps, made = step;
    if (step < 0 || step > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld", (long long)step, (long long)steps);
    if (!plan->route->has_state && plan->elsewhere) return s->maker.write(s->maker.context, step, step, NULL);
    if (!plan->route->has_state) return noise_stream_seek(s, step, NULL);
    memcpy(&made, bytes, (size_t)head_size(s));
    if (made < step || made > steps || made - step > plan->lags)
        return base_fail(DPMF_ERROR_FORMAT, "noise state: %lld rows made at step %lld, accepted %lld to %lld",
                         (long long)made, (long long)step, (long long)step,
                         (long long)noise_at_most(step + plan->lags, steps));
    if (plan->elsewhere) return s->maker.write(s->maker.context, step, made, bytes + head_size(s));
    memset(s->slots, 0, (size_t)plan->slot_bytes);
    copy_slots(s, (uint8_t *)bytes + head_size(s), 1); /* only read */
    noise_turns_set(s, made);
    s->step = s->kept = s->reached = step;
    return DPMF_OK;
}
