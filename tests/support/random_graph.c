#include "tests/support/random_graph.h"

#include <stdio.h>

#include "tests/support/must.h"

enum { MOST = 200, MOST_COALESCED = 3 };

typedef enum shape_index { MATRIX, FLAT, PART, TRANSPOSED, ONE, NSHAPES } shape_index;
static const struct {
    size_t ndim;
    int64_t dims[2];
} shapes[NSHAPES] = {
    [MATRIX] = {2, {4, 6}}, [FLAT] = {1, {24}}, [PART] = {1, {5}}, [TRANSPOSED] = {2, {6, 4}}, [ONE] = {1, {1}}};
static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP32, WEFT_FP64, WEFT_BF16};
enum { NDTYPES = 4, NKINDS = NDTYPES * NSHAPES, NWAYS = 6 };

/* A value that ops may use. Values of one group share bytes. */
typedef struct value {
    weft_var *var;
    int kind; /* its type: shapes[kind % NSHAPES], dtypes[kind / NSHAPES] */
    int group;
    bool usable;  /* false: a wait gave it another name, or a copy that is older than what it is a view of */
    bool strided; /* a view that is a copy in the end */
} value;

/* What is known of the bytes of a group. */
typedef struct group {
    bool pending; /* of a collective that is not complete: not to be touched */
    int nreaders; /* collectives that read it until their waits: not to be written */
} group;

typedef struct open_wait {
    weft_var *var;
    int kind, group, reads; /* reads: the group that the collective reads, -1: none but its own */
} open_wait;

typedef struct maker {
    const random_graph_options *options;
    weft_program *p;
    uint64_t counter;
    value values[MOST];
    group groups[MOST];
    open_wait waits[MOST];
    int count, ngroups, nvars, nwaits, nfetches;
    int usual_way; /* to scale */
} maker;

uint64_t random_number(uint64_t seed, uint64_t counter) {
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) ^ (counter + UINT64_C(0xD1B54A32D192ED03));
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static int roll(maker *m, int n) {
    return (int)(random_number(m->options->seed, m->counter++) % (unsigned)n);
}

static weft_var *new_var(maker *m, int kind, const char *stem) {
    char message[32];
    weft_var *v;
    int s = kind % NSHAPES;
    snprintf(message, sizeof message, "%s%d", stem, m->nvars++);
    must(weft_block_add_var(m->p->blocks[0], message, dtypes[kind / NSHAPES], shapes[s].ndim, shapes[s].dims, &v));
    return v;
}

static weft_op *add_op(maker *m, const char *type, const char *in, weft_var *x, const char *out, weft_var *y) {
    weft_op *op;
    must(weft_op_create(m->p, type, &op));
    must(weft_op_add_input(op, in, x));
    if (y) must(weft_op_add_output(op, out, y));
    must(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    weft_block_insert_before(m->p->blocks[0], NULL, op);
    return op;
}

/* There is room for several: see random_graph. */
static value *add_value(maker *m, weft_var *v, int kind, int of_group) {
    m->values[m->count] =
        (value){.var = v, .kind = kind, .group = of_group < 0 ? m->ngroups++ : of_group, .usable = true};
    return &m->values[m->count++];
}

/* A value of that kind (-1: any) that may be read now, rather a new one; NULL if none is found. */
static value *pick(maker *m, int kind) {
    for (int tries = 0; tries < 30; tries++) {
        int newest = m->count > 12 && roll(m, 2) ? m->count - 12 : 0;
        value *v = &m->values[newest + roll(m, m->count - newest)];
        if (v->usable && !m->groups[v->group].pending && (kind < 0 || v->kind == kind)) return v;
    }
    return NULL;
}

/* One that may be written too: then its copies are old. */
static bool may_write(const maker *m, const value *v) {
    return !v->strided && m->groups[v->group].nreaders == 0;
}
static void note_write(maker *m, int of_group) {
    for (int i = 0; i < m->count; i++)
        if (m->values[i].group == of_group && m->values[i].strided) m->values[i].usable = false;
}

/* --- ops without communication ------------------------------------------------------------------------------------ */

/* Mostly in the way of this graph: reduces of gradients that were scaled otherwise share no bucket. */
static weft_var *scaled(maker *m, weft_var *x, int kind, const char *stem) {
    weft_var *y = new_var(m, kind, stem);
    int way = roll(m, 5) ? m->usual_way : roll(m, NWAYS);
    double number = 2 + 2 * (way / 3);
    switch (way % 3) {
    case 0: must(weft_op_set_attr_float(add_op(m, "aten_div_scalar", "self", x, "out", y), "other", number)); break;
    case 1: must(weft_op_set_attr_float(add_op(m, "aten_mul_scalar", "self", x, "out", y), "other", 1 / number)); break;
    default: must(weft_op_set_attr_float(add_op(m, "scale", "X", x, "Out", y), "scale", 1 / number));
    }
    return y;
}

static void add_unary(maker *m) {
    value *x = pick(m, -1);
    if (!x) return;
    int kind = x->kind;
    weft_var *from = x->var, *y;
    if (roll(m, 3) == 0) {
        kind = roll(m, NDTYPES) * NSHAPES + kind % NSHAPES;
        y = new_var(m, kind, "v");
        weft_op *op = add_op(m, "cast", "X", from, "Out", y);
        must(weft_op_set_attr_int(op, "in_dtype", from->dtype));
        must(weft_op_set_attr_int(op, "out_dtype", y->dtype));
    } else if (roll(m, 2)) {
        y = scaled(m, from, kind, "v");
    } else {
        y = new_var(m, kind, "v");
        add_op(m, "relu", "X", from, "Out", y);
    }
    add_value(m, y, kind, -1);
}

static void add_binary(maker *m) {
    value *x = pick(m, -1), *z = x ? pick(m, x->kind) : NULL;
    if (!z) return;
    weft_var *y = new_var(m, x->kind, "v");
    weft_op *op = add_op(m, roll(m, 2) ? "elementwise_sub" : "elementwise_add", "X", x->var, "Out", y);
    must(weft_op_add_input(op, "Y", z->var));
    add_value(m, y, x->kind, -1);
}

static void add_norm(maker *m) {
    value *x = pick(m, -1);
    if (!x) return;
    int kind = x->kind / NSHAPES * NSHAPES + ONE;
    weft_var *y = new_var(m, kind, "n");
    add_op(m, "squared_l2_norm", "X", x->var, "Out", y);
    add_value(m, y, kind, -1);
}

static void add_view(maker *m) {
    value *x = pick(m, -1);
    int of = x ? x->kind % NSHAPES : ONE;
    if (!x || x->strided || of == PART || of == ONE) return;
    bool slices = of == FLAT && roll(m, 2), strides = of == MATRIX && roll(m, 4) == 0;
    int to = slices ? PART : strides ? TRANSPOSED : of == FLAT ? MATRIX : FLAT, kind = x->kind - of + to;
    weft_var *y = new_var(m, kind, "v");
    weft_op *op = add_op(m, slices ? "aten_slice" : strides ? "aten_t" : "aten_view", "self", x->var, "out", y);
    int64_t start = roll(m, 20);
    if (slices) {
        must(weft_op_set_attr_int(op, "start", start));
        must(weft_op_set_attr_int(op, "end", start + 5));
    } else if (!strides) {
        must(weft_op_set_attr_longs(op, "size", shapes[to].ndim, shapes[to].dims));
    }
    add_value(m, y, kind, x->group)->strided = strides;
}

/* Writes a value in place, often a persistable one, as gradients are stored. */
static void add_copy(maker *m) {
    value *x = pick(m, -1), *to = x ? pick(m, x->kind) : NULL;
    for (int i = 0; to && i < 5 && !to->var->persistable; i++) {
        value *other = pick(m, x->kind);
        if (other) to = other;
    }
    if (!to || !may_write(m, to) || to->group == x->group) return;
    weft_op *op = add_op(m, "aten_copy_", "self", to->var, "self_out", to->var);
    must(weft_op_add_input(op, "src", x->var));
    must(weft_op_add_output(op, "out", new_var(m, to->kind, "c")));
    note_write(m, to->group);
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

static int64_t random_ring(maker *m) {
    static const int64_t rings[] = {0, 0, 0, 0, 0, 0, 1, PARTIAL_RING};
    return rings[roll(m, 8)];
}

static void set_reduce(maker *m, weft_op *op, bool async) {
    static const weft_reduce kinds[] = {WEFT_REDUCE_SUM, WEFT_REDUCE_SUM, WEFT_REDUCE_SUM,
                                        WEFT_REDUCE_SUM, WEFT_REDUCE_MAX, WEFT_REDUCE_AVG};
    must(weft_op_set_attr_int(op, "ring_id", random_ring(m)));
    must(weft_op_set_attr_int(op, "reduce_type", kinds[roll(m, 6)]));
    if (async) must(weft_op_set_attr_bool(op, "async_op", true));
}

/* The value after its wait, divided now and then. */
static void add_result(maker *m, weft_var *v, int kind, int of_group) {
    add_value(m, v, kind, of_group);
    if (roll(m, 6) == 0) add_value(m, scaled(m, v, kind, "v"), kind, -1);
}

static void wait_for(maker *m, int i) {
    open_wait w = m->waits[i];
    m->waits[i] = m->waits[--m->nwaits];
    m->groups[w.group].pending = false;
    if (w.reads >= 0) m->groups[w.reads].nreaders--;
    weft_var *done = new_var(m, w.kind, "w");
    add_op(m, "wait_tensor", "X", w.var, "Out", done);
    add_result(m, done, w.kind, w.group);
}

/* The collective that stands last gives `v`, and reads another group until it is waited for. */
static void pending(maker *m, weft_var *v, int kind, int of_group, int reads) {
    if (m->options->without_waits) {
        add_result(m, v, kind, of_group);
        return;
    }
    m->groups[of_group].pending = true;
    if (reads >= 0) m->groups[reads].nreaders++;
    if (roll(m, 25) == 0) return; /* nobody waits */
    m->waits[m->nwaits++] = (open_wait){v, kind, of_group, reads};
    if (roll(m, 4)) wait_for(m, m->nwaits - 1);
}

/* As data parallelism puts it into Paddle's programs: reduce and scale in place. */
static void reduce_paddle(maker *m, const value *x) {
    static const char *const types[] = {"c_allreduce_sum", "c_allreduce_sum", "c_allreduce_max", "c_allreduce_avg"};
    const char *where = roll(m, 2) ? "/auto_parallel/data_parallel" : "/";
    weft_op *op = add_op(m, types[roll(m, 4)], "X", x->var, "Out", x->var);
    must(weft_op_set_attr_bool(op, "use_calc_stream", true));
    must(weft_op_set_attr_int(op, "ring_id", random_ring(m)));
    must(weft_op_set_attr_string(op, "op_namescope", where));
    note_write(m, x->group);
    if (roll(m, 2)) return;
    op = add_op(m, "scale", "X", x->var, "Out", x->var);
    must(weft_op_set_attr_float(op, "scale", 0.5));
    must(weft_op_set_attr_string(op, "op_namescope", where));
}

static void reduce_in_place(maker *m, value *x) {
    if (!may_write(m, x)) return;
    if (roll(m, 2)) {
        reduce_paddle(m, x);
        return;
    }
    int kind = x->kind, of_group = x->group;
    bool async = roll(m, 8) != 0;
    weft_var *v = x->var;
    weft_op *op = add_op(m, "all_reduce", "x", v, "out", v);
    set_reduce(m, op, async);
    note_write(m, of_group);
    if (!async) return;
    if (roll(m, 4)) {
        v = new_var(m, kind, "r");
        must(weft_op_add_output(op, "alias", v));
    }
    pending(m, v, kind, of_group, -1);
}

/* A gradient made for the reduce, or one that others read too (an input, a tied one). */
static const value *operand(maker *m, int kind) {
    value *x = pick(m, kind);
    if (!x || roll(m, 4) == 0) return x;
    weft_var *from = roll(m, 3) ? scaled(m, x->var, x->kind, "d") : new_var(m, x->kind, "d");
    if (from->nuses == 0) add_op(m, "relu", "X", x->var, "Out", from);
    return add_value(m, from, x->kind, -1);
}

static void add_reduce(maker *m) {
    if (roll(m, 4) == 0) {
        value *x = pick(m, -1);
        if (x) reduce_in_place(m, x);
        return;
    }
    const value *x = operand(m, -1);
    if (!x) return;
    int kind = x->kind, reads = x->group, own = m->ngroups++;
    bool async = roll(m, 8) != 0;
    weft_var *y = new_var(m, kind, "r");
    set_reduce(m, add_op(m, "all_reduce", "x", x->var, "out", y), async);
    if (async)
        pending(m, y, kind, own, reads);
    else
        add_result(m, y, kind, own);
}

static void add_coalesced(maker *m) {
    const value *xs[MOST_COALESCED];
    int n = 0, wanted = 1 + roll(m, MOST_COALESCED), reads[MOST_COALESCED], kinds[MOST_COALESCED];
    while (n < wanted && (xs[n] = operand(m, -1)) && xs[n]->var->dtype == xs[0]->var->dtype) n++;
    if (n == 0) return;
    weft_op *op;
    weft_var *ys[MOST_COALESCED];
    must(weft_op_create(m->p, "all_reduce_coalesced", &op));
    for (int i = 0; i < n; i++) {
        kinds[i] = xs[i]->kind;
        reads[i] = xs[i]->group;
        ys[i] = new_var(m, kinds[i], "r");
        must(weft_op_add_input(op, "x", xs[i]->var));
        must(weft_op_add_output(op, "out", ys[i]));
    }
    set_reduce(m, op, true);
    weft_block_insert_before(m->p->blocks[0], NULL, op);
    int first = m->ngroups;
    m->ngroups += n;
    for (int i = 0; i < n; i++) pending(m, ys[i], kinds[i], first + i, reads[i]);
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

/* By an op, or because the var says so. */
static void feed(maker *m, weft_var *v, int col) {
    weft_op *op;
    v->need_check_feed = col % 2;
    if (col % 2) return;
    must(weft_op_create(m->p, "feed", &op));
    must(weft_op_add_output(op, "Out", v));
    must(weft_op_set_attr_int(op, "col", col));
    weft_block_insert_before(m->p->blocks[0], NULL, op);
}

static void add_inputs(maker *m) {
    for (int kind = 0; kind < NKINDS; kind++) {
        if (kind % NSHAPES == TRANSPOSED) continue;
        for (int i = 0; i < 2; i++) {
            weft_var *v = new_var(m, kind, "in");
            if (i)
                weft_var_set_persistable(v, true, false);
            else
                feed(m, v, kind);
            add_value(m, v, kind, -1);
        }
    }
}

/* Fetched, or stored under a name that lives on. */
static void keep(maker *m, const value *v) {
    if (roll(m, 2)) {
        weft_op *op = add_op(m, "fetch", "X", v->var, "Out", NULL);
        must(weft_op_set_attr_int(op, "col", m->nfetches++));
        return;
    }
    weft_var *out = new_var(m, v->kind, "out");
    weft_var_set_persistable(out, true, false);
    add_op(m, "assign", "X", v->var, "Out", out);
}

static bool has_room(const maker *m) {
    enum { ROOM = 4 * MOST_COALESCED };
    return m->count + m->nwaits * 2 + ROOM < MOST && m->ngroups + m->nwaits * 2 + ROOM < MOST;
}

static void add_steps(maker *m, int nsteps) {
    static void (*const steps[])(maker *) = {add_unary,  add_unary,  add_binary, add_norm, add_view,     add_view,
                                             add_reduce, add_reduce, add_reduce, add_copy, add_coalesced};
    static const int often[] = {6, 7, 8}; /* a step of a backward pass is most often a gradient that is reduced */
    for (int i = 0; i < nsteps && has_room(m); i++) {
        m->counter = (uint64_t)(i + 1) << 16;
        steps[roll(m, 3) ? roll(m, sizeof steps / sizeof *steps) : often[roll(m, 3)]](m);
        if (m->nwaits && roll(m, 4) == 0) wait_for(m, roll(m, m->nwaits));
    }
}

weft_program *random_graph(weft_context *context, const random_graph_options *options, int *out_nsteps) {
    maker m = {.options = options};
    must(weft_program_create(context, &m.p));
    for (int64_t k = 0; k <= PARTIAL_RING; k++)
        must(weft_program_set_ring(m.p, k, (size_t)options->nranks, (const int64_t[]){0, 1, 2}));
    random_graph_set_rank(m.p, options->nranks, 0);
    *out_nsteps = 10 + roll(&m, 50);
    if (*out_nsteps > options->max_steps) *out_nsteps = options->max_steps;
    m.usual_way = roll(&m, NWAYS);
    add_inputs(&m);
    add_steps(&m, *out_nsteps);
    m.counter = 1000;
    while (m.nwaits) wait_for(&m, roll(&m, m.nwaits));
    for (int i = 0; i < m.count; i++) {
        const value *v = &m.values[i];
        if (v->usable && !m.groups[v->group].pending && !v->var->persistable && roll(&m, 2)) keep(&m, v);
    }
    return m.p;
}

void random_graph_set_rank(weft_program *p, int nranks, int rank) {
    if (nranks == 2)
        must(weft_program_set_ring(p, PARTIAL_RING, 1, (const int64_t[]){rank}));
    else if (rank < 2)
        must(weft_program_set_ring(p, PARTIAL_RING, 2, (const int64_t[]){0, 1}));
    else
        must(weft_program_set_ring(p, PARTIAL_RING, 1, (const int64_t[]){2}));
}
