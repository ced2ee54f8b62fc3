/* record.c: a rank's instructions become commands: a kernel of the GPU, one of the host, or a collective on the stream.
 */
#include "executor/comm/nccl/engine.h"
#include "executor/devices/cuda/epilogue.h"
#include "executor/devices/cuda/graph.h"
#include "executor/devices/cuda/group.h"
#include "executor/devices/cuda/half.h"
#include "executor/devices/cuda/ranges.h"

/* --- commands ----------------------------------------------------------------------------------------------------- */

static weft_status refuse(const rank_state *rank, const plan_instr *instr, const char *why) {
    char op[200];
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "rank %d, %s: it would run on the host: %s", rank->rank,
                              instr_place(instr, op, sizeof op), why);
}

static void discard_state(cuda_command *c, const cuda_op *op) {
    if (op && op->discard && c->on_device.state) op->discard(c->on_device.state);
    c->on_device.state = NULL;
    c->half = NULL;
}

/* What refused because of half types may take fp32 copies. `why`: what it said; taken. */
static weft_status again_on_copies(const cuda_run *run, const cuda_op *op, cuda_command *c, kernel_prepare *p,
                                   weft_status why) {
    half_view *v = ARENA_NEW(&run->head.executor->arena, half_view);
    if (!v || weft_status_code(why) != WEFT_UNSUPPORTED || !half_adaptor_fits(p)) return why;
    weft_status_free(why);
    p->state = NULL;
    p->workspace_nbytes = 0;
    weft_status status = cuda_half_prepare(p, op, v);
    c->half = v;
    c->on_device.state = v->kernel.state;
    if (status) discard_state(c, op);
    return status;
}

/* Types without addresses, as prepare sees them. */
static weft_status prepare_op(const cuda_run *run, const cuda_op *op, cuda_command *c) {
    arena *a = &run->head.executor->arena;
    const kernel_call *call = &c->on_device;
    kernel_prepare p = {.op = c->of->instr->op,
                        .schema = call->schema,
                        .in = call->in,
                        .out = call->out,
                        .in_first = call->in_first,
                        .out_first = call->out_first,
                        .arena = a,
                        .rank = call->rank,
                        .nranks = call->nranks,
                        .ring_nranks = 1,
                        .nthreads = 1};
    weft_status status = op->prepare ? op->prepare(&p) : NULL;
    c->on_device.state = p.state;
    if (status) {
        discard_state(c, op);
        TRY(again_on_copies(run, op, c, &p, status));
    }
    if (p.workspace_nbytes > c->lane->device_nbytes) c->lane->device_nbytes = p.workspace_nbytes;
    return NULL;
}

static weft_status open_handle(cuda_rank *r, const cuda_op *op) {
    if (!op->open || r->handle) return NULL;
    r->close_handle = op->close;
    return op->open(&r->handle);
}

/* Which kernel runs: the GPU's, if it takes the op. */
static weft_status choose(const cuda_run *run, const rank_state *rank, cuda_command *c) {
    arena *a = &run->head.executor->arena;
    const plan_instr *instr = c->of->instr;
    const cuda_op *op = cuda_op_find(instr->schema);
    if (c->is_enqueued) return NULL;
    c->why_host = cuda_no_kernel;
    if (op) {
        weft_status status = prepare_op(run, op, c);
        if (!status) status = open_handle(c->lane->rank, op);
        if (!status) {
            c->op = op;
            c->why_host = NULL;
            return NULL;
        }
        discard_state(c, op); /* it was prepared, and no handle opened */
        if (weft_status_code(status) != WEFT_UNSUPPORTED) return status;
        c->why_host = arena_copy(a, weft_status_message(status), strlen(weft_status_message(status)) + 1);
        weft_status_free(status);
        if (!c->why_host) return base_out_of_memory();
    }
    return run->head.executor->options.strict_device ? refuse(rank, instr, c->why_host) : NULL;
}

/* The engine reads and writes the device's memory, so the kernel's workspace lies there too. */
static weft_status record_rounds(cuda_run *run, const rank_state *rank, cuda_command *c) {
    int n = c->made.rounds->count;
    c->rounds = ARENA_ARRAY(&run->head.executor->arena, cuda_round, (size_t)n + 1);
    if (!c->rounds) return base_out_of_memory();
    for (int k = 0; k <= n; k++) c->rounds[k] = (cuda_round){c, k};
    TRY(cuda_alloc(run->head.device, rank->rank, DEVICE_OWN, c->made.workspace_nbytes, &c->workspace));
    run->nbytes += c->workspace.block_nbytes;
    c->on_device.workspace = c->workspace.bytes;
    TRY(nccl_config_make(&run->head.executor->arena, c->of->instr, &c->config));
    for (int k = 0; k < n; k++) {
        comm_request q;
        c->made.rounds->ask(&c->on_device, k, &q);
        TRY(nccl_announce(c->on_device.ring, &q, c->config));
    }
    return NULL;
}

static weft_status make_events(const cuda_run *run, cuda_command *c) {
    if (c->of->signals) CUDA_TRY(EventCreateWithFlags, &c->ended, cudaEventDisableTiming);
    if (!run->head.timed) return NULL;
    CUDA_TRY(EventCreateWithFlags, &c->began_at, cudaEventDefault);
    CUDA_TRY(EventCreateWithFlags, &c->ended_at, cudaEventDefault);
    return NULL;
}

/* Events are set in the order of the plan: a wait for one that comes later would find the last step's. */
static weft_status check_waits(const cuda_lane *lanes, const size_t *nrecorded, const plan_instr *instr) {
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        if (w->count > 0 &&
            ((size_t)w->count > nrecorded[w->stream] || !lanes[w->stream].commands[w->count - 1].of->signals))
            return weft_status_create(WEFT_UNSUPPORTED, NULL, "op #%d waits for an instruction that is launched later",
                                      instr->op_index);
    }
    return NULL;
}

static weft_status record_instr(cuda_run *run, const rank_state *rank, cuda_lane *l, cuda_command *c) {
    device_instr *i = c->of;
    TRY(services->call_make(&run->head, rank, i, 1, &c->made));
    c->guards[0] = i->outer_guard;
    c->guards[1] = i->guard;
    c->on_device = c->made.call;
    TRY(cuda_range_name(&run->head.executor->arena, rank->plan, i->instr, &c->range));
    c->is_enqueued = c->made.rounds && i->ring && comm_can_enqueue(i->ring->comm, run->head.device->engine->name);
    TRY(make_events(run, c));
    if (c->is_enqueued) TRY(record_rounds(run, rank, c));
    TRY(choose(run, rank, c));
    if (c->op || (c->is_enqueued && !c->made.rounds->work)) return NULL;
    return cuda_host_record(&run->head.executor->arena, l, c);
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

static weft_status make_lane(cuda_run *run, cuda_rank *r, cuda_lane *l, int stream) {
    arena *a = &run->head.executor->arena;
    int least = 0, greatest = 0;
    l->rank = r;
    l->state = &r->state->streams[stream];
    l->commands = ARENA_ARRAY(a, cuda_command, l->state->ninstrs + 1);
    if (!l->commands) return base_out_of_memory();
    for (size_t k = 0; k < l->state->ninstrs; k++)
        l->commands[k] = (cuda_command){.of = &l->state->instrs[k], .lane = l, .position = k};
    CUDA_TRY(DeviceGetStreamPriorityRange, &least, &greatest);
    CUDA_TRY(StreamCreateWithPriority, &l->stream, cudaStreamNonBlocking, stream ? greatest : least);
    CUDA_TRY(EventCreateWithFlags, &l->end, cudaEventDisableTiming);
    return NULL;
}

static weft_status make_lanes(cuda_run *run, rank_state *state, cuda_rank **out) {
    cuda_lane *lanes = ARENA_ARRAY(&run->head.executor->arena, cuda_lane, state->plan->nstreams);
    if (!lanes) return base_out_of_memory();
    cuda_rank *r = &run->ranks[run->nranks++];
    *r = (cuda_rank){.run = run, .state = state, .lanes = lanes};
    TRY(cuda_use(cuda_device_of(run->head.device), state->rank));
    for (int i = 0; i < state->plan->nstreams; i++) TRY(make_lane(run, r, &lanes[i], i));
    CUDA_TRY(MallocHost, (void **)&r->guard_bytes, 2);
    CUDA_TRY(EventCreateWithFlags, &r->guards_read, cudaEventDisableTiming);
    if (run->head.timed) CUDA_TRY(EventCreateWithFlags, &r->began_at, cudaEventDefault);
    *out = r;
    return NULL;
}

static weft_status make_scratch(cuda_run *run, cuda_lane *l) {
    if (l->scratch_nbytes) CUDA_TRY(MallocHost, (void **)&l->scratch, l->scratch_nbytes);
    if (l->host_nbytes) CUDA_TRY(MallocHost, (void **)&l->host_workspace, l->host_nbytes);
    if (l->device_nbytes) CUDA_TRY(Malloc, (void **)&l->device_workspace, l->device_nbytes);
    run->nbytes += l->scratch_nbytes + l->host_nbytes + l->device_nbytes;
    for (size_t i = 0; i < l->state->ninstrs; i++) {
        cuda_command *c = &l->commands[i];
        if (!c->is_enqueued) c->on_device.workspace = l->device_workspace;
        if (c->in) TRY(cuda_host_aim(&run->head.executor->arena, l, c));
    }
    return cuda_group_lane(l);
}

weft_status cuda_record(device_run *head, rank_state *state) {
    cuda_run *run = cuda_run_of(head);
    const weft_plan *plan = state->plan;
    cuda_rank *r = NULL;
    TRY(make_lanes(run, state, &r));
    size_t *nrecorded = ARENA_ARRAY(&head->executor->arena, size_t, plan->nstreams);
    if (!nrecorded) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        cuda_lane *l = &r->lanes[instr->stream];
        l->commands[instr->position].index = i;
        TRY(check_waits(r->lanes, nrecorded, instr));
        TRY(record_instr(run, state, l, &l->commands[instr->position]));
        nrecorded[instr->stream]++;
        if (instr->schema->effects & OP_RANDOM) r->draws = true;
    }
    TRY(cuda_epilogues(r));
    for (int i = 0; i < plan->nstreams; i++) TRY(make_scratch(run, &r->lanes[i]));
    CUDA_TRY(MallocHost, (void **)&r->step, sizeof *r->step);
    CUDA_TRY(Malloc, (void **)&r->own_step, sizeof *r->own_step);
    return cuda_graph_record(r);
}

static void discard_lane(cuda_rank *r, cuda_lane *l) {
    for (size_t i = 0; l->commands && i < l->state->ninstrs; i++) {
        cuda_command *c = &l->commands[i];
        cuda_group_discard(r->run->head.device, c->group);
        discard_state(c, c->op);
        nccl_keep(r->run->head.device, c->on_device.ring, &c->workspace);
        if (c->ended) cuda.EventDestroy(c->ended);
        if (c->began_at) cuda.EventDestroy(c->began_at);
        if (c->ended_at) cuda.EventDestroy(c->ended_at);
    }
    if (l->end) cuda.EventDestroy(l->end);
    if (l->stream) cuda.StreamDestroy(l->stream);
    if (l->scratch) cuda.FreeHost(l->scratch);
    if (l->host_workspace) cuda.FreeHost(l->host_workspace);
    if (l->device_workspace) cuda.Free(l->device_workspace);
}

void cuda_discard_rank(cuda_rank *r) {
    cuda_turn_to(cuda_gpu_of(cuda_device_of(r->run->head.device), r->state->rank));
    cuda_graph_discard(r);
    bool may_wait = cuda_is_aborted(r->run); /* an abort puts a collective behind a step */
    for (size_t k = 0; k < r->state->nrings; k++) may_wait &= nccl_release(r->state->rings[k].comm);
    for (int k = 0; k < r->state->plan->nstreams; k++) {
        if (may_wait && r->lanes[k].stream) cuda_result(cuda.StreamSynchronize(r->lanes[k].stream));
        discard_lane(r, &r->lanes[k]);
    }
    if (r->handle) r->close_handle(r->handle);
    if (r->step) cuda.FreeHost(r->step);
    if (r->own_step) cuda.Free(r->own_step);
    if (r->guard_bytes) cuda.FreeHost(r->guard_bytes);
    if (r->guards_read) cuda.EventDestroy(r->guards_read);
    if (r->began_at) cuda.EventDestroy(r->began_at);
}
