/* far_record.c: a rank's instructions become commands, and what moves between the device's memory and a stream's
 * scratch for each. Arguments that overlap in its memory overlap in the scratch in the same way. */
#include <stdlib.h>

#include "tests/support/far_run.h"

static int by_address(const void *a, const void *b) {
    const far_move *x = a, *y = b;
    if (x->back != y->back) return x->back < y->back ? -1 : 1;
    return (x->nbytes < y->nbytes) - (x->nbytes > y->nbytes);
}

static void add_range(const void *address, size_t nbytes, far_move *moves, size_t *n) {
    if (address && nbytes) moves[(*n)++] = (far_move){far_back(address), 0, nbytes};
}

static void add_tensor(const tensor *t, far_move *moves, size_t *n) {
    if (t->dtype == WEFT_DTYPE_NONE) return;
    add_range(t->data, (size_t)t->numel * weft_dtype_nbytes(t->dtype), moves, n);
    if (t->rows) add_range(t->rows, (size_t)t->dims[0] * sizeof *t->rows, moves, n);
}

/* What overlaps becomes one piece; each gets a place in the scratch, as far behind a cache line as it lies here. */
static size_t lay_out(far_move *moves, size_t n, size_t *out_nbytes) {
    size_t kept = 0, at = 0;
    if (n) qsort(moves, n, sizeof *moves, by_address);
    for (size_t i = 0; i < n; i++) {
        far_move *last = kept ? &moves[kept - 1] : NULL;
        if (last && moves[i].back < last->back + last->nbytes) {
            size_t end = (size_t)(moves[i].back - last->back) + moves[i].nbytes;
            if (end > last->nbytes) last->nbytes = end;
        } else {
            moves[kept++] = moves[i];
        }
    }
    for (size_t i = 0; i < kept; i++) {
        moves[i].offset = (at + 63) / 64 * 64 + ((uintptr_t)moves[i].back & 63);
        at = moves[i].offset + moves[i].nbytes;
    }
    *out_nbytes = at;
    return kept;
}

static size_t offset_of(const far_command *c, const unsigned char *back) {
    size_t i = 0;
    while (back < c->in[i].back || back >= c->in[i].back + c->in[i].nbytes) i++;
    return c->in[i].offset + (size_t)(back - c->in[i].back);
}

static size_t count_in(const far_command *c) {
    return c->of->instr->in_first[c->of->instr->schema->ninputs];
}
static size_t count_out(const far_command *c) {
    return c->of->instr->out_first[c->of->instr->schema->noutputs];
}

/* All arguments go in, since kernels write parts of results; results come out. */
static weft_status plan_moves(arena *a, far_lane *l, far_command *c) {
    size_t nin = count_in(c), nout = count_out(c), nbytes;
    c->in = ARENA_ARRAY(a, far_move, 2 * (nin + nout) + 2);
    c->out = ARENA_ARRAY(a, far_move, 2 * nout + 2);
    if (!c->in || !c->out) return base_out_of_memory();
    for (size_t i = 0; i < nout; i++) add_tensor(&c->of->out[i], c->out, &c->nout);
    add_range(c->workspace.bytes, c->workspace.block_nbytes, c->out, &c->nout);
    memcpy(c->in, c->out, c->nout * sizeof *c->in);
    c->nin = c->nout;
    for (size_t i = 0; i < nin; i++) add_tensor(&c->of->in[i], c->in, &c->nin);
    c->nin = lay_out(c->in, c->nin, &nbytes);
    for (size_t i = 0; i < c->nout; i++) c->out[i].offset = offset_of(c, c->out[i].back);
    if (nbytes > l->scratch_nbytes) l->scratch_nbytes = nbytes;
    return NULL;
}

/* The engine reads and writes the device's memory, so the kernel's workspace lies there too. */
static weft_status record_rounds(far_run *run, const rank_state *rank, far_command *c) {
    int n = c->made.rounds->count;
    device *d = run->head.device;
    c->rounds = ARENA_ARRAY(&run->head.executor->arena, far_round, (size_t)n + 1);
    if (!c->rounds) return base_out_of_memory();
    for (int k = 0; k <= n; k++) c->rounds[k] = (far_round){c, k};
    TRY(d->engine->alloc(d, rank->rank, DEVICE_OWN, c->made.workspace_nbytes, &c->workspace));
    c->on_device.workspace = c->workspace.bytes;
    return NULL;
}

static weft_status record_instr(far_run *run, const rank_state *rank, far_lane *l, far_command *c) {
    device_instr *i = c->of;
    TRY(device_call_make(&run->head, rank, i, 1, &c->made));
    c->guards[0] = i->outer_guard ? far_back(i->outer_guard) : NULL;
    c->guards[1] = i->guard ? far_back(i->guard) : NULL;
    c->on_device = c->made.call;
    c->is_enqueued = c->made.rounds && i->ring && comm_can_enqueue(i->ring->comm, device_far.name);
    if (c->is_enqueued) TRY(record_rounds(run, rank, c));
    if (c->made.workspace_nbytes > l->workspace_nbytes) l->workspace_nbytes = c->made.workspace_nbytes;
    return plan_moves(&run->head.executor->arena, l, c);
}

/* --- scratch ------------------------------------------------------------------------------------------------------ */

static weft_status aim(arena *a, const far_command *c, const far_lane *l, const tensor *from, size_t n,
                       const tensor **out) {
    tensor *copies = arena_copy(a, from, (n ? n : 1) * sizeof *from);
    if (!copies) return base_out_of_memory();
    for (tensor *t = copies; t < copies + n; t++) {
        if (t->dtype == WEFT_DTYPE_NONE) continue;
        if (t->data && t->numel) t->data = l->scratch + offset_of(c, far_back(t->data));
        if (t->rows && t->dims[0]) t->rows = (int64_t *)(void *)(l->scratch + offset_of(c, far_back(t->rows)));
    }
    *out = copies;
    return NULL;
}

static weft_status make_scratch(arena *a, far_lane *l) {
    if (posix_memalign((void **)&l->scratch, 64, l->scratch_nbytes + 64) ||
        posix_memalign((void **)&l->workspace, 64, l->workspace_nbytes + 64))
        return base_out_of_memory();
    for (size_t i = 0; i < l->state->ninstrs; i++) {
        far_command *c = &l->commands[i];
        const tensor *in, *out;
        TRY(aim(a, c, l, c->of->in, count_in(c), &in));
        TRY(aim(a, c, l, c->of->out, count_out(c), &out));
        c->made.call.in = in;
        c->made.call.out = (tensor *)out;
        c->made.call.workspace =
            c->workspace.bytes ? l->scratch + offset_of(c, far_back(c->workspace.bytes)) : l->workspace;
    }
    return NULL;
}

/* --- ranks -------------------------------------------------------------------------------------------------------- */

static weft_status make_lanes(far_run *run, rank_state *rank, far_lane **out) {
    arena *a = &run->head.executor->arena;
    far_lane *lanes = ARENA_ARRAY(a, far_lane, rank->plan->nstreams);
    if (!lanes) return base_out_of_memory();
    run->ranks[run->nranks++] = (far_rank){.run = run, .state = rank, .lanes = lanes};
    for (int i = 0; i < rank->plan->nstreams; i++) {
        far_lane *l = &lanes[i];
        l->run = run;
        l->state = &rank->streams[i];
        l->of_rank = lanes;
        l->commands = ARENA_ARRAY(a, far_command, l->state->ninstrs + 1);
        l->events = ARENA_ARRAY(a, trace_event, l->state->ninstrs + 1);
        if (!l->commands || !l->events) return base_out_of_memory();
        for (size_t k = 0; k < l->state->ninstrs; k++)
            l->commands[k] = (far_command){.of = &l->state->instrs[k], .lane = l, .position = k};
    }
    *out = lanes;
    return NULL;
}

weft_status far_record(device_run *head, rank_state *rank) {
    far_run *run = far_run_of(head);
    const weft_plan *plan = rank->plan;
    far_lane *lanes = NULL;
    TRY(make_lanes(run, rank, &lanes));
    for (size_t i = 0; i < plan->ninstrs; i++) {
        far_lane *l = &lanes[plan->instrs[i].stream];
        TRY(record_instr(run, rank, l, &l->commands[plan->instrs[i].position]));
    }
    for (int i = 0; i < plan->nstreams; i++) TRY(make_scratch(&head->executor->arena, &lanes[i]));
    return NULL;
}
