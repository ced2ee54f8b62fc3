/* data_parallel_batch.c: which open extents of feeds are the batch. Each open extent gets a number of its own, and shapes
 * are inferred with these. Where ops contradict each other, two extents are one, or one is a fixed number: positions beside
 * sentences are as many as the sentences are long. The batch is what is dimension 0 of every feed that has it. */
#include "ops/infer.h"
#include "passes/data_parallel.h"

enum { MOST_EXTENTS = 12 };
/* No other extent is likely to be a multiple of these, nor are the rows (data_parallel_shapes.c). */
static const int64_t stand_ins[MOST_EXTENTS] = {104851, 104743, 104759, 104761, 104773, 104779,
                                                104789, 104801, 104803, 104827, 104831, 104849};

typedef struct open_extent {
    size_t feed;
    size_t dim;
    size_t same_as; /* an earlier one, or itself */
    int64_t fixed;  /* -1: open */
} open_extent;

typedef struct search {
    dp_plan *plan;
    open_extent extents[MOST_EXTENTS];
    size_t count;
    shape_env env;
} search;

static bool collect(search *s) {
    for (size_t i = 0; i < s->plan->nfeeds; i++) {
        const weft_var *var = s->plan->feeds[i].var;
        for (size_t d = 0; d < var->ndim; d++) {
            if (var->dims[d] >= 0) continue;
            if (s->count == MOST_EXTENTS) return false;
            s->extents[s->count] = (open_extent){.feed = i, .dim = d, .same_as = s->count, .fixed = -1};
            s->count++;
        }
    }
    return s->count > 1;
}

static int64_t number_of(const search *s, size_t i) {
    while (s->extents[i].same_as != i) i = s->extents[i].same_as;
    return s->extents[i].fixed >= 0 ? s->extents[i].fixed : stand_ins[i] * s->plan->nranks;
}

static weft_status begin(search *s) {
    TRY(shape_env_init(&s->env, s->plan->program, &s->plan->types));
    for (size_t i = 0; i < s->count; i++) {
        const weft_var *var = s->plan->feeds[s->extents[i].feed].var;
        shape own = shape_env_get(&s->env, var);
        own.dims[s->extents[i].dim] = number_of(s, i);
        TRY(shape_env_set(&s->env, var, &own));
    }
    return NULL;
}

/* The first forward op that contradicts the numbers, NULL: none does. What is in sub-blocks is not looked at. */
static weft_status find_contradiction(search *s, weft_op **out) {
    TRY(begin(s));
    *out = NULL;
    FOR_EACH_OP(op, s->plan->block) {
        if (op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES | OP_CONTROL)) continue;
        if (op_is(op, "fill_constant") && (op_role(op) & WEFT_ROLE_BACKWARD)) return NULL;
        weft_status problem = shape_infer_op(&s->env, op, &s->plan->types);
        if (!problem) continue;
        if (weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
        weft_status_free(problem);
        *out = op;
        return NULL;
    }
    return NULL;
}

/* Whether `op` agrees where all inputs have `to` for `from`. */
static weft_status agrees(search *s, weft_op *op, int64_t from, int64_t to, bool *out) {
    shape before[16];
    size_t n = 0;
    *out = false;
    if (op_nargs(op, false) > 16) return NULL;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *var = use_var(op->program, u);
        shape own = before[n++] = shape_env_get(&s->env, var);
        for (int d = 0; d < own.ndim; d++)
            if (own.dims[d] > 0 && own.dims[d] % from == 0) own.dims[d] = own.dims[d] / from * to;
        TRY(shape_env_set(&s->env, var, &own));
    }
    weft_status problem = shape_infer_op(&s->env, op, &s->plan->types);
    *out = !problem;
    if (problem && weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
    weft_status_free(problem);
    n = 0;
    FOR_EACH_ARG(op, false, u) TRY(shape_env_set(&s->env, use_var(op->program, u), &before[n++]));
    return NULL;
}

static bool has_number(const search *s, weft_op *op, int64_t number) {
    FOR_EACH_ARG(op, false, u) {
        shape own = shape_env_get(&s->env, use_var(op->program, u));
        for (int d = 0; d < own.ndim; d++)
            if (own.dims[d] > 0 && own.dims[d] % number == 0) return true;
    }
    return false;
}

static bool is_root(const search *s, size_t i) {
    return s->extents[i].same_as == i && s->extents[i].fixed < 0;
}

/* Two extents that are one. */
static weft_status unite(search *s, weft_op *op, bool *out) {
    *out = false;
    for (size_t i = 0; i < s->count; i++) {
        if (!is_root(s, i) || !has_number(s, op, number_of(s, i))) continue;
        for (size_t k = i + 1; k < s->count; k++) {
            if (!is_root(s, k) || !has_number(s, op, number_of(s, k))) continue;
            TRY(agrees(s, op, number_of(s, k), number_of(s, i), out));
            if (*out) s->extents[k].same_as = i;
            if (*out) return NULL;
        }
    }
    return NULL;
}

/* An extent that is a fixed number, that of a value made of feeds: a constant is as long as one batch, which is not told
 * here (data_parallel_shapes.c). */
static weft_status fix(search *s, weft_op *op, bool *out) {
    *out = false;
    FOR_EACH_ARG(op, false, u) {
        shape own = shape_env_get(&s->env, use_var(op->program, u));
        bool open = false;
        for (size_t i = 0; i < s->count; i++)
            for (int d = 0; d < own.ndim; d++) open |= is_root(s, i) && own.dims[d] % number_of(s, i) == 0;
        for (int d = 0; open && d < own.ndim; d++) {
            for (size_t i = 0; i < s->count; i++) {
                if (!is_root(s, i) || own.dims[d] <= 1 || own.dims[d] % number_of(s, i) == 0) continue;
                if (!has_number(s, op, number_of(s, i))) continue;
                TRY(agrees(s, op, number_of(s, i), own.dims[d], out));
                if (*out) s->extents[i].fixed = own.dims[d];
                if (*out) return NULL;
            }
        }
    }
    return NULL;
}

/* Whether the extent is dimension 0 wherever feeds have it, and no fixed number. */
static bool is_batch(const search *s, size_t i) {
    int64_t own = number_of(s, i);
    for (size_t k = 0; k < s->count; k++)
        if (number_of(s, k) == own && (s->extents[k].dim || !is_root(s, k))) {
            size_t root = k;
            while (s->extents[root].same_as != root) root = s->extents[root].same_as;
            if (s->extents[k].dim || s->extents[root].fixed >= 0) return false;
        }
    return true;
}

/* Open extents that are not the batch, so that rows may be told from them in what they are multiplied with. */
static void keep_lengths(const search *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (is_batch(s, i)) continue;
        s->plan->feeds[s->extents[i].feed].lengths[s->extents[i].dim] = number_of(s, i);
        s->plan->has_lengths = true;
    }
}

weft_status dp_find_batch(dp_plan *plan) {
    search s = {.plan = plan};
    weft_op *at = NULL;
    bool moved = true;
    if (!collect(&s)) return NULL;
    while (moved) {
        TRY(find_contradiction(&s, &at));
        if (!at) break;
        TRY(unite(&s, at, &moved));
        if (!moved) TRY(fix(&s, at, &moved));
    }
    bool any = false;
    for (size_t i = 0; i < s.count; i++) any |= s.extents[i].dim == 0 && is_batch(&s, i);
    if (!any)
        return weft_pass_refuse(plan->pass,
                                "which feeds are rows of the batch cannot be told: every open extent is also another "
                                "dimension of some feed; name the feeds that are no rows in replicate");
    if (!at) keep_lengths(&s);
    for (size_t i = 0; i < s.count; i++) {
        if (s.extents[i].dim || is_batch(&s, i)) continue;
        plan->feeds[s.extents[i].feed].split = false;
        plan->feeds[s.extents[i].feed].why = "its open extent is not the batch, but another dimension's";
    }
    return NULL;
}
