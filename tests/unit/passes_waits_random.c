/* insert_comm_wait and schedule_comm_wait on random programs: views before and after collectives, in place and out of
 * place, lists, copies, several rings, fetches in between.
 *
 * An interpreter that knows no passes runs them on numbers that stand for bytes. A collective's result arrives at its
 * wait; until then any touch of its bytes, and any write of what it reads, is a race. The program as made is run with
 * collectives that arrive at once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "passes/pending.h"
#include "tests/support/grads.h"
#include "tests/support/must.h"

enum { NVARS = 10, MOST_VARS = 512, MOST_OPS = 60 };

static unsigned seed;

static int roll(int n) {
    return (int)((unsigned)rand_r(&seed) % (unsigned)n);
}

/* --- the interpreter ---------------------------------------------------------------------------------------------- */

typedef struct machine {
    uint64_t bytes[MOST_VARS];    /* by storage */
    uint64_t arriving[MOST_VARS]; /* by storage: what an unfinished collective will have written there; 0: none */
    int reads[MOST_VARS];         /* by storage: unfinished collectives that read it */
    int source[MOST_VARS];        /* by storage with an arriving result: what its collective reads */
    int storage[MOST_VARS];       /* by var id */
    uint64_t seen;                /* all fetches, in order */
    uint64_t launched[4];         /* by ring, in order */
    bool at_once, race;
} machine;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t z = a * 0x9E3779B97F4A7C15u ^ (b + 0xBF58476D1CE4E5B9u);
    z = (z ^ z >> 29) * 0x94D049BB133111EBu;
    return z ^ z >> 32;
}

static int at(const machine *m, const weft_var *v) {
    cr_assert_lt(v->id, MOST_VARS);
    return m->storage[v->id];
}

static uint64_t read(machine *m, const weft_var *v) {
    if (m->arriving[at(m, v)]) m->race = true;
    return m->bytes[at(m, v)];
}

static void write(machine *m, const weft_var *v, uint64_t value) {
    if (m->arriving[at(m, v)] || m->reads[at(m, v)]) m->race = true;
    m->bytes[at(m, v)] = value;
}

static void arrive(machine *m, int storage) {
    if (!m->arriving[storage]) return;
    m->bytes[storage] = m->arriving[storage];
    m->arriving[storage] = 0;
    m->reads[m->source[storage]]--;
}

static void launch(machine *m, const weft_op *op) {
    const slot *x = op_find_slot(op, false, "x"), *out = op_find_slot(op, true, "out");
    int64_t r = op_ring(op);
    for (size_t i = 0; i < x->nargs; i++) {
        uint64_t value = mix(read(m, slot_var(op, x, i)), 77);
        int from = at(m, slot_var(op, x, i)), to = at(m, slot_var(op, out, i));
        if (from != to || m->reads[to]) write(m, slot_var(op, out, i), 0);
        m->arriving[to] = value | 1;
        m->source[to] = from;
        m->reads[from]++;
        if (m->at_once) arrive(m, to);
        m->launched[r] = mix(m->launched[r], value);
    }
}

static void step(machine *m, weft_op *op) {
    const weft_var *x = op_x(op), *out = op_out(op);
    uint64_t value = base_hash(op->type->bytes, op->type->nbytes);
    if (op_is(op, "wait_tensor")) {
        m->storage[out->id] = at(m, x);
        arrive(m, at(m, x));
    } else if (op_is(op, "getitem")) {
        m->storage[out->id] = at(m, x);
    } else if (op_is(op, "aten_view")) {
        m->storage[out->id] = at(m, weft_op_input(op, "self", 0));
    } else if (op_is(op, "aten_copy_")) {
        const weft_var *self = weft_op_input(op, "self", 0);
        write(m, self, read(m, weft_op_input(op, "src", 0)));
        m->storage[out->id] = at(m, self);
    } else if (op_has_effect(op, OP_COLLECTIVE)) {
        launch(m, op);
    } else {
        FOR_EACH_ARG(op, false, u) value = mix(value, read(m, use_var(op->program, u)));
        FOR_EACH_ARG(op, true, u) write(m, use_var(op->program, u), mix(value, 5));
        if (op_is(op, "fetch")) m->seen = mix(m->seen, value);
    }
}

static void interpret(machine *m, const weft_program *p, bool at_once) {
    memset(m, 0, sizeof *m);
    m->at_once = at_once;
    for (size_t i = 0; i < p->nall_vars; i++) m->storage[i] = (int)i, m->bytes[i] = mix(i, 9) | 1;
    FOR_EACH_OP(op, p->blocks[0]) step(m, op);
    for (int i = 0; i < MOST_VARS; i++) arrive(m, i);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void use_ring(weft_op *op, int ring_id) {
    must(weft_op_set_attr_int(op, "ring_id", ring_id));
    must(weft_op_set_attr_bool(op, "async_op", true));
}

/* Names v0 .. v9 are made at the start and written again and again; n<k> are made once, as views or results. */
static void random_op(grads *g, int *nnew) {
    char line[160];
    int a = roll(NVARS), b = roll(NVARS), c = roll(NVARS), n = *nnew, old = n ? roll(n) : -1;
    char source[16];
    snprintf(source, sizeof source, old >= 0 && roll(2) ? "n%d" : "v%d", old >= 0 ? old : a);
    if (source[0] == 'v') snprintf(source, sizeof source, "v%d", a);
    switch (roll(9)) {
    case 0: snprintf(line, sizeof line, "aten_view self=%s -> out=n%d", source, (*nnew)++); break;
    case 1:
        snprintf(line, sizeof line, "aten_copy_ self=v%d src=%s -> out=n%d self_out=v%d", b, source, n, b), ++*nnew;
        break;
    case 2: snprintf(line, sizeof line, "all_reduce x=%s -> out=%s", source, source); break;
    case 3: snprintf(line, sizeof line, "all_reduce x=%s -> out=n%d", source, (*nnew)++); break;
    case 4:
        snprintf(line, sizeof line, "all_reduce_coalesced x=v%d,v%d -> out=n%d,n%d", a, (a + 1) % NVARS, n, n + 1),
            *nnew += 2;
        break;
    case 5: snprintf(line, sizeof line, "fetch X=%s", source); break;
    default: snprintf(line, sizeof line, "sum X=%s,v%d -> Out=v%d", source, b, c);
    }
    if (line[0] == 'f' && roll(3)) return;
    weft_op *op = grads_op(g, line);
    if (op_has_effect(op, OP_COLLECTIVE)) use_ring(op, 1 + roll(2));
}

static void make(grads *g, const weft_context_options *options) {
    char line[64];
    int nnew = 0;
    if (options)
        grads_create_with(g, options);
    else
        grads_create(g);
    for (int i = 0; i < NVARS; i++) {
        snprintf(line, sizeof line, "relu X=x%d -> Out=v%d", i % 3, i);
        grads_op(g, line);
    }
    for (int i = roll(MOST_OPS); i >= 0; i--) random_op(g, &nnew);
    for (int i = 0; i < NVARS; i++) {
        snprintf(line, sizeof line, "fetch X=v%d", i);
        grads_op(g, line);
    }
}

static void check(const grads *g, const machine *wanted, unsigned of, const char *after) {
    machine got;
    pending_check checked;
    size_t nproblems;
    interpret(&got, g->p, false);
    cr_assert(!got.race, "seed %u: a race after %s", of, after);
    cr_assert_eq(got.seen, wanted->seen, "seed %u: fetches differ after %s", of, after);
    cr_assert(memcmp(got.launched, wanted->launched, sizeof got.launched) == 0, "seed %u: collectives after %s", of,
              after);
    pending_check_init(&checked, g->context);
    must(check_pending_use(&checked, g->p, &nproblems));
    pending_check_fini(&checked);
    cr_assert_eq(nproblems, 0, "seed %u: %zu problems after %s", of, nproblems, after);
}

static void run_seed(unsigned of, int64_t *sunk) {
    grads g;
    machine wanted;
    char list[96];
    seed = of;
    make(&g, NULL);
    interpret(&wanted, g.p, true);
    grads_run(&g, "insert_comm_wait");
    check(&g, &wanted, of, "insert_comm_wait");
    int bound = roll(4) * 200;
    bool bounded = roll(2) == 0;
    snprintf(list, sizeof list, "schedule_comm_wait: {max_memory_growth_mb: %.17g}", bound / 1048576.0);
    weft_report *r = grads_passes(&g, bounded ? list : "schedule_comm_wait");
    check(&g, &wanted, of, bounded ? list : "schedule_comm_wait");
    if (bounded) cr_assert_leq(weft_report_count(r, 0, "bytes of peak memory added"), bound, "seed %u: %s", of, list);
    *sunk += weft_report_count(r, 0, "waits sunk") + weft_report_count(r, 0, "collectives raised");
    weft_report_destroy(r);
    grads_destroy(&g);
}

Test(passes_waits_random, waits_are_placed_without_a_race_and_results_stay) {
    int64_t moved = 0;
    for (unsigned i = 0; i < 400; i++) run_seed(i, &moved);
    cr_assert_gt(moved, 400, "programs in which nothing moves show nothing");
}

static void make_of(grads *out, const weft_context_options *options, unsigned of) {
    seed = of;
    make(out, options);
}

Test(passes_waits_random, without_memory_there_is_a_status_and_no_leak) {
    grads_run_without_memory(make_of, 7, "insert_comm_wait, schedule_comm_wait: {max_memory_growth_mb: 0}");
}
