/* fuse_random.c: random traced backward graphs through fuse_allreduce_buckets with random options, executed on two
 * ranks before and after: every kept value is the same to the bit. Graphs reuse values, take views, write in place,
 * reduce in and out of place, on two rings, by sum and maximum, in two element types, and wait early, late or never. A
 * plain main, because ranks are threads. */
#include <stdlib.h>
#include <string.h>

#include "program/ir.h"
#include "tests/support/plain.h"
#include "weft/executor.h"
#include "weft/pass.h"
#include "weft/plan.h"

enum { MOST = 160, NKEPT = 4, NRANKS = 2 };

/* A value that ops may use. Values of one group share bytes; those of a group with a promise that was not waited for
 * are left alone. */
typedef struct value {
    weft_var *var;
    int kind; /* its type: shapes[kind % NSHAPES], dtypes[kind / NSHAPES] */
    int group;
    bool usable; /* false: a wait gave it another name */
} value;

typedef struct maker {
    weft_program *p;
    unsigned seed;
    value values[MOST];
    int count, ngroups, nvars, noutputs;
    bool pending[MOST]; /* by group */
    bool locked[MOST];  /* by group: a collective reads it, until its wait */
    struct {
        weft_var *var;
        int kind, group, reads; /* reads: the group that it locks, -1: none */
    } waits[MOST];
    int nwaits;
} maker;

static const struct {
    size_t ndim;
    int64_t dims[2];
} shapes[] = {{2, {4, 6}}, {1, {24}}, {1, {5}}};
enum { NSHAPES = 3, NKINDS = 2 * NSHAPES };

static int roll(maker *m, int n) {
    return (int)((unsigned)rand_r(&m->seed) % (unsigned)n);
}

static weft_var *new_var(maker *m, int kind, const char *stem) {
    char n[32];
    weft_var *v;
    snprintf(n, sizeof n, "%s%d", stem, m->nvars++);
    must(weft_block_add_var(m->p->blocks[0], n, kind / NSHAPES ? WEFT_FP64 : WEFT_FP32, shapes[kind % NSHAPES].ndim,
                            shapes[kind % NSHAPES].dims, &v));
    return v;
}

static weft_op *add_op(maker *m, const char *type, const char *in, weft_var *x, const char *out, weft_var *y) {
    weft_op *op;
    must(weft_op_create(m->p, type, &op));
    must(weft_op_add_input(op, in, x));
    if (y) must(weft_op_add_output(op, out, y));
    weft_block_insert_before(m->p->blocks[0], NULL, op);
    return op;
}

static int add_value(maker *m, weft_var *v, int kind, int group) {
    if (m->count == MOST) return -1;
    m->values[m->count] = (value){v, kind, group < 0 ? m->ngroups++ : group, true};
    return m->count++;
}

/* A value of that kind (-1: any) that may be read now. */
static value *pick(maker *m, int kind) {
    for (int tries = 0; tries < 30; tries++) {
        value *v = &m->values[roll(m, m->count)];
        if (v->usable && !m->pending[v->group] && (kind < 0 || v->kind == kind)) return v;
    }
    return NULL;
}

static void add_unary(maker *m) {
    value *x = pick(m, -1);
    if (!x) return;
    weft_var *y = new_var(m, x->kind, "v");
    if (roll(m, 2))
        must(weft_op_set_attr_float(add_op(m, "aten_div_scalar", "self", x->var, "out", y), "other", 1 << roll(m, 3)));
    else
        add_op(m, "relu", "X", x->var, "Out", y);
    add_value(m, y, x->kind, -1);
}

static void add_binary(maker *m) {
    value *x = pick(m, -1), *z = x ? pick(m, x->kind) : NULL;
    if (!z) return;
    weft_var *y = new_var(m, x->kind, "v");
    must(weft_op_add_input(add_op(m, "elementwise_sub", "X", x->var, "Out", y), "Y", z->var));
    add_value(m, y, x->kind, -1);
}

static void add_view(maker *m) {
    value *x = pick(m, -1);
    if (!x || x->kind % NSHAPES == 2) return;
    int kind = x->kind / NSHAPES * NSHAPES + !(x->kind % NSHAPES);
    weft_var *y = new_var(m, kind, "v");
    weft_op *op = add_op(m, "aten_view", "self", x->var, "out", y);
    must(weft_op_set_attr_longs(op, "size", shapes[kind % NSHAPES].ndim, shapes[kind % NSHAPES].dims));
    add_value(m, y, kind, x->group);
}

/* Writes a value in place: not one that a collective still reads. */
static void add_copy(maker *m) {
    value *x = pick(m, -1), *to = x ? pick(m, x->kind) : NULL;
    if (!to || m->locked[to->group] || to->group == x->group) return;
    weft_op *op = add_op(m, "aten_copy_", "self", to->var, "self_out", to->var);
    must(weft_op_add_input(op, "src", x->var));
    must(weft_op_add_output(op, "out", new_var(m, to->kind, "c")));
}

static void wait_for(maker *m, int i) {
    weft_var *done = new_var(m, m->waits[i].kind, "w");
    add_op(m, "wait_tensor", "X", m->waits[i].var, "Out", done);
    m->pending[m->waits[i].group] = false;
    if (m->waits[i].reads >= 0) m->locked[m->waits[i].reads] = false;
    add_value(m, done, m->waits[i].kind, m->waits[i].group);
    m->waits[i] = m->waits[--m->nwaits];
}

static void set_reduce(maker *m, weft_op *op, bool async) {
    must(weft_op_set_attr_int(op, "ring_id", roll(m, 6) == 0));
    must(weft_op_set_attr_int(op, "reduce_type", roll(m, 6) == 0 ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM));
    if (async) must(weft_op_set_attr_bool(op, "async_op", true));
}

static void promise(maker *m, weft_var *v, int kind, int group, int reads) {
    m->pending[group] = true;
    if (reads >= 0) m->locked[reads] = true;
    if (!roll(m, 30)) return; /* nobody waits */
    m->waits[m->nwaits].var = v;
    m->waits[m->nwaits].kind = kind;
    m->waits[m->nwaits].group = group;
    m->waits[m->nwaits++].reads = reads;
    if (roll(m, 4)) wait_for(m, m->nwaits - 1);
}

static void reduce_in_place(maker *m, value *x) {
    if (roll(m, 2)) {
        weft_op *op = add_op(m, "c_allreduce_sum", "X", x->var, "Out", x->var);
        must(weft_op_set_attr_bool(op, "use_calc_stream", true));
        must(weft_op_set_attr_int(op, "ring_id", roll(m, 6) == 0));
        return;
    }
    weft_var *alias = new_var(m, x->kind, "r");
    weft_op *op = add_op(m, "all_reduce", "x", x->var, "out", x->var);
    must(weft_op_add_output(op, "alias", alias));
    set_reduce(m, op, true);
    promise(m, alias, x->kind, x->group, -1);
}

static void add_reduce(maker *m) {
    value *x = pick(m, -1);
    if (!x || m->locked[x->group]) return;
    int kind = x->kind;
    weft_var *from = x->var;
    if (!roll(m, 5)) {
        reduce_in_place(m, x);
        return;
    }
    if (roll(m, 4)) {
        from = new_var(m, kind, "d");
        must(weft_op_set_attr_float(add_op(m, "aten_div_scalar", "self", x->var, "out", from), "other", 2));
        int at = add_value(m, from, kind, -1);
        if (at < 0) return;
        x = &m->values[at];
    }
    weft_var *y = new_var(m, kind, "r");
    int at = add_value(m, y, kind, -1);
    if (at < 0) return;
    m->values[at].usable = false;
    set_reduce(m, add_op(m, "all_reduce", "x", from, "out", y), true);
    promise(m, y, kind, m->values[at].group, x->group);
}

static void keep(maker *m, const value *v) {
    weft_var *out = new_var(m, v->kind, "out");
    weft_var_set_persistable(out, true, false);
    add_op(m, "assign", "X", v->var, "Out", out);
}

static void make_program(maker *m, weft_context *context, unsigned seed) {
    *m = (maker){.seed = seed};
    must(weft_program_create(context, &m->p));
    for (int k = 0; k < 2; k++) must(weft_program_set_ring(m->p, k, NRANKS, (int64_t[]){0, 1}));
    for (int i = 0; i < NKINDS * 2; i++) {
        weft_var *v = new_var(m, i % NKINDS, "in");
        weft_var_set_persistable(v, true, false);
        add_value(m, v, i % NKINDS, -1);
    }
    int nsteps = 10 + roll(m, 50);
    for (int i = 0; i < nsteps && m->count + 4 < MOST && m->nwaits + 1 < MOST; i++) {
        static void (*const steps[])(maker *) = {add_unary,  add_unary,  add_reduce, add_reduce, add_reduce,
                                                 add_reduce, add_binary, add_view,   add_copy};
        steps[roll(m, 9)](m);
        if (m->nwaits && !roll(m, 3)) wait_for(m, roll(m, m->nwaits));
    }
    while (m->nwaits && m->count < MOST) wait_for(m, 0);
    for (int i = 0; i < m->count; i++)
        if (m->values[i].usable && !m->pending[m->values[i].group] && roll(m, 2)) keep(m, &m->values[i]);
}

/* --- running --------------------------------------------------------------------------------------------------------
 */

static void set_inputs(weft_executor *x, const weft_program *p) {
    for (int r = 0; r < NRANKS; r++) {
        for (size_t i = 0; i < p->nall_vars; i++) {
            const weft_var *v = p->all_vars[i];
            double f64[24];
            float f32[24];
            size_t n = 1;
            if (!v->persistable) continue;
            for (size_t k = 0; k < v->ndim; k++) n *= (size_t)v->dims[k];
            for (size_t k = 0; k < n; k++)
                f32[k] = (float)(f64[k] = (double)((i * 7 + k * 13 + (size_t)r * 29) % 101) / 37 - 1);
            weft_tensor t = {
                .dtype = (weft_dtype)v->dtype, .ndim = v->ndim, .data = v->dtype == WEFT_FP32 ? (void *)f32 : f64};
            memcpy(t.dims, v->dims, v->ndim * sizeof *v->dims);
            t.nbytes = n * weft_dtype_nbytes(t.dtype);
            must(weft_executor_set(x, r, v->name->bytes, &t));
        }
    }
}

static weft_executor *execute(weft_context *context, const weft_program *p, weft_plan **plan) {
    weft_executor *x = NULL;
    must(weft_plan_create(p, NULL, plan));
    must(weft_executor_create(context, (const weft_plan *const *)plan, 1, NRANKS, NULL, &x));
    set_inputs(x, p);
    must(weft_executor_run(x));
    return x;
}

static const char *first_difference(const weft_program *p, const weft_executor *a, const weft_executor *b) {
    for (int r = 0; r < NRANKS; r++) {
        for (size_t i = 0; i < p->nall_vars; i++) {
            weft_tensor s, t;
            const weft_var *v = p->all_vars[i];
            if (!v->persistable) continue;
            must(weft_executor_get(a, r, v->name->bytes, &s));
            must(weft_executor_get(b, r, v->name->bytes, &t));
            if (s.nbytes != t.nbytes || memcmp(s.data, t.data, s.nbytes) != 0) return v->name->bytes;
        }
    }
    return NULL;
}

static void options_of(maker *m, char *out, size_t nbytes) {
    static const char *const modes[] = {"concat", "coalesced", "in_place"};
    static const char *const sizes[] = {"0.0001", "0.0003", "0.0006", "25"};
    snprintf(out, nbytes,
             "fuse_allreduce_buckets: {mode: %s, bucket_mb: %s, first_bucket_mb: %s, last_bucket_mb: %s, limit: %s}",
             modes[roll(m, 3)], sizes[roll(m, 4)], sizes[roll(m, 4)], roll(m, 2) ? "0" : sizes[roll(m, 2)],
             roll(m, 4) ? "flush" : "cap");
}

static void one_case(unsigned seed, size_t *nbuckets) {
    weft_context *context;
    weft_program *before;
    weft_pass_list *list;
    weft_report *report;
    weft_plan *plans[2];
    maker m;
    char list_text[200];
    must(weft_context_create(NULL, &context));
    make_program(&m, context, seed);
    options_of(&m, list_text, sizeof list_text);
    must(weft_program_clone(m.p, &before));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, m.p, &report));
    *nbuckets += (size_t)weft_report_count(report, 0, "buckets");
    weft_executor *a = execute(context, before, &plans[0]), *b = execute(context, m.p, &plans[1]);
    const char *differs = first_difference(before, a, b);
    check(!differs, "seed %u, %s: \"%s\" differs", seed, list_text, differs);
    weft_executor_destroy(a);
    weft_executor_destroy(b);
    weft_plan_destroy(plans[0]);
    weft_plan_destroy(plans[1]);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(before);
    weft_program_destroy(m.p);
    weft_context_destroy(context);
}

int main(int argc, char **argv) {
    unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, count = getenv("WEFT_LONG_TESTS") ? 5000 : 100;
    size_t nbuckets = 0;
    if (argc > 2) count = (unsigned)atoi(argv[2]);
    for (unsigned seed = first; seed < first + count; seed++) one_case(seed, &nbuckets);
    check(nbuckets > count / 4, "only %zu buckets in %u programs", nbuckets, count);
    return report_checks();
}
