/* proof_search.c: random programs of two or three ranks, judged by weft_verify and by a search over all states. The
 * abstract machine that is searched shares nothing with weft_verify: equal verdicts, and equal ops. And their plans in
 * order race where they do: closures over all pairs of the program and of the plan are compared
 * (tests/support/order.h).
 *
 *     proof_search [FIRST_SEED [COUNT]]     of a failing case the programs are printed
 */
#include <stdlib.h>
#include <string.h>

#include "program/ir.h"
#include "tests/support/abstract_machine.h"
#include "tests/support/draw.h"
#include "tests/support/order.h"
#include "tests/support/plain.h"
#include "weft/verify.h"

enum { MOST_STATES = 2000 };

typedef struct random_case {
    uint64_t seed, state;
    bool is_busy; /* with collectives */
    weft_context *context;
    toy_world world;
    int max_in_flight;
    int first_like[TOY_RANKS]; /* the first rank with the same program: findings are about that one */
    weft_program *programs[TOY_RANKS];
    weft_findings *found;
    toy_outcome outcome, limited;
    char why[300]; /* what is wrong; "" if nothing is */
} random_case;

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static int draw(random_case *c, int below) {
    return (int)draw_below(&c->state, (uint64_t)below);
}

/* Vars 0 to 3 are of one size, 4 and 5 half of it, 6 twice. */
static int draw_var(random_case *c) {
    static const int vars[] = {0, 0, 1, 1, 2, 3, 4, 5, 6, 6};
    return vars[draw(c, 10)];
}

static int draw_like(random_case *c, int var) {
    return var < 4 ? draw(c, 4) : var < 6 ? 4 + draw(c, 2) : 6;
}

static toy_kind draw_kind(random_case *c) {
    static const toy_kind kinds[] = {
        TOY_SCALE,        TOY_SCALE,     TOY_SCALE,     TOY_SCALE,      TOY_ADD,          TOY_REDUCE,
        TOY_REDUCE,       TOY_REDUCE,    TOY_REDUCE,    TOY_COALESCE,   TOY_COALESCE,     TOY_COALESCE_COPY,
        TOY_COALESCE_SET, TOY_SHARE,     TOY_NOP,       TOY_BROADCAST,  TOY_ASYNC_REDUCE, TOY_ASYNC_REDUCE,
        TOY_WAIT_COMPUTE, TOY_WAIT_COMM, TOY_WAIT_COMM, TOY_WAIT_VALUE, TOY_WAIT_VALUE,   TOY_SYNC,
        TOY_FETCH,        TOY_BARRIER};
    return kinds[draw(c, (int)(sizeof kinds / sizeof *kinds))];
}

static bool communicates(const toy_op *o) {
    return o->kind == TOY_REDUCE || o->kind == TOY_BROADCAST || o->kind == TOY_ASYNC_REDUCE || o->kind == TOY_BARRIER;
}

static toy_op draw_op(random_case *c) {
    toy_op o = {.kind = c->is_busy && draw(c, 2) ? TOY_REDUCE : draw_kind(c)};
    o.in[0] = draw_var(c);
    o.in[1] = draw_var(c);
    o.out = draw(c, 2) ? o.in[0] : draw_like(c, o.in[0]);
    o.ring = draw(c, TOY_RINGS);
    o.on_ring = draw(c, 2);
    o.stream = draw(c, 2) ? draw(c, TOY_STREAMS) : TOY_NONE;
    o.record = draw(c, 3) ? TOY_NONE : draw(c, TOY_EVENTS);
    for (int i = 0; i < 2; i++) o.wait[i] = draw(c, 4) ? TOY_NONE : draw(c, TOY_EVENTS);
    if (o.kind == TOY_BROADCAST) o.out = o.in[0];
    if (o.kind == TOY_ASYNC_REDUCE || o.kind == TOY_WAIT_COMM || o.kind == TOY_WAIT_COMPUTE) o.stream = TOY_NONE;
    if (o.kind == TOY_WAIT_COMM || o.kind == TOY_WAIT_COMPUTE) o.record = o.wait[0] = o.wait[1] = TOY_NONE;
    if (o.kind < TOY_COALESCE || o.kind > TOY_COALESCE_SET) return o;
    bool halves = draw(c, 2);
    o.in[0] = halves ? 4 + draw(c, 2) : draw(c, 4);
    o.in[1] = halves ? 9 - o.in[0] : (o.in[0] + 1 + draw(c, 3)) % 4;
    o.out = halves ? draw(c, 4) : 6;
    return o;
}

/* A rank that is not in a ring does something else there. */
static void leave_rings(toy_world *w, int rank) {
    for (int i = 0; i < w->ranks[rank].nops; i++) {
        toy_op *o = &w->ranks[rank].ops[i];
        if (communicates(o) && !(w->members[o->ring] >> rank & 1)) o->kind = TOY_SCALE;
    }
}

/* Nobody waits for an event that nobody records. */
static void forget_events(toy_program *p) {
    unsigned recorded = 0;
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].record != TOY_NONE) recorded |= 1u << p->ops[i].record;
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < 2; k++)
            if (p->ops[i].wait[k] != TOY_NONE && !(recorded >> p->ops[i].wait[k] & 1)) p->ops[i].wait[k] = TOY_NONE;
}

static void change(random_case *c, toy_program *p) {
    int i = draw(c, p->nops);
    toy_op kept = p->ops[i];
    switch (draw(c, 8)) {
    case 0: p->ops[i] = draw_op(c); return;
    case 1: p->ops[i].stream = kept.stream == TOY_NONE ? TOY_NONE : draw(c, TOY_STREAMS); return;
    case 2: p->ops[i].wait[0] = TOY_NONE; return;
    case 3:
        memmove(p->ops + i, p->ops + i + 1, (size_t)(p->nops - i - 1) * sizeof *p->ops);
        p->nops--;
        memset(p->ops + p->nops, 0, sizeof *p->ops);
        return;
    default: { /* exchanged with a later one */
        int k = i + draw(c, p->nops - i);
        p->ops[i] = p->ops[k];
        p->ops[k] = kept;
    }
    }
}

static void draw_world(random_case *c) {
    toy_world *w = &c->world;
    c->is_busy = draw(c, 4) == 0;
    w->nranks = 2 + draw(c, 2);
    w->members[0] = (1u << w->nranks) - 1;
    static const uint32_t pairs[] = {3, 5, 6, 7};
    w->members[1] = w->nranks == 2 ? 3 : pairs[draw(c, 4)];
    w->ranks[0].nops = 2 + draw(c, TOY_OPS - 1);
    for (int i = 0; i < w->ranks[0].nops; i++) w->ranks[0].ops[i] = draw_op(c);
    for (int r = 1; r < w->nranks; r++) {
        w->ranks[r] = w->ranks[0];
        for (int k = draw(c, 3); k > 0; k--) change(c, &w->ranks[r]);
    }
    for (int r = 0; r < w->nranks; r++) leave_rings(w, r), forget_events(&w->ranks[r]);
    c->max_in_flight = c->is_busy ? 1 + draw(c, 2) : draw(c, 3);
}

/* --- as programs of Weft ------------------------------------------------------------------------------------------ */

static const char *type_of(const toy_op *o) {
    static const char *const types[TOY_KINDS] = {"scale",
                                                 "elementwise_add",
                                                 "coalesce_tensor",
                                                 "coalesce_tensor",
                                                 "coalesce_tensor",
                                                 "share_data",
                                                 "nop",
                                                 "c_allreduce_sum",
                                                 "c_broadcast",
                                                 "all_reduce",
                                                 "barrier",
                                                 "c_wait_compute",
                                                 "c_wait_comm",
                                                 "wait_tensor",
                                                 "c_sync_comm_stream",
                                                 "fetch"};
    return types[o->kind];
}

static void add_args(weft_op *op, const toy_op *o, weft_var *const *vars) {
    bool small = o->kind == TOY_ASYNC_REDUCE;
    if (o->kind >= TOY_COALESCE && o->kind <= TOY_COALESCE_SET) {
        for (int i = 0; i < 2; i++) {
            must(weft_op_add_input(op, "Input", vars[o->in[i]]));
            must(weft_op_add_output(op, "Output", vars[o->in[i]]));
        }
        must(weft_op_add_output(op, "FusedOutput", vars[o->out]));
        return;
    }
    if (o->kind == TOY_WAIT_COMPUTE || o->kind == TOY_WAIT_COMM || o->kind == TOY_SYNC || o->kind == TOY_BARRIER)
        return;
    must(weft_op_add_input(op, small ? "x" : "X", vars[o->in[0]]));
    if (o->kind == TOY_ADD) must(weft_op_add_input(op, "Y", vars[o->in[1]]));
    if (o->kind != TOY_FETCH) must(weft_op_add_output(op, small ? "out" : "Out", vars[o->out]));
}

static void add_attrs(weft_op *op, const toy_op *o) {
    if (o->kind == TOY_COALESCE_COPY) must(weft_op_set_attr_bool(op, "copy_data", true));
    if (o->kind == TOY_COALESCE_SET) must(weft_op_set_attr_bool(op, "set_constant", true));
    if (o->kind >= TOY_COALESCE && o->kind <= TOY_COALESCE_SET) {
        must(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
        must(weft_op_set_attr_bool(op, "use_align", false));
    }
    if (communicates(o) || o->kind == TOY_WAIT_COMPUTE || o->kind == TOY_WAIT_COMM)
        must(weft_op_set_attr_int(op, "ring_id", o->ring));
    if (o->kind == TOY_REDUCE) must(weft_op_set_attr_bool(op, "use_calc_stream", !o->on_ring));
    if (o->kind == TOY_BROADCAST) must(weft_op_set_attr_int(op, "root", o->root));
    if (o->kind == TOY_ASYNC_REDUCE) must(weft_op_set_attr_bool(op, "async_op", true));
}

static const char *event_name(int event) {
    static const char *const names[TOY_EVENTS] = {"e0", "e1", "e2", "e3"};
    return names[event];
}

static void add_dist(weft_op *op, const toy_op *o, arena *a) {
    static const char *const streams[TOY_STREAMS] = {"s", "t"};
    op_dist *d;
    must(op_dist_get(op, &d));
    if (o->stream != TOY_NONE) d->execution_stream = arena_string(a, streams[o->stream], 1);
    if (o->record != TOY_NONE) d->event_to_record = arena_string(a, event_name(o->record), 2);
    const char *waits[2];
    size_t nwaits = 0;
    for (int i = 0; i < 2; i++)
        if (o->wait[i] != TOY_NONE) waits[nwaits++] = event_name(o->wait[i]);
    must(op_dist_set_waits(op->program, d, waits, nwaits));
}

static weft_program *make_program(random_case *c, const toy_program *toy) {
    static const char *const names[TOY_VARS] = {"v0", "v1", "v2", "v3", "c0", "c1", "f"};
    weft_var *vars[TOY_VARS];
    weft_program *p;
    must(weft_program_create(c->context, &p));
    weft_block *block = weft_program_block(p, 0);
    for (int i = 0; i < TOY_RINGS; i++) {
        int64_t members[TOY_RANKS];
        size_t n = 0;
        for (int r = 0; r < c->world.nranks; r++)
            if (c->world.members[i] >> r & 1) members[n++] = r;
        must(weft_program_set_ring(p, i, n, members));
    }
    for (int v = 0; v < TOY_VARS; v++)
        must(weft_block_add_var(block, names[v], WEFT_FP32, 1, (int64_t[]){toy_nbytes(v) / 4}, &vars[v]));
    for (int i = 0; i < toy->nops; i++) {
        weft_op *op;
        must(weft_op_create(p, type_of(&toy->ops[i]), &op));
        add_args(op, &toy->ops[i], vars);
        add_attrs(op, &toy->ops[i]);
        add_dist(op, &toy->ops[i], &p->arena);
        weft_block_insert_before(block, NULL, op);
    }
    return p;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

WEFT_PRINTF(2, 3)
static void blame(random_case *c, const char *format, ...) {
    va_list args;
    if (*c->why) return;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
}

static size_t count_of(const random_case *c, weft_verdict verdict) {
    size_t n = 0;
    for (size_t i = 0; i < weft_findings_count(c->found); i++) n += weft_finding_at(c->found, i)->verdict == verdict;
    return n;
}

/* Each race that is reported is one on a rank of that program, and each op that overtakes an earlier one is in one. */
static void compare_races(random_case *c) {
    for (int rank = 0; rank < c->world.nranks; rank++) {
        uint16_t races[TOY_OPS] = {0}, reported = 0, started = 0;
        for (int r = rank; r < c->world.nranks; r++) {
            if (c->first_like[r] != rank) continue;
            for (int i = 0; i < TOY_OPS; i++) races[i] |= c->outcome.races[r][i];
            started |= c->outcome.started[r];
        }
        for (size_t i = 0; i < weft_findings_count(c->found); i++) {
            const weft_finding *f = weft_finding_at(c->found, i);
            if (f->verdict != WEFT_VERDICT_RACE || f->ops[0].rank != rank) continue;
            int64_t x = f->ops[0].index, y = f->ops[1].index;
            bool is_race = (races[y] >> x & 1) || (races[x] >> y & 1), is_reached = started >> y & 1;
            if (!is_race && is_reached)
                blame(c, "no execution has the race of #%d and #%d on rank %d", (int)x, (int)y, rank);
            reported |= (uint16_t)(1u << y | 1u << x);
        }
        for (int i = 0; i < TOY_OPS; i++)
            if (races[i] && !(reported >> i & 1))
                blame(c, "the race of #%d with one of %#x on rank %d is not reported", i, races[i], rank);
    }
}

/* Ops whose instructions touch the same bytes unordered: bit y of [x], x the smaller. */
static void list_plan_races(const weft_plan *plan, uint16_t *out) {
    order_verdict v;
    order_of_plan(plan, &v);
    for (size_t i = 0; i < v.npairs; i++) {
        int x = plan->instrs[v.pairs[i].earlier].op_index, y = plan->instrs[v.pairs[i].later].op_index;
        out[x < y ? x : y] |= (uint16_t)(1u << (x < y ? y : x));
    }
    order_free(&v);
}

/* Collectives of a ring follow one another in a plan. */
static bool has_ring_order(const weft_plan *plan) {
    for (size_t i = 0; i < plan->ninstrs; i++)
        for (size_t k = 0; k < i && plan->instrs[i].ring_id >= 0; k++)
            if (plan->instrs[k].ring_id == plan->instrs[i].ring_id && plan->instrs[k].stream != plan->instrs[i].stream)
                return true;
    return false;
}

/* Whether a name gets other bytes on the way: in a plan they are those from the start. */
static bool binds_names(const toy_program *toy) {
    bool binds = false;
    for (int i = 0; i < toy->nops; i++)
        binds |=
            (toy->ops[i].kind >= TOY_COALESCE && toy->ops[i].kind <= TOY_SHARE) || toy->ops[i].kind == TOY_WAIT_VALUE;
    return binds;
}

static const weft_op *op_at(const weft_program *p, int index) {
    const weft_op *op = p->blocks[0]->first;
    for (; index > 0; index--) op = op->next;
    return op;
}

/* Whether one writes what the other names. */
static bool conflict_by_name(const weft_op *a, const weft_op *b) {
    for (int side = 1; side < 4; side++) {
        FOR_EACH_ARG(a, side & 1, u) {
            FOR_EACH_ARG(b, side >> 1, w) {
                if (u->var_id == w->var_id) return true;
            }
        }
    }
    return false;
}

/* Of the ops in `set`, those that conflict with op `x` by a name. The others meet it in memory alone, which the plan
 * gave to one value after another as their own ops allow: where those race, what comes next may too. */
static uint16_t conflicting_names(const weft_program *p, int x, uint16_t set) {
    for (int y = 0; y < TOY_OPS; y++)
        if (set >> y & 1 && !conflict_by_name(op_at(p, x), op_at(p, y))) set &= (uint16_t) ~(1u << y);
    return set;
}

static void compare_pairs(random_case *c, int rank, const weft_plan *plan) {
    uint16_t planned[TOY_OPS] = {0}, stated[TOY_OPS] = {0}, present = 0;
    order_verdict v;
    list_plan_races(plan, planned);
    for (size_t i = 0; i < plan->ninstrs; i++) present |= (uint16_t)(1u << plan->instrs[i].op_index);
    order_of_program(c->programs[rank], &v);
    for (size_t i = 0; i < v.npairs; i++) stated[v.pairs[i].earlier] |= (uint16_t)(1u << v.pairs[i].later);
    bool is_racy = v.npairs > 0;
    order_free(&v);
    for (int x = 0; x < c->world.ranks[rank].nops; x++) {
        uint16_t only_in_plan = planned[x] & (uint16_t)~stated[x], only_in_program = stated[x] & (uint16_t)~planned[x];
        only_in_program &= present >> x & 1 ? present : 0;
        if (is_racy) only_in_plan = conflicting_names(c->programs[rank], x, only_in_plan);
        if (only_in_plan) blame(c, "rank %d: races of #%d only in the plan: %#x", rank, x, only_in_plan);
        if (only_in_program && !has_ring_order(plan))
            blame(c, "rank %d: races of #%d only in the program: %#x", rank, x, only_in_program);
    }
}

/* How many plans are looked at. */
static int compare_plans(random_case *c) {
    int nplans = 0;
    for (int rank = 0; rank < c->world.nranks; rank++) {
        weft_plan_order *order;
        weft_plan *plan;
        if (c->first_like[rank] != rank || binds_names(&c->world.ranks[rank])) continue;
        must(weft_plan_order_create(c->programs[rank],
                                    &(weft_order_options){WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER},
                                    &order));
        weft_status status =
            weft_plan_create(c->programs[rank], &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, &plan);
        weft_plan_order_destroy(order);
        weft_status_free(status);
        if (status) continue;
        compare_pairs(c, rank, plan);
        weft_plan_destroy(plan);
        nplans++;
    }
    return nplans;
}

static void compare(random_case *c) {
    if (count_of(c, WEFT_VERDICT_INVALID_PROGRAM)) blame(c, "an invalid program");
    compare_races(c);
    bool stuck = count_of(c, WEFT_VERDICT_DEADLOCK) > 0, queued = count_of(c, WEFT_VERDICT_RESOURCE_DEADLOCK) > 0;
    if (stuck != c->outcome.gets_stuck) blame(c, "an execution %s", stuck ? "does not get stuck" : "gets stuck");
    bool expected = c->max_in_flight && c->limited.gets_stuck && !c->outcome.gets_stuck;
    if (queued != expected)
        blame(c, "with %d in flight an execution %s", c->max_in_flight, queued ? "does not get stuck" : "gets stuck");
}

static void report_case(const random_case *c) {
    check(false, "seed %llu: %s", (unsigned long long)c->seed, c->why);
    for (int r = 0; r < c->world.nranks; r++) {
        char *bytes;
        size_t nbytes;
        must(weft_program_print(c->programs[r], WEFT_FORM_YAML, &bytes, &nbytes));
        printf("rank %d:\n%.*s\n", r, (int)nbytes, bytes);
        weft_bytes_free(c->context, bytes, nbytes);
    }
    for (size_t i = 0; i < weft_findings_count(c->found); i++)
        printf("reported: %s\n", weft_finding_at(c->found, i)->message);
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

typedef struct tally {
    int64_t nraces, nstuck, nlimited, nsafe, nstates, ntoo_large, nplans;
} tally;

static void one_case(uint64_t seed, tally *t) {
    random_case c = {.seed = seed, .state = seed * 0x9E3779B97F4A7C15u};
    for (bool small = false; !small;) { /* what has too many states is drawn again */
        memset(&c.world, 0, sizeof c.world);
        draw_world(&c);
        small = toy_search(&c.world, 0, MOST_STATES, &c.outcome) &&
                (!c.max_in_flight || toy_search(&c.world, c.max_in_flight, MOST_STATES, &c.limited));
        t->ntoo_large += !small;
    }
    must(weft_context_create(NULL, &c.context));
    for (int r = 0; r < c.world.nranks; r++) {
        c.programs[r] = make_program(&c, &c.world.ranks[r]);
        while (!weft_program_equal(c.programs[r], c.programs[c.first_like[r]])) c.first_like[r]++;
    }
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = c.world.nranks,
                             .max_in_flight = c.max_in_flight};
    must(weft_verify((const weft_program *const *)c.programs, (size_t)c.world.nranks, &o, &c.found));
    compare(&c);
    t->nplans += compare_plans(&c);
    if (*c.why)
        report_case(&c);
    else
        check(true, " ");
    bool races = count_of(&c, WEFT_VERDICT_RACE) > 0;
    t->nraces += races;
    t->nstuck += c.outcome.gets_stuck;
    t->nlimited += c.limited.gets_stuck && !c.outcome.gets_stuck;
    t->nsafe += !races && !c.outcome.gets_stuck;
    t->nstates += c.outcome.nstates;
    weft_findings_destroy(c.found);
    for (int r = 0; r < c.world.nranks; r++) weft_program_destroy(c.programs[r]);
    weft_context_destroy(c.context);
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = getenv("WEFT_LONG_TESTS") ? 100000 : 2000;
    if (getenv("WEFT_SANITIZED")) count /= 5;
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    tally t = {0};
    for (uint64_t seed = first; seed < first + count; seed++) one_case(seed, &t);
    printf("%lld race, %lld get stuck, %lld with few in flight alone, %lld neither; %lld states, %lld drawn again; "
           "%lld plans\n",
           (long long)t.nraces, (long long)t.nstuck, (long long)t.nlimited, (long long)t.nsafe, (long long)t.nstates,
           (long long)t.ntoo_large, (long long)t.nplans);
    int64_t few = (int64_t)count / 50;
    check(count < 100 || t.nplans > few, "too few plans");
    check(count < 100 || (t.nraces > few && t.nstuck > few && t.nsafe > few && t.nlimited > 0), "too few of a kind");
    return report_checks();
}
