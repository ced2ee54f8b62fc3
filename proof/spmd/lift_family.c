/* lift_family.c: what is made of lifted values: a multiple of one; the family of partial ones, which says how they were
 * made, as only those that were made alike add up. */
#include "proof/spmd/lift.h"

weft_status lift_times(lifter *l, uint32_t x, int64_t number, bool divide, uint32_t *out) {
    value v = value_of(x);
    if (number != 1) TRY(term_scale(l->t, v, (double)number, divide, &v));
    *out = v.term;
    return NULL;
}

static uint64_t mix(uint64_t hash, uint64_t x) {
    hash = (hash ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t mix_placed(const lifter *l, uint64_t hash, const lifted *x) {
    for (size_t i = 0; i < l->grid.naxes; i++) {
        axis_placement p = x->placed[i];
        hash = mix(hash, (uint64_t)p.split << 16 | (uint64_t)p.dim << 8 | p.kind);
    }
    return hash;
}

void lift_name_family(const lifter *l, const lifted *args, size_t n, lifted *made) {
    made->family = 0;
    if (!lift_is_partial(l, made)) return;
    uint64_t hash = mix_placed(l, mix(n + 1, made->term), made);
    for (size_t i = 0; i < n; i++) {
        hash = mix(mix(hash, args[i].term), args[i].state == LIFT_KNOWN ? args[i].family : 0);
        hash = mix_placed(l, hash, &args[i]);
    }
    made->family = hash;
}
