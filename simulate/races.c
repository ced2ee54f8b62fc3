/* races.c: whether the times that a step took keep its program's order: of two accesses to the same bytes, one of
 * them a write, the later one begins when the earlier one has ended.
 *
 * The idea: the ends of all values cut a rank's memory into leaves. A segment tree over these keeps the reads and the
 * writes that end last. Instructions are taken in the program's order; an access that begins before the end that its
 * leaves have came too early. O(log n) an access. Who reads and writes what is found here once more, from the plan
 * alone: the planner's waits are on trial.
 *
 * A plan by bytes cannot show a race, however late an op is: that is what its waits are for. Updates that it moved to
 * their gradients share memory as its own order lets them, and conflict with nothing that they passed: there the plan's
 * order counts. In a plan of given waits the launches may be in another order than the program, and values share memory
 * as the launches let them. So there bytes of different values are different bytes, and only the program's order is
 * looked at. */
#include <stdlib.h>

#include "base/points.h"
#include "simulate/simulate.h"

/* --- who touches what --------------------------------------------------------------------------------------------- */

typedef struct access_list {
    const weft_plan *plan;
    sim_access *items; /* NULL: they are only counted */
    size_t count;
} access_list;

static void add(access_list *l, size_t instr, int32_t value, bool is_write) {
    for (; value >= 0; value = l->plan->values[value].rows) {
        if (!l->plan->values[value].nbytes) continue;
        if (l->items) l->items[l->count] = (sim_access){(int32_t)instr, value, 0, 0, is_write};
        l->count++;
    }
}

/* coalesce_tensor reads what it copies, and writes all that it names. */
static bool is_read(const plan_instr *i, size_t slot_index, uint32_t k) {
    bool is_own_output = k < i->out_first[i->schema->noutputs] && i->in[k] == i->out[k];
    return i->schema->effects & OP_ALIASES ? !is_own_output : !i->schema->inputs[slot_index].only_type;
}

static void list_accesses(access_list *l, uint32_t *first_access) {
    for (size_t n = 0; n < l->plan->ninstrs; n++) {
        const plan_instr *i = &l->plan->instrs[n];
        if (first_access) first_access[n] = (uint32_t)l->count;
        add(l, n, i->guard, false);
        add(l, n, i->outer_guard, false);
        for (size_t s = 0; s < i->schema->ninputs; s++)
            for (uint32_t k = i->in_first[s]; k < i->in_first[s + 1]; k++)
                if (is_read(i, s, k)) add(l, n, i->in[k], false);
        for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++) add(l, n, i->out[k], true);
    }
    if (first_access) first_access[l->plan->ninstrs] = (uint32_t)l->count;
}

/* --- where -------------------------------------------------------------------------------------------------------- */

static bool is_in_program_order(const weft_plan *plan) {
    for (size_t i = 1; i < plan->ninstrs; i++)
        if (plan->instrs[i].op_index < plan->instrs[i - 1].op_index) return false;
    return true;
}

/* By value: its first byte, persistent ones behind temporaries; by_value: values that are no views of one another lie
 * apart. */
static int64_t *find_places(const weft_plan *plan, bool by_value, arena *scratch) {
    int64_t *at = ARENA_ARRAY(scratch, int64_t, plan->nvalues + 1), end = 0;
    int64_t *shift = ARENA_ARRAY(scratch, int64_t, plan->nvalues + 1); /* by root, from its offset */
    if (!at || !shift) return NULL;
    for (size_t v = 0; v < plan->nvalues && by_value; v++) {
        if (plan->values[v].view_of >= 0) continue;
        shift[v] = end - plan->values[v].offset;
        end += plan->values[v].nbytes;
    }
    for (size_t v = 0; v < plan->nvalues; v++) {
        size_t root = v;
        while (plan->values[root].view_of >= 0) root = (size_t)plan->values[root].view_of;
        int64_t behind = plan->values[v].space == PLAN_PERSISTENT ? plan->temporary_nbytes : 0;
        at[v] = plan->values[v].offset + (by_value ? shift[root] : behind);
    }
    return at;
}

static weft_status find_leaves(sim_plan *p, size_t naccesses, bool by_value, arena *scratch) {
    const int64_t *places = find_places(p->plan, by_value, scratch);
    int64_t *cuts = ARENA_ARRAY(scratch, int64_t, 2 * naccesses + 1);
    size_t n = 0;
    if (!places || !cuts) return base_out_of_memory();
    for (size_t k = 0; k < naccesses; k++) {
        int32_t v = p->accesses[k].value;
        cuts[n++] = places[v];
        cuts[n++] = places[v] + p->plan->values[v].nbytes;
    }
    n = points_sort(cuts, n);
    for (size_t k = 0; k < naccesses; k++) {
        sim_access *a = &p->accesses[k];
        a->first = (uint32_t)points_find(cuts, n, places[a->value]);
        a->end = (uint32_t)points_find(cuts, n, places[a->value] + p->plan->values[a->value].nbytes);
    }
    p->nleaves = (uint32_t)n;
    return NULL;
}

typedef struct place {
    int32_t op_index;
    uint32_t instr;
} place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->op_index != y->op_index) return x->op_index < y->op_index ? -1 : 1;
    return (x->instr > y->instr) - (x->instr < y->instr);
}

static weft_status find_order(sim_plan *p, arena *scratch) {
    size_t n = p->plan->ninstrs;
    place *places = ARENA_ARRAY(scratch, place, n + 1);
    if (!places) return base_out_of_memory();
    for (size_t i = 0; i < n; i++)
        places[i] = (place){p->plan->given_waits ? p->plan->instrs[i].op_index : 0, (uint32_t)i};
    if (n > 1) qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 0; i < n; i++) p->order[i] = places[i].instr;
    return NULL;
}

weft_status sim_find_accesses(weft_simulation *x, sim_plan *p) {
    access_list l = {.plan = p->plan};
    list_accesses(&l, NULL);
    if (l.count > UINT32_MAX / 4) return weft_status_create(WEFT_LIMIT, NULL, "too many accesses: %zu", l.count);
    l.items = p->accesses = ARENA_ARRAY(&x->arena, sim_access, l.count + 1);
    p->first_access = ARENA_ARRAY(&x->arena, uint32_t, p->plan->ninstrs + 1);
    p->order = ARENA_ARRAY(&x->arena, uint32_t, p->plan->ninstrs + 1);
    p->race_of = ARENA_ARRAY(&x->arena, uint32_t, p->plan->ninstrs + 1);
    if (!l.items || !p->first_access || !p->order || !p->race_of) return base_out_of_memory();
    l.count = 0;
    list_accesses(&l, p->first_access);
    arena scratch;
    arena_init(&scratch, &x->context->allocator);
    weft_status status = find_order(p, &scratch);
    if (!status) status = find_leaves(p, l.count, p->plan->given_waits && !is_in_program_order(p->plan), &scratch);
    arena_fini(&scratch);
    return status;
}

weft_status sim_make_nodes(weft_simulation *x) {
    uint32_t most = 0;
    for (size_t p = 0; p < x->nplans; p++) {
        if (x->plans[p].nleaves > most) most = x->plans[p].nleaves;
        x->race_capacity += x->plans[p].plan->ninstrs;
    }
    x->nodes = ARENA_ARRAY(&x->arena, sim_node, 2 * (size_t)most + 1);
    return x->nodes ? NULL : base_out_of_memory();
}

/* --- the last to end ---------------------------------------------------------------------------------------------- */

static void raise(sim_last *last, sim_last with) {
    if (with.end_ns > last->end_ns) *last = with;
}

/* A node of leaves [low, high): its left child follows it, its right one the left one's subtree. */
static void query(const sim_node *n, uint32_t low, uint32_t high, const sim_access *a, bool writes, sim_last *last) {
    if (a->first <= low && high <= a->end) {
        raise(last, n->below[writes]);
        return;
    }
    raise(last, n->cover[writes]);
    uint32_t middle = low + (high - low) / 2;
    if (a->first < middle) query(n + 1, low, middle, a, writes, last);
    if (a->end > middle) query(n + 2 * (size_t)(middle - low), middle, high, a, writes, last);
}

static void record(sim_node *n, uint32_t low, uint32_t high, const sim_access *a, sim_last with) {
    raise(&n->below[a->is_write], with);
    if (a->first <= low && high <= a->end) {
        raise(&n->cover[a->is_write], with);
        return;
    }
    uint32_t middle = low + (high - low) / 2;
    if (a->first < middle) record(n + 1, low, middle, a, with);
    if (a->end > middle) record(n + 2 * (size_t)(middle - low), middle, high, a, with);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

static trace_event time_of(const sim_rank *r, uint32_t access) {
    const plan_instr *i = &r->plan->plan->instrs[r->plan->accesses[access].instr];
    return r->streams[i->stream].events[i->position];
}

static void note_race(weft_simulation *x, const sim_rank *r, uint32_t first, uint32_t second) {
    uint32_t *number = &r->plan->race_of[r->plan->accesses[second].instr];
    if (!*number) {
        x->races[x->nraces++] = (sim_race){.plan = r->plan,
                                            .rank = (int)(r - x->ranks),
                                            .step = x->step,
                                            .first = first,
                                            .second = second,
                                            .first_time = time_of(r, first),
                                            .second_time = time_of(r, second)};
        *number = (uint32_t)x->nraces;
    }
    x->races[*number - 1].count++;
}

/* Of all accesses of an instruction the one that came too early by most, and for whom. */
static weft_status check_instr(weft_simulation *x, const sim_rank *r, uint32_t instr) {
    const sim_plan *p = r->plan;
    sim_last worst = {INT64_MIN, 0};
    uint32_t begin = p->first_access[instr], end = p->first_access[instr + 1], early = begin;
    if (begin == end) return NULL;
    trace_event time = time_of(r, begin);
    for (uint32_t k = begin; k < end; k++) {
        sim_last last = worst;
        query(x->nodes, 0, p->nleaves, &p->accesses[k], true, &last);
        if (p->accesses[k].is_write) query(x->nodes, 0, p->nleaves, &p->accesses[k], false, &last);
        if (last.end_ns > worst.end_ns) early = k;
        worst = last;
    }
    for (uint32_t k = begin; k < end; k++)
        record(x->nodes, 0, p->nleaves, &p->accesses[k], (sim_last){time.end_ns, k});
    if (worst.end_ns <= time.start_ns) return NULL;
    if (!x->races) { /* most runs need no room */
        x->races = ARENA_ARRAY(&x->arena, sim_race, x->race_capacity);
        if (!x->races) return base_out_of_memory();
    }
    note_race(x, r, worst.access, early);
    return NULL;
}

weft_status sim_find_races(weft_simulation *x) {
    static const sim_last nothing = {INT64_MIN, 0};
    for (int k = 0; k < x->nranks; k++) {
        const sim_rank *r = &x->ranks[k];
        for (size_t n = 0; n < 2 * (size_t)r->plan->nleaves; n++)
            x->nodes[n] = (sim_node){{nothing, nothing}, {nothing, nothing}};
        for (size_t i = 0; i < r->plan->plan->ninstrs; i++) TRY(check_instr(x, r, r->plan->order[i]));
    }
    return NULL;
}

/* --- from outside ------------------------------------------------------------------------------------------------- */

size_t weft_simulation_nraces(const weft_simulation *x) {
    return x->nraces;
}

static weft_seen_access describe(const sim_plan *p, uint32_t access, trace_event time) {
    const sim_access *a = &p->accesses[access];
    const plan_instr *i = &p->plan->instrs[a->instr];
    return (weft_seen_access){.type = i->schema->type,
                              .op_index = i->op_index,
                              .stream = p->plan->stream_names[i->stream],
                              .value = p->plan->values[a->value].name,
                              .is_write = a->is_write,
                              .start_seconds = (double)time.start_ns * 1e-9,
                              .end_seconds = (double)time.end_ns * 1e-9};
}

void weft_simulation_race_at(const weft_simulation *x, size_t index, weft_seen_race *out_race) {
    const sim_race *race = &x->races[index];
    *out_race = (weft_seen_race){.rank = race->rank,
                                 .step = race->step,
                                 .count = race->count,
                                 .first = describe(race->plan, race->first, race->first_time),
                                 .second = describe(race->plan, race->second, race->second_time)};
}
