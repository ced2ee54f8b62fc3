/* hierarchical_all_reduce: a sum over ranks of several hosts is made in two levels.
 *
 * A ring of g groups of m ranks sums a tensor in 2 (g m - 1) messages, each as slow as the slowest link. Where a
 * group's links are faster than those between groups, three collectives are: the tensor's parts are summed inside the
 * group. Each rank then sums its part with the ranks of its place in the other groups, and the group gathers the parts.
 * Then 1/m of the tensor goes between groups, on each rank's own link. Groups are neighbours in rank numbers, as in a
 * cluster file.
 *
 * The order of a sum follows from the program: inside a group in ring order, then over the groups. So it has the same
 * bits in every run and on every engine, but not those of the flat ring. Ranks have other rings: each gets a program
 * of its own. A sum that is on a stream is made on three, each with a ring of its own: one bucket is summed between
 * hosts while the next is summed inside. Paddle's executor has one communicator a stream, so it needs that too. */
#include <stdio.h>

#include "ops/collectives.h"
#include "passes/access.h"
#include "passes/certificate.h"
#include "passes/pass_manager.h"
#include "plan/cost.h"
#include "proof/classes.h"

#define EVENT_PREFIX "hierarchical_all_reduce/"
#define NAMESCOPE "/hierarchical_all_reduce"

static const weft_option options[] = {
    {"inside", WEFT_OPTION_INT, "0", NULL,
     "ranks of a group; 0: those that the cluster's widest link below the ring joins"},
    {"cluster", WEFT_OPTION_STRING, "", NULL,
     "a cluster file: a sum that its model makes no faster in two levels is left alone"},
    {"between_stream", WEFT_OPTION_STRING, "between_hosts", NULL,
     "stream of sums between groups, of those on a stream"},
    {"gather_stream", WEFT_OPTION_STRING, "inside_host", NULL, "stream of their gathers"},
    {"min_kb", WEFT_OPTION_FLOAT, "0", NULL, "sums of fewer KiB are left alone"},
};

/* A ring, and the two that take its place on this rank. */
typedef struct level {
    const ring *flat;
    const char *why_not;          /* NULL: it has groups */
    int inside, between;          /* ranks of a group, and groups */
    int64_t *group, *across;      /* this rank's */
    int64_t group_id, across_id;  /* -1: not made yet */
    int64_t gather_id;            /* the group again, for another stream */
    plan_curve one, within, wide; /* the flat ring's all-reduce, a group's, and that over the groups */
} level;

/* A sum that is split. */
typedef struct sum {
    weft_op *op, *next; /* the next op on its stream that touches what it writes; NULL: none */
    level *of;
} sum;

typedef struct splitter {
    weft_pass_context *pass;
    weft_program *program;
    int64_t rank, inside;
    weft_cluster cluster;
    bool has_cluster;
    const char *between_stream, *gather_stream;
    double min_nbytes;
    level *levels;
    size_t nlevels;
    access_index index;
    sum *sums; /* to be split */
    size_t count, nevents;
} splitter;

/* --- groups ------------------------------------------------------------------------------------------------------- */

static int64_t group_of(const splitter *s, int64_t rank) {
    return rank / s->inside;
}

/* Members of each group stand together, as many in each; or why not. */
static const char *check_groups(const splitter *s, level *l) {
    const ring *r = l->flat;
    int m = 1;
    while (m < r->nranks && group_of(s, r->ranks[m]) == group_of(s, r->ranks[0])) m++;
    if (m == r->nranks) return "its ring is within one group";
    if (m == 1) return "no two neighbours of its ring are in one group";
    if (r->nranks % m) return "its groups are not of one size";
    for (int i = 0; i < r->nranks; i++) {
        int first = i / m * m;
        bool fits = group_of(s, r->ranks[i]) == group_of(s, r->ranks[first]);
        if (!fits || (i == first && i && group_of(s, r->ranks[i]) == group_of(s, r->ranks[i - 1])))
            return "its groups are not of one size";
    }
    l->inside = m;
    l->between = r->nranks / m;
    return NULL;
}

static weft_status find_own(const splitter *s, level *l) {
    arena *a = pass_scratch(s->pass);
    int at = ring_index(l->flat, s->rank), m = l->inside;
    l->group = ARENA_ARRAY(a, int64_t, (size_t)m);
    l->across = ARENA_ARRAY(a, int64_t, (size_t)l->between);
    if (!l->group || !l->across) return base_out_of_memory();
    for (int i = 0; i < m; i++) l->group[i] = l->flat->ranks[at / m * m + i];
    for (int i = 0; i < l->between; i++) l->across[i] = l->flat->ranks[i * m + at % m];
    return NULL;
}

static weft_status curve(const splitter *s, const weft_op *op, int nranks, const int64_t *ranks, plan_curve *out) {
    return plan_collective_curve(&s->cluster, &(plan_ring){.id = -1, .nranks = nranks, .ranks = ranks}, op, out);
}

static weft_status make_level(splitter *s, const weft_op *op, const ring *r, level *l) {
    *l = (level){.flat = r, .group_id = -1, .across_id = -1};
    if (ring_index(r, s->rank) < 0) l->why_not = "its ring does not have this rank";
    if (!l->why_not) l->why_not = check_groups(s, l);
    if (l->why_not) return NULL;
    TRY(find_own(s, l));
    if (!s->has_cluster) return NULL;
    TRY(curve(s, op, r->nranks, r->ranks, &l->one));
    TRY(curve(s, op, l->inside, l->group, &l->within));
    return curve(s, op, l->between, l->across, &l->wide);
}

static weft_status find_level(splitter *s, const weft_op *op, level **out) {
    const ring *r = program_find_ring(s->program, op_ring(op));
    *out = NULL;
    for (size_t i = 0; i < s->nlevels; i++)
        if (s->levels[i].flat == r) *out = &s->levels[i];
    if (*out || !r) return NULL;
    *out = &s->levels[s->nlevels++];
    return make_level(s, op, r, *out);
}

/* --- deciding ----------------------------------------------------------------------------------------------------- */

static int64_t nbytes_of(const weft_var *v) {
    int64_t n = (int64_t)weft_dtype_nbytes((weft_dtype)v->dtype);
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] <= 0 || __builtin_mul_overflow(n, v->dims[i], &n)) return 0;
    return n;
}

/* The model's times of a sum: a group's scatter and gather are as long as its all-reduce, and one op more. */
static bool is_faster(const splitter *s, const level *l, int64_t nbytes) {
    int64_t flat = plan_curve_ns(&l->one, (double)nbytes), within = plan_curve_ns(&l->within, (double)nbytes);
    int64_t wide = plan_curve_ns(&l->wide, (double)(nbytes / l->inside)), op = plan_ns(s->cluster.op_seconds);
    return within + wide + op < flat;
}

static weft_status leave(const splitter *s, const weft_op *op, weft_reason reason, const char *why) {
    return weft_pass_left(s->pass, op, reason, "\"%s\": %s", op_x(op) ? op_x(op)->name->bytes : "?", why);
}

/* Ops of other streams wait for its event. */
static weft_op *find_next(const splitter *s, const weft_op *op) {
    size_t n;
    const access *accesses = accesses_of(&s->index, use_var(s->program, op_args(op, true)), &n);
    bool is_behind = false;
    for (size_t i = 0; i < n; i++) {
        weft_op *user = access_op(&s->index, accesses[i].position);
        if (is_behind && user != op && strcmp(weft_op_stream(user), weft_op_stream(op)) == 0) return user;
        is_behind = is_behind || user == op;
    }
    return NULL;
}

static weft_status consider(splitter *s, weft_op *op) {
    weft_reduce reduce;
    level *l;
    const weft_var *x = op_x(op);
    if (!op_is_all_reduce(op, &reduce)) return NULL;
    if (reduce != WEFT_REDUCE_SUM) return leave(s, op, WEFT_REASON_RING, "it is no sum");
    if (op_is_async(op)) return leave(s, op, WEFT_REASON_DEPENDENCY, "it is asynchronous");
    if ((op_collective(op)->paddle & PADDLE_CONTEXT) && !*weft_op_stream(op))
        return leave(s, op, WEFT_REASON_DEPENDENCY,
                     "its stream has one communicator in Paddle's executor: run this pass behind overlap_comm");
    TRY(find_level(s, op, &l));
    if (!l) return leave(s, op, WEFT_REASON_RING, "its ring is not declared");
    if (l->why_not) return leave(s, op, WEFT_REASON_RING, l->why_not);
    if (!x || op_nargs(op, true) != 1 || x->kind != WEFT_DENSE_TENSOR || !x->has_tensor || !x->ndim || !nbytes_of(x))
        return leave(s, op, WEFT_REASON_SHAPE, "its extents are not known");
    if (x->dims[0] % l->inside) return leave(s, op, WEFT_REASON_SHAPE, "a group does not divide its rows");
    if ((double)nbytes_of(x) < s->min_nbytes) return leave(s, op, WEFT_REASON_LIMIT, "it is smaller than min_kb");
    if (s->has_cluster && !is_faster(s, l, nbytes_of(x)))
        return leave(s, op, WEFT_REASON_LIMIT, "by the cluster's model two levels are no faster");
    s->sums[s->count++] = (sum){.op = op, .next = *weft_op_stream(op) ? find_next(s, op) : NULL, .of = l};
    return NULL;
}

/* --- editing ------------------------------------------------------------------------------------------------------ */

static weft_status add_ring(const splitter *s, int nranks, const int64_t *ranks, int64_t *out_id) {
    for (*out_id = 0; program_find_ring(s->program, *out_id);) ++*out_id;
    return weft_program_set_ring(s->program, *out_id, (size_t)nranks, ranks);
}

/* Groups by members, for those who ask how the ranks lie; where the ring is all of them. */
static weft_status add_mesh(const splitter *s, const level *l) {
    const int64_t extents[] = {l->between, l->inside};
    const mesh *unused;
    if (l->flat->nranks != program_last_rank(s->program) + 1) return NULL;
    return program_add_mesh(s->program, &(mesh){.ndim = 2, .shape = extents, .ids = l->flat->ranks}, &unused);
}

/* The program's list of rings grows: those that it had move. */
static weft_status make_rings(const splitter *s) {
    for (size_t i = 0; i < s->nlevels; i++) {
        ring *kept = ARENA_NEW(pass_scratch(s->pass), ring);
        if (!kept) return base_out_of_memory();
        *kept = *s->levels[i].flat;
        s->levels[i].flat = kept;
    }
    for (size_t i = 0; i < s->count; i++) {
        level *l = s->sums[i].of;
        if (l->group_id >= 0) continue;
        TRY(add_mesh(s, l));
        TRY(add_ring(s, l->inside, l->group, &l->group_id));
        TRY(add_ring(s, l->between, l->across, &l->across_id));
        TRY(add_ring(s, l->inside, l->group, &l->gather_id));
    }
    return NULL;
}

/* This rank's rows of what the group sums. */
static weft_status make_part(const splitter *s, const weft_var *x, int inside, weft_var **out) {
    char stem[256];
    const name *unique;
    int64_t dims[WEFT_MAX_RANK];
    for (size_t i = 0; i < x->ndim; i++) dims[i] = i ? x->dims[i] : x->dims[i] / inside;
    snprintf(stem, sizeof stem, "%.200s@GROUP", x->name->bytes);
    TRY(program_unique_name(s->program, stem, &unique));
    TRY(weft_block_add_var(s->program->blocks[0], unique->bytes, (weft_dtype)x->dtype, x->ndim, dims, out));
    (*out)->has_stop_gradient = (*out)->stop_gradient = true;
    return NULL;
}

static weft_status make_op(const splitter *s, const char *type, const weft_op *like, int64_t ring_id, int nranks,
                           weft_var *from, weft_var *to, weft_op **out) {
    bool new_era = op_find_slot(like, false, "x") != NULL;
    weft_op *op;
    TRY(weft_op_create(s->program, type, &op));
    TRY(weft_op_add_input(op, new_era ? "x" : "X", from));
    TRY(weft_op_add_output(op, new_era ? "out" : "Out", to));
    TRY(weft_op_set_attr_int(op, "ring_id", ring_id));
    if (nranks) TRY(weft_op_set_attr_int(op, "nranks", nranks));
    if (!new_era) TRY(weft_op_set_attr_bool(op, "use_calc_stream", true));
    if (op_find_attr(like, "op_role")) TRY(weft_op_set_attr_int(op, "op_role", op_role(like)));
    TRY(weft_op_set_attr_string(op, "op_namescope", NAMESCOPE));
    *out = op;
    return NULL;
}

static weft_status wait_too(const splitter *s, weft_op *op, const char *event) {
    size_t n = 0;
    while (weft_op_event_awaited(op, n)) n++;
    const char **events = ARENA_ARRAY(pass_scratch(s->pass), const char *, n + 1);
    if (!events) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) events[i] = weft_op_event_awaited(op, i);
    events[n] = event;
    return weft_op_set_events_awaited(op, n + 1, events);
}

/* `later`, on another stream, waits for `earlier`. */
static weft_status order(splitter *s, const weft_var *part, weft_op *earlier, weft_op *later) {
    char event[256];
    if (!*weft_op_event_recorded(earlier)) {
        snprintf(event, sizeof event, EVENT_PREFIX "%.200s/%zu", part->name->bytes, s->nevents++);
        TRY(weft_op_set_event_recorded(earlier, event));
    }
    return wait_too(s, later, weft_op_event_recorded(earlier));
}

/* What the sum waited for the first waits for; who waited for it waits for the last. On compute all stay there. */
static weft_status order_all(splitter *s, const sum *what, const weft_var *part, weft_op *first, weft_op *second,
                             weft_op *last) {
    const weft_op *op = what->op;
    for (size_t i = 0; weft_op_event_awaited(op, i); i++) TRY(wait_too(s, first, weft_op_event_awaited(op, i)));
    if (*weft_op_event_recorded(op)) TRY(weft_op_set_event_recorded(last, weft_op_event_recorded(op)));
    if (!*weft_op_stream(op)) return NULL;
    TRY(weft_op_set_stream(first, weft_op_stream(op)));
    TRY(weft_op_set_stream(second, s->between_stream));
    TRY(weft_op_set_stream(last, s->gather_stream));
    TRY(order(s, part, first, second));
    TRY(order(s, part, second, last));
    return what->next ? order(s, part, last, what->next) : NULL;
}

static weft_status split(splitter *s, const sum *what) {
    weft_op *op = what->op, *first, *second, *last;
    const level *l = what->of;
    bool new_era = op_find_slot(op, false, "x") != NULL;
    weft_var *x = use_var(s->program, op_args(op, false)), *out = use_var(s->program, op_args(op, true)), *part;
    int64_t gather_id = *weft_op_stream(op) ? l->gather_id : l->group_id;
    TRY(make_part(s, x, l->inside, &part));
    TRY(make_op(s, new_era ? "reduce_scatter" : "c_reducescatter", op, l->group_id, l->inside, x, part, &first));
    TRY(make_op(s, new_era ? "all_reduce" : "c_allreduce_sum", op, l->across_id, 0, part, part, &second));
    TRY(make_op(s, new_era ? "all_gather" : "c_allgather", op, gather_id, l->inside, part, out, &last));
    TRY(order_all(s, what, part, first, second, last));
    weft_block_insert_before(op->block, op, first);
    weft_block_insert_before(op->block, op, second);
    weft_block_insert_before(op->block, op, last);
    weft_op_remove(op);
    return NULL;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* The widest link that joins fewer than all ranks of the program. */
static weft_status choose_inside(splitter *s) {
    const char *file = weft_pass_option_string(s->pass, "cluster");
    int64_t nranks = program_last_rank(s->program) + 1;
    s->inside = weft_pass_option_int(s->pass, "inside");
    s->has_cluster = *file != '\0';
    if (s->has_cluster) {
        TRY(weft_cluster_load(s->pass->context, file, &s->cluster));
        TRY(plan_cluster_settle(&s->cluster, &s->cluster));
    }
    for (size_t i = 0; !weft_pass_option_given(s->pass, "inside") && i < s->cluster.nlinks; i++)
        if (s->cluster.links[i].nranks > 1 && s->cluster.links[i].nranks < nranks)
            s->inside = s->cluster.links[i].nranks;
    if (s->inside > 1) return NULL;
    if (s->has_cluster && !weft_pass_option_given(s->pass, "inside"))
        return weft_pass_left(s->pass, NULL, WEFT_REASON_NOTHING,
                              "no link of the cluster joins some of the ranks only");
    return weft_pass_refuse(s->pass, "expected inside, the ranks of a group (2 or more), or a cluster file");
}

static weft_status begin(splitter *s) {
    s->rank = pass_rank(s->pass) >= 0 ? pass_rank(s->pass) : s->program->rank;
    s->min_nbytes = weft_pass_option_float(s->pass, "min_kb") * 1024;
    s->between_stream = weft_pass_option_string(s->pass, "between_stream");
    s->gather_stream = weft_pass_option_string(s->pass, "gather_stream");
    if (!*s->between_stream || !*s->gather_stream || strcmp(s->between_stream, s->gather_stream) == 0)
        return weft_pass_refuse(s->pass, "expected two streams, found \"%s\" and \"%s\"", s->between_stream,
                                s->gather_stream);
    TRY(choose_inside(s));
    if (s->inside > 1 && s->rank < 0)
        return weft_pass_refuse(s->pass,
                                "ranks have other rings, so each gets a program of its own: expected {rank} in "
                                "the name of the output");
    size_t n = s->program->blocks[0]->nops + 1;
    s->levels = ARENA_ARRAY(pass_scratch(s->pass), level, s->program->nrings + 1);
    s->sums = ARENA_ARRAY(pass_scratch(s->pass), sum, n);
    if (!s->levels || !s->sums) return base_out_of_memory();
    TRY(access_index_begin(s->program, pass_scratch(s->pass), &s->index));
    return access_index_gather(&s->index, pass_scratch(s->pass), NULL);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    splitter s = {.pass = pass, .program = program};
    pass_claims_nothing(pass);
    TRY(begin(&s));
    if (s.inside < 2) return NULL;
    FOR_EACH_OP(op, program->blocks[0]) TRY(consider(&s, op));
    TRY(weft_pass_count_add(pass, "sums in two levels", (int64_t)s.count));
    if (!s.count) return NULL;
    TRY(make_rings(&s));
    for (size_t i = 0; i < s.count; i++) TRY(split(&s, &s.sums[i]));
    program->rank = s.rank;
    return weft_pass_did(pass, "%zu sums are made in two levels: in groups of %d ranks, then over %d groups", s.count,
                         s.sums[0].of->inside, s.sums[0].of->between);
}

const weft_pass pass_hierarchical_all_reduce = {.options = options,
                                                .noptions = sizeof options / sizeof *options,
                                                .run = run,
                                                .changes_meaning = "sums are those of rings of other ranks"};
