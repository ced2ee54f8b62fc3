/* witness.c: runs the serial program, or what ranks ran before, and the ranks on small random data, and compares what
 * they leave behind.
 *
 * A draw gives every persistable and every feed random numbers. State that is no trained parameter is positive, as
 * moments, variances and rates are; integers are 0 or 1, which indices and labels may be. The serial program runs a
 * second time with other last bits in its state and feeds, and other seeds of random ops: values may differ so much for
 * no reason that counts. What differs by far more, in two draws, differs. */
#include "weft/witness.h"

#include <math.h>
#include <stdio.h>

#include "base/types.h"
#include "executor/kernel.h"
#include "train/trainer.h"
#include "train/witness_parts.h"

enum {
    MOST_ELEMENTS = 1 << 24, /* of state */
    MOST_DRAWS = 4,
    DRAWS_NEEDED = 2,
    WATCHDOG_SECONDS = 20
};
static const double noise_factor = 30, least_share = 1e-5;

/* What open extents become: rows for each rank, and others. */
static const int64_t open_extents[][2] = {{2, 8}, {4, 16}, {1, 32}};
enum { NSIZES = sizeof open_extents / sizeof *open_extents };

typedef struct witness {
    const weft_witness_question *q;
    weft_context *context;
    weft_program *serial; /* or the first of those that ranks ran before */
    arena memory;
    const char **named;   /* by var that is asked for: the name under which results have it */
    const char **fetches; /* of these, what is not persistable */
    size_t nfetches;
    double nudge; /* how much the last bits are, as a share */
    size_t *nshown;
    char *reason;
} witness;

/* One run of a step: its results by rank, and put together. */
typedef struct outcome {
    weft_tensors **ranks;
    size_t nranks;
    weft_tensors *joined;
} outcome;

/* --- random data -------------------------------------------------------------------------------------------------- */

/* A draw: which numbers, which of the sizes, and whether last bits are others. */
typedef struct draw {
    uint64_t seed, rank; /* rank: whose numbers; 0 where all have the same */
    size_t size;
    bool is_positive, is_nudged;
} draw;

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t hash_text(const char *key) {
    uint64_t h = 0;
    for (; *key; key++) h = mix(h ^ (unsigned char)*key);
    return h;
}

static double share_of(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

static void put_number(weft_tensor *t, int64_t i, double x) {
    switch (t->dtype) {
    case WEFT_FP32: ((float *)t->data)[i] = (float)x; break;
    case WEFT_FP64: ((double *)t->data)[i] = x; break;
    case WEFT_FP16: ((uint16_t *)t->data)[i] = f32_to_fp16((float)x); break;
    case WEFT_BF16: ((uint16_t *)t->data)[i] = f32_to_bf16((float)x); break;
    default: break;
    }
}

static double get_number(const weft_tensor *t, int64_t i) {
    switch (t->dtype) {
    case WEFT_FP32: return (double)((const float *)t->data)[i];
    case WEFT_FP64: return ((const double *)t->data)[i];
    case WEFT_FP16: return (double)fp16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return (double)bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_INT64: return (double)((const int64_t *)t->data)[i];
    case WEFT_INT32: return ((const int32_t *)t->data)[i];
    case WEFT_INT16: return ((const int16_t *)t->data)[i];
    case WEFT_INT8: return ((const int8_t *)t->data)[i];
    case WEFT_UINT8:
    case WEFT_BOOL: return ((const uint8_t *)t->data)[i];
    default: return 0;
    }
}

static int64_t count_elements(const weft_tensor *t) {
    int64_t n = 1;
    for (size_t i = 0; i < t->ndim; i++) n *= t->dims[i];
    return n;
}

static void put_bit(weft_tensor *t, int64_t i, uint8_t bit) {
    size_t nbytes = weft_dtype_nbytes(t->dtype);
    ((uint8_t *)t->data)[(size_t)i * nbytes] = bit; /* little endian */
}

static void fill(const witness *w, const draw *d, weft_tensor *t, bool is_positive) {
    uint64_t key = mix(d->seed ^ hash_text(t->name) ^ d->rank << 32);
    double scale = t->ndim ? 1 / sqrt((double)(t->dims[0] > 1 ? t->dims[0] : 1)) : 1;
    for (int64_t i = 0, n = count_elements(t); i < n; i++) {
        uint64_t bits = mix(key + (uint64_t)i);
        if (!dtype_is_float((int32_t)t->dtype)) {
            put_bit(t, i, bits & 1);
            continue;
        }
        double x = is_positive ? 0.1 + 0.8 * share_of(bits) : scale * (2 * share_of(bits) - 1);
        if (d->is_nudged) x *= 1 + w->nudge * (mix(bits) & 1 ? 1 : -1);
        put_number(t, i, x);
    }
}

/* --- what a program is given -------------------------------------------------------------------------------------- */

static bool is_dense(const weft_var *v) {
    return v->block && v->block->idx == 0 && v->kind == WEFT_DENSE_TENSOR && v->has_tensor && v->ndim <= WEFT_MAX_RANK;
}

static weft_status give(const witness *w, const draw *d, const weft_var *v, bool is_positive, weft_tensors *to) {
    int64_t dims[WEFT_MAX_RANK];
    weft_tensor *t;
    for (size_t i = 0; i < v->ndim; i++) {
        dims[i] = v->dims[i];
        if (dims[i] < 0) dims[i] = i ? open_extents[d->size][1] : open_extents[d->size][0] * w->q->nranks;
    }
    TRY(weft_tensors_add(to, v->name->bytes, (weft_dtype)v->dtype, v->ndim, dims, &t));
    fill(w, d, t, is_positive);
    return NULL;
}

/* State that only looks like a parameter is not trained: the statistics of a batch norm. */
static bool is_trained(const weft_var *v) {
    return v->is_parameter && !v->stop_gradient;
}

static weft_status give_state(const witness *w, const draw *d, const weft_program *p, weft_tensors *to) {
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        if (v->persistable && is_dense(v)) TRY(give(w, d, v, d->is_positive || !is_trained(v), to));
    }
    return NULL;
}

/* A feed is what block 0 reads before any op writes it. */
static weft_status give_feeds(witness *w, const draw *d, const weft_program *p, weft_tensors *to) {
    bool *known = ARENA_ARRAY(&w->memory, bool, p->nall_vars + 1);
    if (!known) return base_out_of_memory();
    FOR_EACH_OP(op, p->blocks[0]) {
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        FOR_EACH_ARG(op, op_is(op, "feed"), u) {
            const weft_var *v = use_var(op->program, u);
            if (known[u->var_id] || v->persistable || !is_dense(v)) continue;
            known[u->var_id] = true;
            TRY(give(w, d, v, d->is_positive, to));
        }
        FOR_EACH_ARG(op, true, u) known[u->var_id] = true;
    }
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void outcome_fini(outcome *o) {
    for (size_t i = 0; o->ranks && i < o->nranks; i++) weft_tensors_destroy(o->ranks[i]);
    weft_tensors_destroy(o->joined);
    *o = (outcome){.ranks = NULL};
}

static weft_status take_results(witness *w, const weft_trainer *t, size_t nranks, outcome *out) {
    out->ranks = ARENA_ARRAY(&w->memory, weft_tensors *, nranks);
    if (!out->ranks) return base_out_of_memory();
    for (; out->nranks < nranks; out->nranks++)
        TRY(weft_trainer_rank_result(t, (int)out->nranks, &out->ranks[out->nranks]));
    return weft_trainer_result(t, &out->joined);
}

/* State and feeds: one set for all ranks, or one each. */
typedef struct givens {
    weft_tensors **state, **feeds;
    size_t count;
} givens;

static weft_status give_all(witness *w, draw d, size_t nranks, givens *g) {
    size_t nsets = w->q->before ? (size_t)w->q->nranks : 1;
    g->state = ARENA_ARRAY(&w->memory, weft_tensors *, nsets + nranks);
    g->feeds = ARENA_ARRAY(&w->memory, weft_tensors *, nsets + nranks);
    if (!g->state || !g->feeds) return base_out_of_memory();
    for (g->count = 0; g->count < nsets;) {
        size_t i = g->count++;
        const weft_program *p = w->q->before ? w->q->before[w->q->nbefore > 1 ? i : 0] : w->serial;
        d.rank = i;
        TRY(weft_tensors_create(w->context, &g->state[i]));
        TRY(weft_tensors_create(w->context, &g->feeds[i]));
        TRY(give_state(w, &d, p, g->state[i]));
        TRY(give_feeds(w, &d, p, g->feeds[i]));
    }
    return NULL;
}

/* Ranks of a graph get a set each in the place of the whole one. */
static weft_status cut(witness *w, const weft_program *const *programs, size_t nprograms, size_t nranks, givens *g) {
    weft_tensors *state = g->state[0], *feeds = g->feeds[0];
    weft_status status = NULL;
    for (g->count = 0; g->count < nranks && !status;) {
        size_t i = g->count++;
        g->state[i] = g->feeds[i] = NULL;
        status = weft_tensors_create(w->context, &g->state[i]);
        if (!status) status = weft_tensors_create(w->context, &g->feeds[i]);
        if (!status) status = witness_add_parts(state, programs, nprograms, i, g->state[i]);
        if (!status) status = witness_add_parts(feeds, programs, nprograms, i, g->feeds[i]);
    }
    weft_tensors_destroy(state);
    weft_tensors_destroy(feeds);
    return status;
}

static void givens_fini(const givens *g) {
    for (size_t i = 0; i < g->count; i++) {
        weft_tensors_destroy(g->state[i]);
        weft_tensors_destroy(g->feeds[i]);
    }
}

static weft_status run(witness *w, const draw *d, const weft_program *const *programs, size_t nprograms, size_t nranks,
                       outcome *out) {
    givens g = {.count = 0};
    weft_trainer *t = NULL;
    *out = (outcome){.ranks = NULL};
    weft_status status = NULL;
    TRY_DONE(give_all(w, *d, nranks, &g));
    bool each = w->q->before != NULL;
    if (!each && nranks > 1 && witness_is_in_parts(programs, nprograms, g.feeds[0])) {
        each = true;
        TRY_DONE(cut(w, programs, nprograms, nranks, &g));
    }
    weft_trainer_options o = {WEFT_TRAINER_OPTIONS_INIT,
                              .programs = programs,
                              .nprograms = nprograms,
                              .nranks = (int)nranks,
                              .params = each ? NULL : g.state[0],
                              .state = each ? (const weft_tensors *const *)g.state : NULL,
                              .state_per_rank = each,
                              .feeds = (const weft_tensors *const *)g.feeds,
                              .feeds_per_rank = each,
                              .fetches = w->fetches,
                              .nfetches = w->nfetches,
                              .nsteps = 1,
                              .executor = &(weft_executor_options){
                                  WEFT_EXECUTOR_OPTIONS_INIT, .seed = d->seed + d->is_nudged,
                                  .watchdog_seconds = WATCHDOG_SECONDS, .first_step_seconds = WATCHDOG_SECONDS}};
    TRY_DONE(weft_trainer_create(w->context, &o, &t));
    TRY_DONE(weft_trainer_step(t, 0));
    TRY_DONE(take_results(w, t, nranks, out));
done:
    if (status) outcome_fini(out);
    weft_trainer_destroy(t);
    givens_fini(&g);
    return status;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool alike(const weft_tensor *a, const weft_tensor *b) {
    return a && b && a->data && b->data && a->dtype == b->dtype && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0);
}

/* What ranks hold of a var: one of them, or the mean of all. */
typedef struct held {
    const weft_tensor *const *parts;
    size_t count;
} held;

static double held_at(const held *h, int64_t i) {
    double sum = 0;
    for (size_t k = 0; k < h->count; k++) sum += get_number(h->parts[k], i);
    return sum / (double)h->count;
}

/* The element that is farthest from the serial one, if it is farther than noise is; false: none, or some are no
 * numbers. */
static bool find_difference(const weft_tensor *want, const weft_tensor *nudged, const held *h,
                            weft_witness_answer *out) {
    double scale = 0, noise = 0, far = 0;
    int64_t n = count_elements(want), at = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = get_number(want, i), y = get_number(nudged, i), z = held_at(h, i);
        if (!isfinite(x) || !isfinite(y) || !isfinite(z)) return false;
        scale = fmax(scale, fabs(x));
        noise = fmax(noise, fabs(x - y));
        if (fabs(x - z) <= far) continue;
        far = fabs(x - z);
        at = i;
    }
    if (far <= noise_factor * noise + least_share * scale) return false;
    *out = (weft_witness_answer){true, -1, at, get_number(want, at), held_at(h, at)};
    return true;
}

/* State is judged rank by rank, what is fetched by its mean; parts are put together first. */
static weft_status compare_var(witness *w, size_t number, const outcome *serial, const outcome *nudged,
                               const outcome *ranks, weft_witness_answer *out) {
    const char *asked = w->named[number];
    const weft_tensor *want = weft_tensors_find(serial->ranks[0], asked);
    const weft_tensor *other = weft_tensors_find(nudged->ranks[0], asked);
    const weft_var *v = weft_block_find_var(w->serial->blocks[0], w->q->vars[number]);
    const weft_tensor **parts = ARENA_ARRAY(&w->memory, const weft_tensor *, ranks->nranks);
    size_t n = 0, nthere = 0;
    *out = (weft_witness_answer){.rank = -1};
    if (!parts) return base_out_of_memory();
    if (!v || !alike(want, other)) return NULL;
    for (size_t i = 0; i < ranks->nranks; i++) {
        const weft_tensor *part = weft_tensors_find(ranks->ranks[i], asked);
        nthere += part && part->data;
        if (!alike(part, want)) continue;
        parts[n++] = part;
        held one = {&part, 1};
        if (v->persistable && find_difference(want, other, &one, out)) return out->rank = (int64_t)i, NULL;
    }
    const weft_tensor *joined = weft_tensors_find(ranks->joined, asked);
    held mean = {parts, n}, whole = {&joined, 1};
    if (n && n == nthere && !v->persistable)
        (void)find_difference(want, other, &mean, out);
    else if (!n && alike(joined, want))
        (void)find_difference(want, other, &whole, out);
    return NULL;
}

/* What a rank leaves, and what it left before. */
static void compare_rank(const char *asked, size_t rank, const outcome *before, const outcome *nudged,
                         const outcome *after, weft_witness_answer *out) {
    const weft_tensor *want = weft_tensors_find(before->ranks[rank], asked);
    const weft_tensor *other = weft_tensors_find(nudged->ranks[rank], asked);
    const weft_tensor *found = weft_tensors_find(after->ranks[rank], asked);
    held one = {&found, 1};
    *out = (weft_witness_answer){.rank = -1};
    if (alike(want, other) && alike(want, found) && find_difference(want, other, &one, out)) out->rank = (int64_t)rank;
}

static weft_status compare(witness *w, const outcome *serial, const outcome *nudged, const outcome *ranks,
                           weft_witness_answer *answers) {
    for (size_t i = 0; i < w->q->nvars; i++) {
        weft_witness_answer found;
        if (w->q->before)
            compare_rank(w->named[i], (size_t)w->q->var_ranks[i], serial, nudged, ranks, &found);
        else
            TRY(compare_var(w, i, serial, nudged, ranks, &found));
        if (found.differs && w->nshown[i]++ == 0) answers[i] = found, answers[i].differs = false;
        if (w->nshown[i] >= DRAWS_NEEDED) answers[i].differs = true;
    }
    return NULL;
}

/* --- draws -------------------------------------------------------------------------------------------------------- */

/* A failure to run is a reason to have no witness. */
static weft_status excuse(witness *w, const char *whose, weft_status status) {
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    snprintf(w->reason, WEFT_WITNESS_REASON, "%s cannot be run here: %.200s", whose, weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* *out_ran: both ran. */
static weft_status try_draw(witness *w, draw d, weft_witness_answer *answers, bool *out_ran) {
    outcome serial = {.ranks = NULL}, nudged = serial, ranks = serial;
    const weft_program *const one = w->serial, *const *first = w->q->before ? w->q->before : &one;
    size_t nfirst = w->q->before ? w->q->nbefore : 1, nranks = w->q->before ? (size_t)w->q->nranks : 1;
    const char *whose = w->q->before ? "what ranks ran before" : "the serial program";
    weft_status status = run(w, &d, first, nfirst, nranks, &serial);
    d.is_nudged = true;
    if (!status) status = run(w, &d, first, nfirst, nranks, &nudged);
    d.is_nudged = false;
    if (!status) {
        whose = "the ranks' program";
        status = run(w, &d, w->q->programs, w->q->nprograms, (size_t)w->q->nranks, &ranks);
    }
    *out_ran = !status;
    if (!status)
        status = compare(w, &serial, &nudged, &ranks, answers);
    else
        status = excuse(w, whose, status);
    outcome_fini(&serial);
    outcome_fini(&nudged);
    outcome_fini(&ranks);
    return status;
}

static bool is_open(const weft_program *p) {
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        for (size_t k = 0; is_dense(v) && k < v->ndim; k++)
            if (v->dims[k] < 0) return true;
    }
    return false;
}

/* Open extents get the first sizes with which both run. */
static weft_status try_all(witness *w, weft_witness_answer *answers) {
    size_t size = 0, nsizes = is_open(w->serial) ? NSIZES : 1;
    for (uint64_t i = 0; i < MOST_DRAWS; i++) {
        bool ran = false;
        for (; size < nsizes; size++) {
            draw d = {.seed = i + 1, .size = size, .is_positive = i & 1};
            TRY(try_draw(w, d, answers, &ran));
            if (ran) break;
        }
        if (!ran) return NULL;
        w->reason[0] = '\0';
    }
    return NULL;
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

/* What a fetch op reads goes by its column: other programs may have it in vars of other names. */
static weft_status name_result(witness *w, const char *var, const char **out) {
    *out = var;
    FOR_EACH_OP(op, w->serial->blocks[0]) {
        if (!op_is(op, "fetch") && !op_is(op, "fetch_v2")) continue;
        FOR_EACH_ARG(op, false, u)
        if (strcmp(use_var(op->program, u)->name->bytes, var) == 0)
            *out = arena_format(&w->memory, "fetch.%lld", (long long)attr_int(op, "col", 0));
    }
    return *out ? NULL : base_out_of_memory();
}

static weft_status list_fetches(witness *w) {
    w->named = ARENA_ARRAY(&w->memory, const char *, w->q->nvars + 1);
    w->fetches = ARENA_ARRAY(&w->memory, const char *, w->q->nvars + 1);
    w->nshown = ARENA_ARRAY(&w->memory, size_t, w->q->nvars + 1);
    if (!w->named || !w->fetches || !w->nshown) return base_out_of_memory();
    for (size_t i = 0; i < w->q->nvars; i++) {
        const weft_var *v = weft_block_find_var(w->serial->blocks[0], w->q->vars[i]);
        bool is_known = !v || v->persistable;
        w->named[i] = w->q->vars[i];
        if (!is_known) TRY(name_result(w, w->q->vars[i], &w->named[i]));
        for (size_t k = 0; k < w->nfetches && !is_known; k++) is_known = strcmp(w->fetches[k], w->named[i]) == 0;
        if (!is_known) w->fetches[w->nfetches++] = w->named[i];
    }
    return NULL;
}

/* The last bits of the coarsest type, and the elements of state; -1: more than can be counted. */
static int64_t look_at_vars(witness *w) {
    int64_t total = 0;
    w->nudge = 1e-6;
    for (size_t i = 0; i < w->serial->nall_vars; i++) {
        const weft_var *v = program_var(w->serial, i);
        int64_t n = 1;
        if (v->dtype == WEFT_FP16) w->nudge = fmax(w->nudge, 2e-3);
        if (v->dtype == WEFT_BF16) w->nudge = fmax(w->nudge, 1e-2);
        for (size_t k = 0; k < v->ndim && is_dense(v); k++)
            if (v->dims[k] > 0 && __builtin_mul_overflow(n, v->dims[k], &n)) return -1;
        if (v->persistable && is_dense(v) && __builtin_add_overflow(total, n, &total)) return -1;
    }
    return total;
}

weft_status weft_witness_run(void *data, const weft_witness_question *question, weft_witness_answer *answers,
                             char out_reason[WEFT_WITNESS_REASON]) {
    (void)data;
    out_reason[0] = '\0';
    const weft_program *first = question->serial ? question->serial : question->before[0];
    witness w = {.q = question,
                 .context = first->context,
                 .serial = (weft_program *)first, /* a look at an op keeps its schema */
                 .reason = out_reason};
    arena_init(&w.memory, &w.context->allocator);
    int64_t nelements = look_at_vars(&w);
    weft_status status = NULL;
    if (nelements < 0 || nelements > MOST_ELEMENTS)
        snprintf(out_reason, WEFT_WITNESS_REASON, "state of more than %d elements is not computed to look",
                 MOST_ELEMENTS);
    else
        status = list_fetches(&w);
    if (!status && !*out_reason) status = try_all(&w, answers);
    arena_fini(&w.memory);
    return status;
}
