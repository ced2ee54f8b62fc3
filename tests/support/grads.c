#include "tests/support/grads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "passes/grad_sync.h"

enum { NRANKS = 4 };

/* Plain tests link this file too, so it has no test framework: a broken test ends here. */
static void must(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "grads: %s\n", what);
    abort();
}
static void must_succeed(weft_status status) {
    must(!status, weft_status_message(status));
}

void grads_create(grads *g) {
    grads_create_with(g, NULL);
}

void grads_create_with(grads *g, const weft_context_options *options) {
    *g = (grads){.dtype = WEFT_FP32, .dims = {4, 8}};
    must_succeed(weft_context_create(options, &g->context));
    must_succeed(weft_program_create(g->context, &g->p));
    g->b = weft_program_block(g->p, 0);
    must_succeed(weft_program_set_ring(g->p, 1, 4, (int64_t[]){0, 1, 2, 3}));
    must_succeed(weft_program_set_ring(g->p, 2, 4, (int64_t[]){0, 1, 2, 3}));
    must_succeed(weft_program_set_ring(g->p, 3, 2, (int64_t[]){0, 2}));
}

void grads_destroy(grads *g) {
    weft_program_destroy(g->p);
    weft_context_destroy(g->context);
}

weft_var *grads_var(grads *g, const char *n) {
    weft_var *v = weft_block_find_var(g->b, n);
    if (!v) must_succeed(weft_block_add_var(g->b, n, g->dtype, 2, g->dims, &v));
    return v;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

weft_op *grads_op(grads *g, const char *line) {
    char copy[512], *save = NULL, *inner = NULL;
    snprintf(copy, sizeof copy, "%s", line);
    weft_op *op = NULL;
    bool output = false;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        if (!op)
            must_succeed(weft_op_create(g->p, word, &op));
        else if (strcmp(word, "->") == 0)
            output = true;
        else {
            *equals = 0;
            for (char *n = strtok_r(equals + 1, ",", &inner); n; n = strtok_r(NULL, ",", &inner))
                must_succeed(output ? weft_op_add_output(op, word, grads_var(g, n))
                                    : weft_op_add_input(op, word, grads_var(g, n)));
        }
    }
    must_succeed(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    weft_block_insert_before(g->b, NULL, op);
    return op;
}

static weft_op *op_on(grads *g, const char *type, const char *n) {
    char line[256];
    snprintf(line, sizeof line, "%s X=%s -> Out=%s", type, n, n);
    return grads_op(g, line);
}

weft_op *grads_seed(grads *g, const char *n, double value) {
    char line[256];
    snprintf(line, sizeof line, "fill_constant -> Out=%s", n);
    weft_op *op = grads_op(g, line);
    must_succeed(weft_op_set_attr_float(op, "value", value));
    must_succeed(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD | WEFT_ROLE_LOSS));
    return op;
}

weft_op *grads_reduce(grads *g, const char *n, int64_t ring_id) {
    weft_op *op = op_on(g, "c_allreduce_sum", n);
    must_succeed(weft_op_set_attr_int(op, "ring_id", ring_id));
    must_succeed(weft_op_set_attr_bool(op, "use_calc_stream", true));
    must_succeed(weft_op_set_attr_string(op, "op_namescope", "/auto_parallel/data_parallel"));
    return op;
}

static void add_scale(grads *g, const char *n, double factor) {
    weft_op *op = op_on(g, "scale", n);
    must_succeed(weft_op_set_attr_float(op, "scale", factor));
    must_succeed(weft_op_set_attr_string(op, "op_namescope", "/auto_parallel/data_parallel"));
}

void grads_sync(grads *g, const char *n, int64_t ring_id, double factor) {
    grads_reduce(g, n, ring_id);
    add_scale(g, n, factor);
}

weft_op *grads_sgd(grads *g, const char *w, const char *n) {
    char line[256];
    snprintf(line, sizeof line, "sgd Param=%s Grad=%s LearningRate=lr -> ParamOut=%s", w, n, w);
    weft_var_set_persistable(grads_var(g, w), true, true);
    weft_var_set_persistable(grads_var(g, "lr"), true, false);
    weft_op *op = grads_op(g, line);
    must_succeed(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_OPTIMIZE));
    return op;
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

weft_report *grads_passes(grads *g, const char *yaml) {
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    weft_status status = weft_pass_list_parse(g->context, yaml, strlen(yaml), "test", &list);
    if (!status) status = weft_pass_list_run(list, g->p, &report);
    must_succeed(status);
    weft_pass_list_destroy(list);
    return report;
}

void grads_run(grads *g, const char *yaml) {
    weft_report_destroy(grads_passes(g, yaml));
}

size_t grads_count(const grads *g, const char *type) {
    size_t n = 0;
    FOR_EACH_OP(op, g->b) n += op_is(op, type);
    return n;
}

const char *grads_text(const grads *g, char *out, size_t nbytes) {
    size_t used = 0;
    out[0] = 0;
    FOR_EACH_OP(op, g->b) {
        const char *first = "";
        for (size_t i = 0; i < op_nslots(op, true) && !*first; i++)
            if (op_slot(op, true, i)->nargs) first = slot_var(op, op_slot(op, true, i), 0)->name->bytes;
        int n = snprintf(out + used, nbytes - used, "%s%s(%s)", used ? " " : "", op->type->bytes, first);
        used += (size_t)n;
        must(used < nbytes, "text does not fit");
    }
    return out;
}

bool grads_left(const weft_report *r, size_t pass_index, weft_reason reason, const char *message) {
    for (size_t i = 0; i < weft_report_nleft(r, pass_index); i++) {
        const char *said;
        if (weft_report_left(r, pass_index, i, &said) == reason && strstr(said, message)) return true;
    }
    return false;
}

/* --- imagined ranks ----------------------------------------------------------------------------------------------- */

/* One number for each rank and variable. A fused variable stands for its members, which hold the numbers. */
typedef struct world {
    const weft_program *p;
    double *values;         /* [var id * NRANKS + rank] */
    const weft_op **makers; /* by var id: the coalesce_tensor of a fused variable */
} world;

static double *value_of(world *w, const weft_var *v, int rank) {
    return &w->values[(size_t)v->id * NRANKS + (size_t)rank];
}

/* A fixed number for an edge of the program, other on every rank: stands for what the forward pass left. */
static double weight(const char *out, const char *in, int rank) {
    uint32_t h = base_hash(out, strlen(out)) * 31 + base_hash(in, strlen(in)) + (uint32_t)rank * 977;
    return 0.5 + (double)(h % 1000) / 1000.0;
}

static bool in_ring(const weft_program *p, const weft_op *op, int a, int b) {
    const ring *r = program_find_ring(p, op_ring(op));
    /* Ring 3 has another member list on odd ranks. */
    return !r || r->nranks == NRANKS || a % 2 == b % 2;
}

static void reduce_var(world *w, const weft_op *op, const weft_var *v, weft_reduce reduce) {
    double sums[NRANKS];
    for (int r = 0; r < NRANKS; r++) {
        int n = 0;
        sums[r] = 0;
        for (int q = 0; q < NRANKS; q++)
            if (in_ring(w->p, op, r, q)) sums[r] += *value_of(w, v, q), n++;
        if (reduce == WEFT_REDUCE_AVG) sums[r] /= n;
    }
    for (int r = 0; r < NRANKS; r++) *value_of(w, v, r) = sums[r];
}

static void scale_var(world *w, const weft_op *op, const weft_var *in, const weft_var *out) {
    for (int r = 0; r < NRANKS; r++)
        *value_of(w, out, r) = *value_of(w, in, r) * attr_float(op, "scale", 1) + attr_float(op, "bias", 0);
}

/* In place on all members of a fused variable. */
static void on_fused(world *w, const weft_op *op, const weft_op *maker) {
    const slot *members = op_find_slot(maker, true, "Output");
    weft_reduce reduce;
    for (size_t i = 0; i < members->nargs; i++) {
        const weft_var *v = slot_var(maker, members, i);
        if (op_is_all_reduce(op, &reduce))
            reduce_var(w, op, v, reduce);
        else if (op_is(op, "scale"))
            scale_var(w, op, v, v);
        else
            must(false, "this op cannot run on a fused variable");
    }
}

/* out = sum of weighted inputs: of those in gradient slots where there are any, else of all; plus 1 if it is not
 * linear. */
static double combine(world *w, const weft_op *op, const weft_var *out, int rank) {
    double sum = 0;
    bool is_grad = strstr(op->type->bytes, "_grad") != NULL;
    bool plain = op_is(op, "sum") || op_is(op, "elementwise_add") || op_is(op, "cast") || op_is(op, "assign");
    for (uint32_t i = 0; i < op_nslots(op, false); i++) {
        const slot *s = op_slot(op, false, i);
        if (is_grad && !strstr(s->name->bytes, "@GRAD")) continue;
        for (uint32_t k = 0; k < s->nargs; k++) {
            const weft_var *v = slot_var(op, s, k);
            sum += (plain ? 1 : weight(out->name->bytes, v->name->bytes, rank)) * *value_of(w, v, rank);
        }
    }
    return op_is(op, "custom") ? sum * sum + 1 : sum;
}

static void step_op(world *w, weft_op *op) {
    weft_reduce reduce;
    const weft_var *x = op_x(op), *out = op_out(op);
    if (op_has_effect(op, OP_NO_BYTES)) return;
    if (op_is(op, "coalesce_tensor")) {
        w->makers[weft_op_output(op, "FusedOutput", 0)->id] = op;
        return;
    }
    if (x && w->makers[x->id]) {
        on_fused(w, op, w->makers[x->id]);
        return;
    }
    if (op_is_all_reduce(op, &reduce)) {
        reduce_var(w, op, x, reduce);
        return;
    }
    if (op_is(op, "scale")) {
        scale_var(w, op, x, out);
        return;
    }
    double results[NRANKS][8];
    for (int r = 0; r < NRANKS; r++) {
        size_t i = 0;
        FOR_EACH_ARG(op, true, u) {
            const char *message = attr_string(op, "str_value", "");
            if (op_is(op, "fill_constant"))
                results[r][i++] = *message ? strtod(message, NULL) : attr_float(op, "value", 0);
            else if (op_is(op, "sgd"))
                results[r][i++] =
                    *value_of(w, use_var(op->program, u), r) - *value_of(w, weft_op_input(op, "Grad", 0), r);
            else
                results[r][i++] = combine(w, op, use_var(op->program, u), r);
        }
        must(i <= 8, "too many outputs");
    }
    for (int r = 0; r < NRANKS; r++) {
        size_t i = 0;
        FOR_EACH_ARG(op, true, u) * value_of(w, use_var(op->program, u), r) = results[r][i++];
    }
}

static world run_world(const weft_program *p) {
    world w = {.p = p};
    w.values = calloc(p->nall_vars * NRANKS, sizeof *w.values);
    w.makers = calloc(p->nall_vars, sizeof *w.makers);
    for (size_t i = 0; i < p->nall_vars; i++)
        for (int r = 0; r < NRANKS; r++) {
            const weft_var *v = program_var(p, i);
            w.values[i * NRANKS + (size_t)r] = weight(v->name->bytes, "start", v->persistable ? 0 : r);
        }
    for (int step = 0; step < 2; step++) {
        FOR_EACH_OP(op, p->blocks[0]) step_op(&w, op);
    }
    return w;
}

/* What leaves the program: parameters, and the values of variables named fetched*. */
static bool leaves(const weft_var *v) {
    return v->persistable || strncmp(v->name->bytes, "fetched", 7) == 0;
}

bool grads_same(const weft_program *a, const weft_program *b, char *out, size_t nbytes) {
    world x = run_world(a), y = run_world(b);
    bool same = true;
    for (size_t i = 0; i < a->nall_vars && same; i++) {
        const weft_var *v = program_var(a, i), *o = weft_block_find_var(b->blocks[0], v->name->bytes);
        for (int r = 0; r < NRANKS && leaves(v) && same; r++) {
            double p = *value_of(&x, v, r), q = o ? *value_of(&y, o, r) : NAN;
            same = fabs(p - q) <= 1e-6 * fmax(1, fabs(p));
            if (!same) snprintf(out, nbytes, "\"%s\" on rank %d: %.9g, then %.9g", v->name->bytes, r, p, q);
        }
    }
    free(x.values), free(x.makers), free(y.values), free(y.makers);
    return same;
}

/* --- explicit waits alone
 * --------------------------------------------------------------------------------------------- */

enum { MAX_STREAMS = 8 };

typedef struct clocks {
    size_t nops, nstreams;
    int *stream;                 /* by position */
    size_t (*seen)[MAX_STREAMS]; /* by position: how many ops of each stream are known to be done when it ends */
    size_t *rank_in_stream;      /* by position, from 1 */
    char names[MAX_STREAMS][64];
} clocks;

static int stream_number(clocks *c, const weft_op *op) {
    char of_ring[RING_STREAM_NBYTES];
    const char *n = op_stream(op, of_ring);
    if (!n) n = "";
    size_t i = 0;
    while (i < c->nstreams && strcmp(c->names[i], n) != 0) i++;
    if (i == c->nstreams) snprintf(c->names[c->nstreams++], 64, "%s", n);
    must(c->nstreams <= MAX_STREAMS, "too many streams");
    return (int)i;
}

static void merge_clock(size_t *into, const size_t *from) {
    for (int s = 0; s < MAX_STREAMS; s++)
        if (from[s] > into[s]) into[s] = from[s];
}

static void wait_for(clocks *c, const access_index *x, size_t i, const char *event) {
    for (size_t k = 0; k < i; k++) {
        const op_dist *d = access_op(x, k)->dist;
        if (d && d->event_to_record && strcmp(d->event_to_record, event) == 0) {
            merge_clock(c->seen[i], c->seen[k]);
            return;
        }
    }
    must(false, event);
}

static void run_clocks(clocks *c, const access_index *x) {
    size_t last[MAX_STREAMS] = {0}, count[MAX_STREAMS] = {0}; /* last: position + 1 */
    for (size_t i = 0; i < x->nops; i++) {
        int s = c->stream[i] = stream_number(c, access_op(x, i));
        if (last[s]) merge_clock(c->seen[i], c->seen[last[s] - 1]);
        const op_dist *d = access_op(x, i)->dist;
        for (size_t k = 0; d && k < op_dist_nwaits(d); k++) wait_for(c, x, i, d->waits->events[k]);
        c->seen[i][s] = c->rank_in_stream[i] = ++count[s];
        last[s] = i + 1;
    }
}

static bool is_ordered(const clocks *c, const access *a, const access *b) {
    return c->seen[b->position][c->stream[a->position]] >= c->rank_in_stream[a->position];
}

static bool check_class(const clocks *c, const access_index *x, const access *list, size_t n, char *out,
                        size_t nbytes) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            if ((list[i].flags | list[k].flags) & ACCESS_ALIAS) continue;
            if (!((list[i].flags | list[k].flags) & ACCESS_WRITE) || is_ordered(c, &list[i], &list[k])) continue;
            snprintf(out, nbytes, "%s #%u and %s #%u", access_op(x, list[i].position)->type->bytes, list[i].position,
                     access_op(x, list[k].position)->type->bytes, list[k].position);
            return false;
        }
    return true;
}

bool grads_in_order_safe(weft_program *p, char *out, size_t nbytes) {
    arena a;
    arena_init(&a, &p->context->allocator);
    access_index x;
    must_succeed(access_index_begin(p, &a, &x));
    must_succeed(access_index_gather(&x, &a, NULL));
    clocks c = {.nops = x.nops};
    c.stream = ARENA_ARRAY(&a, int, x.nops + 1);
    c.seen = arena_array(&a, x.nops + 1, sizeof *c.seen);
    c.rank_in_stream = ARENA_ARRAY(&a, size_t, x.nops + 1);
    run_clocks(&c, &x);
    bool safe = true;
    for (size_t i = 0; i < p->nall_vars && safe; i++)
        if (access_class(&x, program_var(p, i)) == i)
            safe = check_class(&c, &x, x.all + x.first[i], x.count[i], out, nbytes);
    arena_fini(&a);
    return safe;
}

/* --- equal names alone
 * -------------------------------------------------------------------------------------------------- */

typedef struct named_graph {
    size_t nops;
    weft_op **ops;
    bool *before; /* [a * nops + b]: a is ordered before b */
} named_graph;

static bool touches(const weft_op *op, bool output, const weft_var *v) {
    FOR_EACH_ARG(op, output, u) {
        if (u->var_id == v->id) return true;
    }
    return false;
}

/* An argument that both ops name and one of them writes. */
static bool share_a_name(const weft_op *a, const weft_op *b) {
    FOR_EACH_ARG(a, true, u) {
        if (touches(b, true, use_var(a->program, u)) || touches(b, false, use_var(a->program, u))) return true;
    }
    FOR_EACH_ARG(a, false, u) {
        if (touches(b, true, use_var(a->program, u))) return true;
    }
    return false;
}

static void close_graph(named_graph *n) {
    for (size_t b = 0; b < n->nops; b++)
        for (size_t a = b; a-- > 0;) {
            if (n->before[a * n->nops + b] || !share_a_name(n->ops[a], n->ops[b])) continue;
            n->before[a * n->nops + b] = true;
            for (size_t c = 0; c < a; c++)
                if (n->before[c * n->nops + a]) n->before[c * n->nops + b] = true;
        }
}

/* Whether two variables share bytes: members of a bucket share them with its fused variable only. */
static bool share_bytes(const weft_var *v, const weft_var *w, const weft_op *coalesce) {
    if (v == w) return true;
    const weft_var *fused = coalesce ? weft_op_output(coalesce, "FusedOutput", 0) : NULL;
    return fused && ((v == fused && touches(coalesce, true, w)) || (w == fused && touches(coalesce, true, v)));
}

static const weft_op *coalesce_naming(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        if (op_is(use_op(v->program, u), "coalesce_tensor")) return use_op(v->program, u);
    }
    return NULL;
}

static bool conflict(weft_op *a, weft_op *b) {
    if (op_has_effect(a, OP_NO_BYTES | OP_ALIASES) || op_has_effect(b, OP_NO_BYTES | OP_ALIASES)) return false;
    for (int x = 0; x < 2; x++) {
        for (int y = 0; y < 2; y++) {
            if (!x && !y) continue;
            FOR_EACH_ARG(a, x, u) {
                FOR_EACH_ARG(b, y, w) {
                    if (share_bytes(use_var(a->program, u), use_var(b->program, w),
                                    coalesce_naming(use_var(a->program, u))))
                        return true;
                }
            }
        }
    }
    return false;
}

bool grads_by_name_safe(weft_program *p, char *out, size_t nbytes) {
    named_graph n = {.nops = 0};
    n.ops = calloc(p->blocks[0]->nops + 1, sizeof *n.ops);
    FOR_EACH_OP(op, p->blocks[0]) n.ops[n.nops++] = op;
    n.before = calloc(n.nops * n.nops + 1, sizeof *n.before);
    close_graph(&n);
    bool safe = true;
    for (size_t b = 0; b < n.nops && safe; b++)
        for (size_t a = 0; a < b && safe; a++) {
            safe = n.before[a * n.nops + b] || !conflict(n.ops[a], n.ops[b]);
            if (!safe) snprintf(out, nbytes, "%s #%zu and %s #%zu", n.ops[a]->type->bytes, a, n.ops[b]->type->bytes, b);
        }
    free(n.ops), free(n.before);
    return safe;
}
