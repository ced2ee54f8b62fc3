/* uninitialised.c: reads of bytes that nothing wrote before: a member of a bucket that is never produced, or that its
 * producer wrote elsewhere (before coalesce_tensor, or through a name bound to other bytes); padding that more than a
 * collective looks at. In program order, which is what every order of execution has to keep. */
#include <stdio.h>

#include "proof/checks.h"

typedef struct coverage {
    const proof_schedule *s;
    arena *arena;
    bool *written;        /* by buffer: all of it */
    bool *parts_written;  /* of all buffers that have parts */
    uint32_t *first_part; /* by buffer: into parts_written */
    bool *is_made;        /* by buffer: some op writes it; NULL: nobody asked yet */
    bool *told;           /* by buffer: one finding is enough */
    int64_t rank;
    weft_findings *findings;
} coverage;

static bool overlaps(const proof_part *p, const proof_access *x) {
    return p->begin < x->end && x->begin < p->end;
}

/* The first part that ends behind `begin`. */
static size_t part_behind(const proof_buffer *b, int64_t begin) {
    size_t low = 0, high = b->nparts;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (b->parts[middle].end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static weft_status tell(coverage *c, size_t event, const proof_access *x, int64_t begin, int64_t end,
                        const char *what) {
    weft_finding *found;
    char words[256];
    if (c->told[x->buffer]) return NULL;
    c->told[x->buffer] = true;
    TRY(finding_add(c->findings, WEFT_VERDICT_UNINITIALISED_READ, &found));
    if (!found) return NULL;
    TRY(finding_op(c->findings, found, c->s, event, c->rank, "reads"));
    TRY(finding_says(c->findings, &found->value, "%s", c->s->buffers[x->buffer].name));
    found->begin = begin;
    found->end = end;
    return finding_says(c->findings, &found->message, "%s reads bytes %lld to %lld of \"%s\", %s (rank %lld)",
                        finding_op_text(&found->ops[0], words, sizeof words), (long long)begin, (long long)end,
                        found->value, what, (long long)c->rank);
}

/* Whether what the op makes of padding stays in the padding. */
static bool keeps_padding_apart(const proof_event *e) {
    return e->collective != PROOF_NONE || !e->op || op_is(e->op, "scale");
}

static weft_status read_parts(coverage *c, size_t event, const proof_access *x) {
    const proof_buffer *b = &c->s->buffers[x->buffer];
    char what[512];
    size_t i = part_behind(b, x->begin);
    int64_t covered = x->begin;
    for (; i < b->nparts && b->parts[i].begin < x->end; i++) {
        if (b->parts[i].begin > covered && !keeps_padding_apart(&c->s->events[event]))
            return tell(c, event, x, covered, b->parts[i].begin, "which are padding that nothing wrote");
        covered = b->parts[i].end;
        if (c->parts_written[c->first_part[x->buffer] + i]) continue;
        snprintf(what, sizeof what, "where \"%s\" lies, which nothing wrote there before", b->parts[i].name);
        return tell(c, event, x, b->parts[i].begin, b->parts[i].end, what);
    }
    if (covered < x->end && !keeps_padding_apart(&c->s->events[event]))
        return tell(c, event, x, covered, x->end, "which are padding that nothing wrote");
    return NULL;
}

/* What no op writes was there before: a feed, if its var does not say so. */
static weft_status is_made(coverage *c, uint32_t buffer_id, bool *out) {
    const proof_schedule *s = c->s;
    bool ask = !c->is_made;
    if (ask && !(c->is_made = ARENA_ARRAY(c->arena, bool, s->nbuffers + 1))) return base_out_of_memory();
    for (size_t k = 0; ask && k < s->naccesses; k++) c->is_made[s->accesses[k].buffer] |= s->accesses[k].is_write;
    *out = c->is_made[buffer_id];
    return NULL;
}

static weft_status read_bytes(coverage *c, size_t event, const proof_access *x) {
    const proof_buffer *b = &c->s->buffers[x->buffer];
    bool made = false;
    if (c->written[x->buffer] || b->is_given || c->s->events[event].is_guarded) return NULL;
    if (b->parts) return read_parts(c, event, x);
    TRY(is_made(c, x->buffer, &made));
    return made ? tell(c, event, x, x->begin, x->end, "which nothing wrote before") : NULL;
}

/* Whether an op writes a buffer from its own bytes, so that padding holds what it held. */
static bool works_in_place(const coverage *c, size_t event, uint32_t written_buffer) {
    const proof_access *x = c->s->accesses + c->s->events[event].first_access;
    if (!keeps_padding_apart(&c->s->events[event])) return false;
    for (size_t k = 0; k < proof_naccesses(c->s, event); k++)
        if (!x[k].is_write && x[k].buffer == written_buffer) return true;
    return false;
}

/* `written` of a fused buffer: all of it at once, padding included. */
static void write_bytes(coverage *c, size_t event, const proof_access *x) {
    if (c->written[x->buffer]) return; /* and its parts are asked for no more */
    const proof_buffer *b = &c->s->buffers[x->buffer];
    bool is_whole = !b->nparts || (x->begin <= b->parts[0].begin && x->end > b->parts[b->nparts - 1].end);
    if (!b->parts || (is_whole && !works_in_place(c, event, x->buffer))) c->written[x->buffer] = true;
    for (size_t i = b->parts ? part_behind(b, x->begin) : 0; i < b->nparts && overlaps(&b->parts[i], x); i++)
        c->parts_written[c->first_part[x->buffer] + i] = true;
}

static weft_status start(coverage *c) {
    const proof_schedule *s = c->s;
    size_t nparts = 0;
    c->written = ARENA_ARRAY(c->arena, bool, s->nbuffers + 1);
    c->told = ARENA_ARRAY(c->arena, bool, s->nbuffers + 1);
    c->first_part = ARENA_ARRAY(c->arena, uint32_t, s->nbuffers + 1);
    if (!c->written || !c->told || !c->first_part) return base_out_of_memory();
    for (size_t i = 0; i < s->nbuffers; i++) {
        c->first_part[i] = (uint32_t)nparts;
        nparts += s->buffers[i].nparts;
    }
    c->parts_written = ARENA_ARRAY(c->arena, bool, nparts + 1);
    return c->parts_written ? NULL : base_out_of_memory();
}

static weft_status sweep(coverage *c) {
    TRY(start(c));
    for (size_t i = 0; i < c->s->nevents; i++) {
        const proof_access *first = c->s->accesses + c->s->events[i].first_access;
        size_t n = proof_naccesses(c->s, i);
        for (size_t k = 0; k < n; k++)
            if (!first[k].is_write) TRY(read_bytes(c, i, &first[k]));
        for (size_t k = 0; k < n; k++)
            if (first[k].is_write) write_bytes(c, i, &first[k]);
    }
    return NULL;
}

weft_status check_uninitialised(const proof_schedule *s, int64_t rank, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    coverage c = {.s = s, .arena = &scratch, .rank = rank, .findings = f};
    weft_status status = sweep(&c);
    arena_fini(&scratch);
    return status;
}
