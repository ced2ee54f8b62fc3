/* overlap_comm: gradient collectives run on a stream of their own, beside the backward pass.
 *
 * Every sync, fused or not, goes to the stream with its scales, whatever other passes did or declined. Events then
 * order it by the bytes: it starts after the last op that touched them. The first op of another stream that reads or
 * writes them, through an alias or in a sub-block too, waits for its end (sync_events.c). Nothing is inserted that
 * Paddle's CPU executor cannot run: where Paddle's own overlap put a c_wait_compute right before such a reduce, the
 * events replace it; waits of other origin stay. Sources: paddle.md 11.9, 11.10, 11.12, 11.18. */
#include "passes/certificate.h"
#include "passes/grad_sync.h"

static const weft_option options[] = {
    {"stream", WEFT_OPTION_STRING, "gradient_sync", NULL, "name of the stream; all rings share it, in program order"},
};

/* Paddle names a stream's ops so that its executor uses that stream, not the ring's. */
static weft_status use_given_stream(weft_op *reduce) {
    const weft_attr *there = op_find_attr(reduce, "use_calc_stream");
    const collective_schema *c = op_collective(reduce);
    if (!there && !(c && c->stream == COLLECTIVE_CALC_STREAM)) return NULL;
    if (!there || there->type == ATTR_BOOLEAN)
        return there && there->u.b ? NULL : weft_op_set_attr_bool(reduce, "use_calc_stream", true);
    weft_attr *a;
    TRY(op_set_attr(reduce, "use_calc_stream", &a));
    a->u.i = 1;
    return NULL;
}

static bool is_on(const weft_op *op, const char *stream) {
    return op->dist && op->dist->execution_stream && strcmp(op->dist->execution_stream, stream) == 0;
}

static bool is_moved(const grad_syncs *syncs, const grad_sync *s, const char *stream) {
    FOR_EACH_SYNC_OP(reduce, syncs, s, GRAD_REDUCE) if (!is_on(reduce, stream)) return false;
    FOR_EACH_SYNC_OP(scale, syncs, s, GRAD_SCALE) if (!is_on(scale, stream)) return false;
    return true;
}

static weft_status move_op(weft_pass_context *pass, weft_op *op, const char *stream) {
    TRY(pass_claim_add(pass, (pass_claim){.kind = CLAIM_STREAM, .op = op, .text = stream}));
    return weft_op_set_stream(op, stream);
}

static weft_status move_sync(weft_pass_context *pass, const grad_syncs *syncs, const grad_sync *s, const char *stream,
                             int64_t *nwaits) {
    FOR_EACH_SYNC_OP(reduce, syncs, s, GRAD_REDUCE) {
        weft_op *wait = grad_reduce_wait(reduce);
        TRY(move_op(pass, reduce, stream));
        TRY(use_given_stream(reduce));
        if (!wait) continue;
        weft_op_remove(wait);
        *nwaits += 1;
    }
    FOR_EACH_SYNC_OP(scale, syncs, s, GRAD_SCALE) TRY(move_op(pass, scale, stream));
    return NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    const char *stream = weft_pass_option_string(pass, "stream");
    if (!*stream) return weft_pass_refuse(pass, "expected the name of a stream, found none");
    grad_syncs syncs;
    TRY(grad_syncs_find(pass, program, &syncs));
    if (syncs.count == 0) return grad_syncs_none(pass, &syncs);
    int64_t moved = 0, waits = 0;
    for (size_t i = 0; i < syncs.count; i++) {
        const grad_sync *s = &syncs.items[i];
        if (!is_moved(&syncs, s, stream)) moved += (int64_t)s->nreduces;
        TRY(move_sync(pass, &syncs, s, stream, &waits));
    }
    TRY(weft_pass_count_add(pass, "collectives moved", moved));
    if (waits) TRY(weft_pass_did(pass, "replaced %lld c_wait_compute by events", (long long)waits));
    grad_syncs_keep(pass, program);
    size_t nevents;
    TRY(grad_sync_write_events(pass, program, &nevents));
    TRY(weft_pass_count_add(pass, "events", (int64_t)nevents));
    return weft_pass_did(pass, "%zu gradients are reduced on stream \"%s\", ordered by %zu events", syncs.count, stream,
                         nevents);
}

const weft_pass pass_overlap_comm = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run, .keeps_places = true};
