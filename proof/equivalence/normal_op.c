/* normal_op.c: factors of what is linear in several arguments together: the common one comes out of them. A constant;
 * an op over arguments in normal form. */
#include "proof/equivalence/normal.h"

weft_status normal_pull_common(terms *t, value *args, size_t nargs, const bool *linear, uint32_t *out_common) {
    uint32_t common = FACTOR_ONE;
    bool found = false;
    *out_common = FACTOR_ONE;
    for (size_t i = 0; i < nargs && !found; i++) {
        if ((linear && !linear[i]) || factor_is_zero(value_factor(t, args[i]))) continue;
        common = args[i].factor;
        found = true;
    }
    if (common == FACTOR_ONE) return NULL;
    factor by = t->factors[common];
    for (int dry = 1; dry >= 0; dry--) {
        for (size_t i = 0; i < nargs; i++) {
            value x = args[i];
            bool good;
            if (linear && !linear[i]) continue;
            TRY(normal_times(t, &x, &by, true, &good));
            if (!good) return NULL;
            if (!dry) args[i] = x;
        }
    }
    *out_common = common;
    return NULL;
}

/* The factor of the first of the linear ones where all are zero; else FACTOR_ONE. */
static uint32_t zero_of_all(const terms *t, const value *args, size_t nargs, const bool *linear) {
    uint32_t zero = FACTOR_ONE;
    for (size_t i = 0; i < nargs; i++) {
        if (!linear[i]) continue;
        if (!factor_is_zero(value_factor(t, args[i]))) return FACTOR_ONE;
        zero = args[i].factor;
    }
    return zero;
}

weft_status normal_multiply(terms *t, value x, uint32_t common, value *out) {
    bool good;
    if (common == FACTOR_ONE) return *out = x, NULL;
    TRY(normal_times(t, &x, &t->factors[common], false, &good));
    *out = x;
    if (good) return NULL;
    *out = value_of(TERM_NONE);
    return term_unknown(t, "a factor too large to be exact", &out->term);
}

weft_status normal_fill_form(normal *n, uint32_t id, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, id);
    factor f;
    *out = value_of(id);
    if (h->unit == UINT32_MAX || !normal_pulls(n, h->dtype) || !factor_of_attr(h->number, t->odd, &f)) return NULL;
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, id, &ndim);
    TRY(term_make(t, h->unit, NULL, 0, h->dtype, ndim, dims, &out->term));
    return factor_id(t, &f, &out->factor);
}

/* Factors of linear arguments come out, and zero where all are zero: *out is the op's term, its factor that of all
 * outputs. */
weft_status normal_op_form(normal *n, uint32_t id, value *args, size_t nargs, bool pulls, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, id);
    uint32_t common = FACTOR_ONE;
    bool small[64], *linear = small;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    if (nargs > sizeof small && !(linear = ARENA_ARRAY(&memory, bool, nargs))) TRY_DONE(base_out_of_memory());
    bool checks = normal_is_type(h, "check_finite_and_unscale"), is_sign = normal_is_type(h, "sign");
    for (size_t i = 0; i < nargs; i++) {
        uint8_t role = i < h->nargs && h->roles ? h->roles[i] : ROLE_FIXED;
        int32_t dtype = t->items[args[i].term].dtype;
        if (role == ROLE_TYPE_ONLY ||
            (is_sign && factor_is_positive(value_factor(t, args[i])) && normal_pulls(n, dtype)))
            args[i].factor = FACTOR_ONE; /* the sign of a positive multiple is the same */
        linear[i] = role == ROLE_LINEAR && (dtype == WEFT_DTYPE_NONE || dtype_is_inexact(dtype));
        if (linear[i] && dtype_is_inexact(dtype) && !normal_pulls(n, dtype)) pulls = false;
        if (checks && role == ROLE_LINEAR && n->mode == NORMAL_RANGE && !factor_is_zero(value_factor(t, args[i])))
            args[i].factor = FACTOR_ONE;
    }
    if (pulls && h->pulls) TRY_DONE(normal_pull_common(t, args, nargs, linear, &common));
    if (pulls && h->pulls && common == FACTOR_ONE) common = zero_of_all(t, args, nargs, linear);
    TRY_DONE(term_make(t, t->items[id].head, args, nargs, WEFT_DTYPE_NONE, 0, NULL, &out->term));
    out->factor = common;
done:
    arena_fini(&memory);
    return status;
}
