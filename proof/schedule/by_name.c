/* by_name.c: dependencies between launches as Paddle's executor derives them (new_executor:
 * interpreter/dependency_builder.cc, legacy programs): hazards by name, those left out that others imply; the coalesce
 * rule; the chains of communication ops and of random ops. They order launches, not completions.
 *
 * Paddle keeps a matrix of what happens before what. Here every question is put so that a part of it is enough: a strip
 * of columns (by_name_reach.c), or a search over what lies between two instructions. */
#include "proof/schedule/by_name.h"
#include "program/grow.h"

/* --- what is what ------------------------------------------------------------------------------------------------- */

bool by_name_draws(const weft_op *op) {
    static const char *const types[] = {"bernoulli",
                                        "poisson",
                                        "multinomial",
                                        "gaussian_random",
                                        "truncated_gaussian_random",
                                        "uniform_random",
                                        "randint",
                                        "randperm",
                                        "exponential",
                                        "sampling_id",
                                        "dropout",
                                        "class_center_sample"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return true;
    return false;
}

bool by_name_is_async(const weft_op *op) {
    if (op_is(op, "coalesce_tensor")) return attr_bool(op, "copy_data", false) || attr_bool(op, "set_constant", false);
    return !op_is(op, "memcpy_d2h") && !op_is(op, "shape");
}

bool by_name_needs_no_bytes(const weft_op *op, const slot *s) {
    const op_schema *schema = op_schema_of((weft_op *)op);
    for (size_t i = 0; schema && i < schema->ninputs; i++)
        if (name_is(s->name, schema->inputs[i].name)) return schema->inputs[i].only_type;
    return false;
}

/* --- hazards ------------------------------------------------------------------------------------------------------ */

/* The last writer of a var and who used it since. */
typedef struct use_record {
    list since; /* the last writer, or readers after it */
    uint32_t writer;
    uint32_t written_by; /* the instruction at hand + 1, if it writes it */
} use_record;

static weft_status add_hazard(by_name *z, uint32_t from, uint32_t to) {
    if (from == to || z->visited[from] == z->stamp) return NULL;
    z->visited[from] = z->stamp;
    return by_name_push(z, &z->before[to], from);
}

static weft_status add_hazards_of(by_name *z, use_record *of_var, uint32_t at) {
    z->stamp++;
    FOR_EACH_INSTR_ARG(z, at, a)
    if (a->is & ARG_OUT) of_var[a->var].written_by = at + 1;
    FOR_EACH_INSTR_ARG(z, at, a) {
        use_record *r = &of_var[a->var];
        if (!(a->is & ARG_NAMED) || a->is & ARG_OUT) continue;
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        if (r->written_by != at + 1) TRY(by_name_push(z, &r->since, at));
    }
    FOR_EACH_INSTR_ARG(z, at, a) {
        use_record *r = &of_var[a->var];
        if (!(a->is & ARG_NAMED) || !(a->is & ARG_OUT)) continue;
        for (size_t i = 0; i < r->since.count; i++) TRY(add_hazard(z, r->since.items[i], at));
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        r->since.count = 0;
        r->writer = at;
    }
    return NULL;
}

static weft_status add_hazards(by_name *z) {
    use_record *of_var = ARENA_ARRAY(z->arena, use_record, z->s->program->nall_vars + 1);
    if (!of_var) return base_out_of_memory();
    for (size_t i = 0; i < z->s->program->nall_vars; i++) of_var[i].writer = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) TRY(add_hazards_of(z, of_var, i));
    return NULL;
}

/* --- chains ------------------------------------------------------------------------------------------------------- */

/* Whether a path leads from `from` to `to`. Takes as long as there are edges into what lies between the two. */
static weft_status leads_to(by_name *z, uint32_t from, uint32_t to, bool *out) {
    z->stamp++;
    z->stack.count = 0;
    *out = false;
    TRY(by_name_push(z, &z->stack, to));
    while (z->stack.count && !*out) {
        const list *l = &z->before[z->stack.items[--z->stack.count]];
        for (size_t i = 0; i < l->count && !*out; i++) {
            uint32_t x = l->items[i];
            *out = x == from;
            if (x < from || z->visited[x] == z->stamp) continue;
            z->visited[x] = z->stamp;
            TRY(by_name_push(z, &z->stack, x));
        }
    }
    return NULL;
}

weft_status by_name_behind(by_name *z, uint32_t from, bool **out) {
    bool *behind = *out = ARENA_ARRAY(z->arena, bool, z->n + 1);
    if (!behind) return base_out_of_memory();
    for (uint32_t y = from; y < z->n; y++)
        for (size_t i = 0; (y == from || behind[y]) && i < z->after[y].count; i++) behind[z->after[y].items[i]] = true;
    return NULL;
}

/* An edge that a rule adds: not where a path leads there already. */
static weft_status add_edge(by_name *z, uint32_t from, uint32_t to) {
    bool leads;
    TRY(leads_to(z, from, to, &leads));
    return leads ? NULL : by_name_add(z, from, to);
}

/* A sync comes before all that follows it: behind it, only what has no predecessor there lacks an edge. */
static weft_status add_sync_edge(by_name *z, uint32_t sync, uint32_t to) {
    const list *l = &z->before[to];
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i] >= sync) return NULL;
    return by_name_add(z, sync, to);
}

static weft_status add_chains(by_name *z) {
    uint32_t communication = PROOF_NONE, random = PROOF_NONE, sync = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) {
        const weft_op *op = z->instrs[i].op;
        if (sync != PROOF_NONE) TRY(add_sync_edge(z, sync, i));
        if (op_is_collective(op, COLLECTIVE_SYNC_COMM)) sync = i;
        if (by_name_communicates(op)) {
            if (communication != PROOF_NONE) TRY(add_edge(z, communication, i));
            communication = i;
        }
    }
    for (uint32_t i = 0; i < z->n; i++) {
        if (!by_name_draws(z->instrs[i].op)) continue;
        if (random != PROOF_NONE) TRY(add_edge(z, random, i));
        random = i;
    }
    return NULL;
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

static weft_status list_args(by_name *z) {
    size_t nargs = 0, at = 0, half = z->n / 2;
    for (size_t i = 0; i < half; i++) {
        const weft_op *op = z->instrs[i].op;
        nargs += op->slots->nargs;
    }
    if (nargs > UINT32_MAX / 2)
        return weft_status_create(WEFT_LIMIT, z->s->program->place, "expected fewer arguments than %zu", nargs);
    z->args = ARENA_ARRAY(z->arena, instr_arg, nargs + 1);
    z->first_arg = ARENA_ARRAY(z->arena, uint32_t, half + 1);
    if (!z->args || !z->first_arg) return base_out_of_memory();
    for (size_t i = 0; i < half; i++) {
        const weft_op *op = z->instrs[i].op;
        for (int out = 0; out < 2; out++) {
            for (uint32_t k = 0; k < op_nslots(op, out); k++) {
                const slot *s = op_slot(op, out, k);
                uint32_t is = out ? ARG_OUT : by_name_needs_no_bytes(op, s) ? ARG_IN : ARG_IN | ARG_BYTES;
                for (uint32_t a = 0; a < s->nargs; a++) {
                    const weft_var *v = slot_var(op, s, a);
                    if (name_is(v->name, "@EMPTY@")) continue;
                    z->args[at++] = (instr_arg){v->id, bind_is_named(v) ? is | ARG_NAMED : is};
                }
            }
        }
        z->first_arg[i + 1] = (uint32_t)at;
    }
    return NULL;
}

/* Whether a block is run by an op of another, or by what that runs. */
static bool is_below(const weft_program *p, const weft_block *block, const weft_block *other) {
    for (int32_t at = block->parent_idx, depth = 0; at >= 0 && (size_t)at < p->nblocks && depth < 64; depth++) {
        if (p->blocks[at] == other) return true;
        at = p->blocks[at]->parent_idx;
    }
    return false;
}

/* Ops of the block, twice. A launch that is a mark of a stream wait is no instruction of its own. */
static weft_status list_instrs(by_name *z, size_t first, size_t end) {
    z->instrs = ARENA_ARRAY(z->arena, instr, 2 * (end - first) + 2);
    if (!z->instrs) return base_out_of_memory();
    for (size_t i = first; i < end; i++) {
        const proof_event *e = &z->s->events[i];
        if (!e->op) continue;
        instr *last = z->n ? &z->instrs[z->n - 1] : NULL;
        if (e->op->block != z->block) {
            if (!last || !is_below(z->s->program, e->op->block, z->block)) continue;
            last->end = (uint32_t)i;
            if (e->stream == last->context) last->covered = (uint32_t)i;
            continue;
        }
        if (last && last->op == e->op) z->n--; /* the launch itself comes last */
        uint32_t at = (uint32_t)i;
        z->instrs[z->n++] = (instr){e->op, at, at, at, e->stream, by_name_is_async(e->op)};
    }
    if (z->n) memcpy(z->instrs + z->n, z->instrs, z->n * sizeof *z->instrs);
    z->n *= 2;
    z->after = ARENA_ARRAY(z->arena, list, z->n + 1);
    z->before = ARENA_ARRAY(z->arena, list, z->n + 1);
    z->visited = ARENA_ARRAY(z->arena, uint32_t, z->n + 1);
    z->waits = ARENA_ARRAY(z->arena, list, z->s->nevents + 1);
    return z->after && z->before && z->visited && z->waits ? list_args(z) : base_out_of_memory();
}

weft_status by_name_depend_in(by_name *z, proof_schedule *s, arena *a, const weft_block *block, size_t first,
                              size_t end) {
    *z = (by_name){.s = s, .arena = a, .block = block};
    TRY(list_instrs(z, first, end));
    TRY(add_hazards(z));
    TRY(by_name_shrink(z));
    TRY(by_name_coalesce(z));
    return add_chains(z);
}

weft_status by_name_depend(by_name *z, proof_schedule *s, arena *a) {
    return by_name_depend_in(z, s, a, s->program->blocks[0], 0, s->nevents);
}
