/* by_name.c: dependencies between launches as Paddle's executor derives them (new_executor:
 * interpreter/dependency_builder.cc, legacy programs): hazards by name, those left out that others imply; the coalesce
 * rule; the chains of communication ops and of random ops. They order launches, not completions. */
#include "proof/schedule/by_name.h"
#include "program/grow.h"

weft_status by_name_push(by_name *z, list *l, uint32_t item) {
    TRY(grow(z->arena, &l->items, &l->capacity, l->count + 1, sizeof *l->items));
    l->items[l->count++] = item;
    return NULL;
}

/* --- what is what ------------------------------------------------------------------------------------------------- */

static bool is_communication(const weft_op *op) {
    return op_is(op, "send") || op_is(op, "recv") || op_is(op, "send_v2") || op_is(op, "recv_v2") ||
           op_find_attr(op, "ring_id") || strstr(op->type->bytes, "c_");
}

static bool is_random(const weft_op *op) {
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

static bool is_async(const weft_op *op) {
    if (op_is(op, "coalesce_tensor")) return attr_bool(op, "copy_data", false) || attr_bool(op, "set_constant", false);
    return !op_is(op, "memcpy_d2h") && !op_is(op, "shape");
}

static bool needs_no_bytes(const weft_op *op, const slot *s) {
    const op_schema *schema = op_schema_of((weft_op *)op);
    for (size_t i = 0; schema && i < schema->ninputs; i++)
        if (name_is(s->name, schema->inputs[i].name)) return schema->inputs[i].only_type;
    return false;
}

bool by_name_names(const weft_op *op, bool output, const weft_var *v, bool with_bytes) {
    const slot_list *slots = output ? &op->outputs : &op->inputs;
    for (uint32_t k = 0; k < slots->count; k++) {
        if (with_bytes && !output && needs_no_bytes(op, &slots->slots[k])) continue;
        for (uint32_t i = 0; i < slots->slots[k].nargs; i++)
            if (slots->slots[k].args[i]->var == v) return true;
    }
    return false;
}

/* --- dependencies ------------------------------------------------------------------------------------------------- */

/* The last writer of a var and who used it since. */
typedef struct use_record {
    list since; /* the last writer, or readers after it */
    uint32_t writer;
} use_record;

static weft_status add_hazard(by_name *z, uint32_t from, uint32_t to) {
    if (from == to) return NULL;
    for (size_t i = 0; i < z->before[to].count; i++)
        if (z->before[to].items[i] == from) return NULL;
    return by_name_push(z, &z->before[to], from);
}

static weft_status add_hazards_of(by_name *z, use_record *of_var, uint32_t at) {
    const weft_op *op = z->instrs[at].op;
    FOR_EACH_ARG(op, false, u) {
        use_record *r = &of_var[u->var->id];
        if (!bind_is_named(u->var)) continue;
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        if (!by_name_names(op, true, u->var, false)) TRY(by_name_push(z, &r->since, at));
    }
    FOR_EACH_ARG(op, true, u) {
        use_record *r = &of_var[u->var->id];
        if (!bind_is_named(u->var)) continue;
        for (size_t i = 0; i < r->since.count; i++) TRY(add_hazard(z, r->since.items[i], at));
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        r->since.count = 0;
        r->writer = at;
    }
    return NULL;
}

static void note_earlier(by_name *z, uint32_t from, uint32_t to) {
    uint64_t *row = z->earlier + (size_t)to * z->nwords;
    const uint64_t *of_from = z->earlier + (size_t)from * z->nwords;
    for (size_t w = 0; w < z->nwords; w++) row[w] |= of_from[w];
    row[from / 64] |= UINT64_C(1) << (from % 64);
}

/* Keeps of the hazards those that no other implies. */
static weft_status shrink(by_name *z) {
    for (uint32_t b = 0; b < z->n; b++) {
        list *l = &z->before[b];
        for (size_t i = 0; i < l->count; i++) note_earlier(z, l->items[i], b);
        size_t kept = 0;
        for (size_t i = 0; i < l->count; i++) {
            bool implied = false;
            for (size_t k = 0; k < l->count && !implied; k++)
                implied = k != i && by_name_before(z, l->items[i], l->items[k]);
            if (!implied) l->items[kept++] = l->items[i];
        }
        /* The order of the rest is untouched, so what was overwritten was looked at already. */
        l->count = kept;
        for (size_t i = 0; i < kept; i++) TRY(by_name_push(z, &z->after[l->items[i]], b));
    }
    return NULL;
}

/* An edge that a rule adds: not where a successor of `from` comes before `to` already. */
static weft_status add_edge(by_name *z, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < z->after[from].count; i++) {
        uint32_t next = z->after[from].items[i];
        if (next == to || by_name_before(z, next, to)) return NULL;
    }
    TRY(by_name_push(z, &z->after[from], to));
    TRY(by_name_push(z, &z->before[to], from));
    if (by_name_before(z, from, to)) return NULL;
    note_earlier(z, from, to);
    for (uint32_t x = to + 1; x < z->n; x++)
        if (by_name_before(z, to, x)) note_earlier(z, to, x);
    return NULL;
}

static bool reads_any(const weft_op *op, const slot *members, bool output) {
    for (uint32_t i = 0; i < members->nargs; i++)
        if (by_name_names(op, output, members->args[i]->var, false)) return true;
    return false;
}

/* The reader of a fused buffer comes after all producers of members, and readers of members after it. */
static weft_status add_coalesce_rule(by_name *z, uint32_t at) {
    const weft_var *fused = weft_op_output(z->instrs[at].op, "FusedOutput", 0);
    const slot *members = op_find_slot(z->instrs[at].op, true, "Output");
    uint32_t reader = at + 1;
    if (!fused || !members) return NULL;
    while (reader < z->n && !by_name_names(z->instrs[reader].op, false, fused, false)) reader++;
    if (reader == z->n) return NULL;
    for (uint32_t i = at + 1; i < reader; i++)
        if (reads_any(z->instrs[i].op, members, true)) TRY(add_edge(z, i, reader));
    while (reader + 1 < z->n && is_communication(z->instrs[reader].op) && is_communication(z->instrs[reader + 1].op))
        reader++;
    for (uint32_t i = reader + 1; i < z->n; i++)
        if (reads_any(z->instrs[i].op, members, false)) TRY(add_edge(z, reader, i));
    return NULL;
}

static weft_status add_chains(by_name *z) {
    uint32_t communication = PROOF_NONE, random = PROOF_NONE, sync = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) {
        const weft_op *op = z->instrs[i].op;
        if (sync != PROOF_NONE) TRY(add_edge(z, sync, i));
        if (op_is(op, "c_sync_comm_stream") || op_is(op, "sync_comm_stream")) sync = i;
        if (is_communication(op)) {
            if (communication != PROOF_NONE) TRY(add_edge(z, communication, i));
            communication = i;
        }
    }
    for (uint32_t i = 0; i < z->n; i++) {
        if (!is_random(z->instrs[i].op)) continue;
        if (random != PROOF_NONE) TRY(add_edge(z, random, i));
        random = i;
    }
    return NULL;
}

static weft_status add_dependencies(by_name *z) {
    use_record *of_var = ARENA_ARRAY(z->arena, use_record, z->s->program->nall_vars + 1);
    if (!of_var) return base_out_of_memory();
    for (size_t i = 0; i < z->s->program->nall_vars; i++) of_var[i].writer = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) TRY(add_hazards_of(z, of_var, i));
    TRY(shrink(z));
    for (uint32_t i = 0; i < z->n; i++)
        if (op_is(z->instrs[i].op, "coalesce_tensor")) TRY(add_coalesce_rule(z, i));
    return add_chains(z);
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* Ops of block 0, twice. A launch that is a mark of a stream wait is no instruction of its own. */
static weft_status list_instrs(by_name *z) {
    z->instrs = ARENA_ARRAY(z->arena, instr, 2 * z->s->nevents + 2);
    if (!z->instrs) return base_out_of_memory();
    for (uint32_t i = 0; i < z->s->nevents; i++) {
        const proof_event *e = &z->s->events[i];
        if (!e->op || e->op->block != z->s->program->blocks[0]) continue;
        if (z->n && z->instrs[z->n - 1].op == e->op) z->n--; /* the launch itself comes last */
        z->instrs[z->n++] = (instr){e->op, i, e->stream, is_async(e->op)};
    }
    if (2 * z->n > BY_NAME_MAX_INSTRS)
        return weft_status_create(WEFT_LIMIT, z->s->program->place, "by_name: expected at most %d ops, found %zu",
                                  BY_NAME_MAX_INSTRS / 2, z->n);
    memcpy(z->instrs + z->n, z->instrs, z->n * sizeof *z->instrs);
    z->n *= 2;
    z->nwords = z->n / 64 + 1;
    z->after = ARENA_ARRAY(z->arena, list, z->n + 1);
    z->before = ARENA_ARRAY(z->arena, list, z->n + 1);
    z->visited = ARENA_ARRAY(z->arena, uint32_t, z->n + 1);
    z->earlier = ARENA_ARRAY(z->arena, uint64_t, z->n * z->nwords + 1);
    z->waits = ARENA_ARRAY(z->arena, list, z->s->nevents + 1);
    return z->after && z->before && z->visited && z->earlier && z->waits ? NULL : base_out_of_memory();
}

weft_status by_name_depend(by_name *z, proof_schedule *s, arena *a) {
    *z = (by_name){.s = s, .arena = a};
    TRY(list_instrs(z));
    return add_dependencies(z);
}
