/* bind.c: a plan and a rank become instructions that a device only has to record.
 *
 * The idea: every question that a step could ask is answered once, before it. Here: where a value lies, which
 * communicator, who waits for whom. The device's part is kernels, their state and scratch.
 *
 * The invariant: a plan is not trusted further than its types. Offsets are checked against the spaces, value numbers
 * against the table, and every wait against program order, so that streams cannot wait in a circle. */
#include "executor/memory.h"
#include "executor/state.h"
#include "executor/watchdog.h"

/* --- values by name ----------------------------------------------------------------------------------------------- */

static table_probe find_value(const value_index *index, const char *n) {
    table_probe at = table_find(&index->table, base_hash(n, strlen(n)));
    while (at.item != TABLE_NONE && strcmp(index->plan->values[at.item].name, n) != 0) table_next(&index->table, &at);
    return at;
}

weft_status value_index_init(value_index *index, const weft_plan *plan, arena *a) {
    *index = (value_index){.plan = plan};
    if (plan->nvalues) TRY(table_reserve(a, &index->table, plan->nvalues));
    for (size_t i = 0; i < plan->nvalues; i++) {
        table_probe at = find_value(index, plan->values[i].name);
        if (at.item == TABLE_NONE) table_put(&index->table, &at, (uint32_t)i);
    }
    return NULL;
}

int32_t value_index_find(const value_index *index, const char *n) {
    return (int32_t)find_value(index, n).item; /* TABLE_NONE: -1 */
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static tensor tensor_of_shape(const shape *s) {
    tensor t = {.dtype = (weft_dtype)s->dtype, .ndim = s->ndim, .height = s->height, .numel = 1};
    for (int i = 0; i < s->ndim; i++) {
        t.dims[i] = s->dims[i];
        t.numel *= s->dims[i];
    }
    return t;
}

static bool in_range(int64_t offset, int64_t nbytes, int64_t space_nbytes) {
    return offset >= 0 && nbytes >= 0 && nbytes <= space_nbytes && offset <= space_nbytes - nbytes;
}

static weft_status bind_value(rank_state *rank, size_t i) {
    const weft_plan *plan = rank->plan;
    const plan_value *v = &plan->values[i];
    bool persists = v->space == PLAN_PERSISTENT;
    tensor t = tensor_of_shape(&v->shape);
    size_t nbytes = (size_t)t.numel * weft_dtype_nbytes(t.dtype);
    if (v->shape.ndim < 0 || t.numel < 0 || nbytes > (size_t)v->nbytes ||
        !in_range(v->offset, v->nbytes, persists ? plan->persistent_nbytes : plan->temporary_nbytes) ||
        v->rows >= (int32_t)plan->nvalues) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "plan: value \"%s\" has %lld bytes at %lld of %lld",
                                  v->name, (long long)v->nbytes, (long long)v->offset,
                                  (long long)(persists ? plan->persistent_nbytes : plan->temporary_nbytes));
    }
    if (!persists && rank->temporary.bytes)
        t.data = (unsigned char *)rank->temporary.bytes + v->offset; /* others': state_bind */
    rank->values[i] = t;
    return NULL;
}

static weft_status bind_memory(weft_executor *x, rank_state *rank) {
    const weft_plan *plan = rank->plan;
    const device_engine *engine = x->device->engine;
    TRY(memory_alloc(x, rank, PLAN_TEMPORARY, plan->temporary_nbytes, &rank->temporary));
    rank->values = ARENA_ARRAY(&x->arena, tensor, plan->nvalues);
    if (!engine->has_host_memory) rank->copies = ARENA_ARRAY(&x->arena, device_memory, plan->nvalues);
    if (!rank->values || (!rank->copies && !engine->has_host_memory)) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvalues; i++) TRY(bind_value(rank, i));
    TRY(state_bind(x, rank));
    for (size_t i = 0; i < plan->nvalues; i++) {
        int32_t rows = plan->values[i].rows;
        if (rows >= 0) rank->values[i].rows = rank->values[rows].data;
    }
    return NULL;
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* The arguments of one side as tensors; their addresses are filled in after prepare, which may look at types only. */
static weft_status bind_args(weft_executor *x, const rank_state *rank, const plan_instr *instr, const int32_t *args,
                             size_t nargs, tensor **out) {
    *out = ARENA_ARRAY(&x->arena, tensor, nargs ? nargs : 1);
    if (!*out) return base_out_of_memory();
    for (size_t i = 0; i < nargs; i++) {
        (*out)[i] = (tensor){.dtype = WEFT_DTYPE_NONE, .height = -1};
        if (args[i] < 0) continue;
        if ((size_t)args[i] >= rank->plan->nvalues) {
            return bind_error(rank, WEFT_INVALID_ARGUMENT, instr, "plan: there is no value %d", args[i]);
        }
        (*out)[i] = rank->values[args[i]];
        (*out)[i].data = (*out)[i].rows = NULL;
    }
    return NULL;
}

static weft_status bind_guard(const rank_state *rank, const plan_instr *instr, int32_t guard, const void **out) {
    *out = NULL;
    if (guard < 0) return NULL;
    if ((size_t)guard >= rank->plan->nvalues || rank->values[guard].dtype != WEFT_BOOL ||
        rank->values[guard].numel < 1) {
        return bind_error(rank, WEFT_INVALID_ARGUMENT, instr, "its condition is not a bool value");
    }
    *out = rank->values[guard].data;
    return NULL;
}

/* Distinct per op, equal on all ranks, and the same whatever passes did around it: of the type and the name of the
 * first value that it writes. Ops that write the same value are told apart by their number. */
static uint64_t op_seed(const weft_plan *plan, const plan_instr *instr, size_t nout, int32_t *writers) {
    const char *type = instr->schema->type;
    uint64_t seed = (uint64_t)base_hash(type, strlen(type)) << 32;
    if (!nout || instr->out[0] < 0) return seed + (uint64_t)instr->op_index;
    const char *n = plan->values[instr->out[0]].name;
    return (seed ^ base_hash(n, strlen(n))) + ((uint64_t)writers[instr->out[0]]++ << 48);
}

static weft_status check_waits(const rank_state *rank, const plan_instr *instr, const size_t *ndone) {
    weft_status status = plan_check_waits(rank->plan, instr, ndone);
    if (!status) return NULL;
    weft_status worded =
        weft_status_create(weft_status_code(status), NULL, "rank %d, %s", rank->rank, weft_status_message(status));
    weft_status_free(status);
    return worded;
}

static weft_status bind_instr(weft_executor *x, const rank_state *rank, const plan_instr *instr, int32_t *writers,
                              device_instr *out) {
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs];
    *out = (device_instr){.instr = instr,
                          .ring = instr->ring_id >= 0 ? rings_find(rank, instr->ring_id) : NULL,
                          .op_seed = op_seed(rank->plan, instr, nout, writers),
                          .delay_seconds = plan_seconds_late(x->options.delays, x->options.ndelays, rank->rank, instr)};
    TRY(bind_args(x, rank, instr, instr->in, nin, &out->in));
    TRY(bind_args(x, rank, instr, instr->out, nout, &out->out));
    TRY(watchdog_bind(x, out));
    TRY(bind_guard(rank, instr, instr->guard, &out->guard));
    return bind_guard(rank, instr, instr->outer_guard, &out->outer_guard);
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

static weft_status bind_streams(weft_executor *x, rank_state *rank) {
    const weft_plan *plan = rank->plan;
    rank->streams = ARENA_ARRAY(&x->arena, stream_state, plan->nstreams);
    if (!rank->streams) return base_out_of_memory();
    for (int s = 0; s < plan->nstreams; s++) {
        rank->streams[s].executor = x;
        rank->streams[s].rank = rank;
        rank->streams[s].stream = s;
    }
    for (size_t i = 0; i < plan->ninstrs; i++) {
        int32_t s = plan->instrs[i].stream;
        if (s >= 0 && s < plan->nstreams) rank->streams[s].ninstrs++;
    }
    for (int s = 0; s < plan->nstreams; s++) {
        stream_state *stream = &rank->streams[s];
        stream->instrs = ARENA_ARRAY(&x->arena, device_instr, stream->ninstrs ? stream->ninstrs : 1);
        if (!stream->instrs) return base_out_of_memory();
    }
    return NULL;
}

static void mark_signals(rank_state *rank, const plan_instr *instr) {
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        if (w->count > 0) rank->streams[w->stream].instrs[w->count - 1].signals = true;
    }
}

static weft_status bind_instrs(weft_executor *x, rank_state *rank) {
    const weft_plan *plan = rank->plan;
    size_t nstreams = plan->nstreams ? (size_t)plan->nstreams : 1;
    size_t *ndone = ARENA_ARRAY(&x->arena, size_t, nstreams);
    int32_t *writers = ARENA_ARRAY(&x->arena, int32_t, plan->nvalues ? plan->nvalues : 1);
    if (!ndone || !writers) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        TRY(check_waits(rank, instr, ndone));
        TRY(bind_instr(x, rank, instr, writers, &rank->streams[instr->stream].instrs[ndone[instr->stream]++]));
        mark_signals(rank, instr);
    }
    x->ninstrs += plan->ninstrs;
    return NULL;
}

weft_status bind_rank(weft_executor *x, rank_state *rank) {
    TRY(bind_memory(x, rank));
    TRY(rings_resolve(x, rank));
    TRY(bind_streams(x, rank));
    TRY(bind_instrs(x, rank));
    return x->device->engine->record(x->run, rank);
}
