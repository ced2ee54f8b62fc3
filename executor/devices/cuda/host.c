/* host.c: the CPU's kernel of an op, between copies. Arguments that overlap in the device's memory overlap in the
 * scratch of the stream in the same way. */
#include <stdlib.h>

#include "executor/devices/cuda/cuda.h"

/* --- what moves --------------------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const cuda_move *x = a, *y = b;
    if (x->back != y->back) return x->back < y->back ? -1 : 1;
    return (x->nbytes < y->nbytes) - (x->nbytes > y->nbytes);
}

static void add_range(void *address, size_t nbytes, cuda_move *moves, size_t *n) {
    if (address && nbytes) moves[(*n)++] = (cuda_move){address, 0, nbytes};
}

static void add_tensor(const tensor *t, cuda_move *moves, size_t *n) {
    if (t->dtype == WEFT_DTYPE_NONE) return;
    add_range(t->data, (size_t)t->numel * weft_dtype_nbytes(t->dtype), moves, n);
    if (t->rows) add_range(t->rows, (size_t)t->dims[0] * sizeof *t->rows, moves, n);
}

/* What overlaps becomes one piece; each gets a place in the scratch, as far behind a cache line as it lies here. */
static size_t lay_out(cuda_move *moves, size_t n, size_t *out_nbytes) {
    size_t kept = 0, at = 0;
    if (n) qsort(moves, n, sizeof *moves, by_address);
    for (size_t i = 0; i < n; i++) {
        cuda_move *last = kept ? &moves[kept - 1] : NULL;
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

static size_t offset_of(const cuda_command *c, const unsigned char *back) {
    size_t i = 0;
    while (back < c->in[i].back || back >= c->in[i].back + c->in[i].nbytes) i++;
    return c->in[i].offset + (size_t)(back - c->in[i].back);
}

static size_t count_in(const cuda_command *c) {
    return c->of->instr->in_first[c->of->instr->schema->ninputs];
}
static size_t count_out(const cuda_command *c) {
    return c->of->instr->out_first[c->of->instr->schema->noutputs];
}

/* All arguments go in, since kernels write parts of results; results come out. */
weft_status cuda_host_record(arena *a, cuda_lane *l, cuda_command *c) {
    size_t nin = count_in(c), nout = count_out(c), nbytes;
    c->in = ARENA_ARRAY(a, cuda_move, 2 * (nin + nout) + 2);
    c->out = ARENA_ARRAY(a, cuda_move, 2 * nout + 2);
    if (!c->in || !c->out) return base_out_of_memory();
    for (size_t i = 0; i < nout; i++) add_tensor(&c->of->out[i], c->out, &c->nout);
    add_range(c->workspace.bytes, c->workspace.block_nbytes, c->out, &c->nout);
    memcpy(c->in, c->out, c->nout * sizeof *c->in);
    c->nin = c->nout;
    for (size_t i = 0; i < nin; i++) add_tensor(&c->of->in[i], c->in, &c->nin);
    c->nin = lay_out(c->in, c->nin, &nbytes);
    for (size_t i = 0; i < c->nout; i++) c->out[i].offset = offset_of(c, c->out[i].back);
    if (nbytes > l->scratch_nbytes) l->scratch_nbytes = nbytes;
    if (c->made.workspace_nbytes > l->host_nbytes) l->host_nbytes = c->made.workspace_nbytes;
    return NULL;
}

static weft_status aim(arena *a, const cuda_command *c, const cuda_lane *l, const tensor *from, size_t n,
                       const tensor **out) {
    tensor *copies = arena_copy(a, from, (n ? n : 1) * sizeof *from);
    if (!copies) return base_out_of_memory();
    for (tensor *t = copies; t < copies + n; t++) {
        if (t->dtype == WEFT_DTYPE_NONE) continue;
        if (t->data && t->numel) t->data = l->scratch + offset_of(c, t->data);
        if (t->rows && t->dims[0])
            t->rows = (int64_t *)(void *)(l->scratch + offset_of(c, (unsigned char *)(void *)t->rows));
    }
    *out = copies;
    return NULL;
}

weft_status cuda_host_aim(arena *a, const cuda_lane *l, cuda_command *c) {
    const tensor *in, *out;
    TRY(aim(a, c, l, c->of->in, count_in(c), &in));
    TRY(aim(a, c, l, c->of->out, count_out(c), &out));
    c->made.call.in = in;
    c->made.call.out = (tensor *)out;
    c->made.call.workspace = c->workspace.bytes ? l->scratch + offset_of(c, c->workspace.bytes) : l->host_workspace;
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void compute(cuda_command *c, int round) {
    cuda_run *run = c->lane->rank->run;
    if (cuda_is_aborted(run)) return;
    weft_status status = round < 0 ? c->made.run(&c->made.call) : c->made.rounds->work(&c->made.call, round);
    if (status) services->fail(run->head.executor, c->made.call.rank, c->of->instr, status);
}

static void CUDART_CB run_kernel(void *arg) {
    compute(arg, -1);
}

static void CUDART_CB run_round(void *arg) {
    const cuda_round *r = arg;
    compute(r->command, r->number);
}

weft_status cuda_host_issue(cuda_command *c, const cuda_round *round) {
    cuda_lane *l = c->lane;
    for (size_t i = 0; i < c->nin; i++)
        CUDA_TRY(MemcpyAsync, l->scratch + c->in[i].offset, c->in[i].back, c->in[i].nbytes, cudaMemcpyDeviceToHost,
                 l->stream);
    if (round)
        CUDA_TRY(LaunchHostFunc, l->stream, run_round, (void *)(uintptr_t)round);
    else
        CUDA_TRY(LaunchHostFunc, l->stream, run_kernel, c);
    for (size_t i = 0; i < c->nout; i++)
        CUDA_TRY(MemcpyAsync, c->out[i].back, l->scratch + c->out[i].offset, c->out[i].nbytes, cudaMemcpyHostToDevice,
                 l->stream);
    return NULL;
}
