/* communicators.c: which communicator an op of Paddle's executor really uses (interpreter_util.cc:
 * SetDeviceCommContext).
 *
 * A named stream is a device context of its own, and takes the communicator of the first op with a ring that runs on
 * it. The older c_* ops look their ring's communicator up; all_reduce and its kin use the context's. So the second
 * ring's ops on one stream communicate with the first ring's ranks. */
#include "proof/checks/checks.h"

static bool uses_its_context(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return c && c->paddle & PADDLE_CONTEXT;
}

static bool same_ranks(const weft_program *p, int64_t x, int64_t y) {
    const ring *a = program_find_ring(p, x), *b = program_find_ring(p, y);
    if (x == y || (!a && !b)) return true;
    if (!a || !b || a->nranks != b->nranks) return false;
    for (int i = 0; i < a->nranks; i++)
        if (ring_index(b, a->ranks[i]) < 0) return false;
    return true;
}

static weft_status report(const proof_schedule *s, const proof_collective *first, const proof_collective *c,
                          int64_t rank, weft_findings *f) {
    weft_finding *found;
    char message[256], attacher[256];
    TRY(finding_add(f, WEFT_VERDICT_WRONG_DATA, &found));
    if (!found) return NULL;
    TRY(finding_op(f, found, s, c->event, rank, "communicates"));
    TRY(finding_op(f, found, s, first->event, rank, "communicates first"));
    found->ring = c->ring;
    finding_op_text(&found->ops[0], message, sizeof message);
    finding_op_text(&found->ops[1], attacher, sizeof attacher);
    TRY(finding_says(
        f, &found->message,
        "%s asks for ring %lld, but its stream %s has the communicator of ring %lld, which %s attached to it "
        "(rank %lld)",
        message, (long long)c->ring, found->ops[0].stream, (long long)first->ring, attacher, (long long)rank));
    return finding_says(f, &found->remedy, "a stream of its own for ring %lld", (long long)c->ring);
}

/* Some collectives say themselves how many ranks they expect: as many as their ring has. */
weft_status check_ring_sizes(const proof_schedule *s, int64_t rank, weft_findings *f) {
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_collective *c = &s->collectives[i];
        const ring *r = c->made_for == PROOF_UNSET ? NULL : program_find_ring(s->program, c->ring);
        if (!r || c->made_for == r->nranks) continue;
        weft_finding *found;
        char message[256];
        TRY(finding_add(f, WEFT_VERDICT_INVALID_PROGRAM, &found));
        if (!found) return NULL;
        TRY(finding_op(f, found, s, c->event, rank, "communicates"));
        found->ring = c->ring;
        finding_op_text(&found->ops[0], message, sizeof message);
        TRY(finding_says(f, &found->message, "%s is made for %lld ranks, ring %lld has %d (rank %lld)", message,
                         (long long)c->made_for, (long long)c->ring, (int)r->nranks, (long long)rank));
    }
    return NULL;
}

weft_status check_communicators(const proof_schedule *s, int64_t rank, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    const proof_collective **first = ARENA_ARRAY(&scratch, const proof_collective *, s->nstreams + 1); /* by stream */
    weft_status status = first ? NULL : base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives && !status; i++) {
        const proof_collective *c = &s->collectives[i];
        const proof_event *e = &s->events[c->event];
        if (!e->stream) continue;
        if (!first[e->stream]) first[e->stream] = c;
        const proof_collective *attached = first[e->stream];
        if (e->op && uses_its_context(e->op) && !same_ranks(s->program, attached->ring, c->ring))
            status = report(s, attached, c, rank, f);
    }
    arena_fini(&scratch);
    return status;
}
