/* uninitialised.c: reads of bytes that nothing wrote before: a member of a bucket that is never produced, or that its
 * producer wrote elsewhere (before coalesce_tensor, or through a name bound to other bytes); padding that more than a
 * collective looks at. In program order, which is what every order of execution has to keep. Most programs have none,
 * which is seen while they are read (schedule/written.h). */
#include <stdio.h>

#include "proof/checks/checks.h"

/* Of a buffer. */
typedef struct cover {
    uint32_t first_part; /* into parts_written */
    uint32_t next_part;  /* behind the one that was looked for last */
    bool is_written;     /* all of it, or given */
    bool has_parts;
    bool is_told; /* one finding is enough */
} cover;

typedef struct coverage {
    const proof_schedule *s;
    arena *arena;
    cover *covers;       /* by buffer */
    bool *parts_written; /* of all buffers that have parts */
    bool *is_made;       /* by buffer: some op writes it; NULL: nobody asked yet */
    int64_t rank;
    weft_findings *findings;
} coverage;

static bool overlaps(const proof_part *p, const proof_access *x) {
    return p->begin < x->end && x->begin < p->end;
}

/* The first part that ends behind `begin`: most often the one behind that of the last time. */
static size_t part_behind(coverage *c, uint32_t buffer_id, int64_t begin) {
    const proof_buffer *b = &c->s->buffers[buffer_id];
    uint32_t *next = &c->covers[buffer_id].next_part;
    size_t low = 0, high = b->nparts;
    if (*next >= b->nparts) *next = 0;
    if (*next < b->nparts && b->parts[*next].begin <= begin && begin < b->parts[*next].end) return (*next)++;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (b->parts[middle].end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    *next = (uint32_t)low + 1;
    return low;
}

static weft_status report(coverage *c, size_t event, const proof_access *x, int64_t begin, int64_t end,
                          const char *what) {
    weft_finding *found;
    char message[256];
    if (c->covers[x->buffer].is_told) return NULL;
    c->covers[x->buffer].is_told = true;
    TRY(finding_add(c->findings, WEFT_VERDICT_UNINITIALISED_READ, &found));
    if (!found) return NULL;
    TRY(finding_op(c->findings, found, c->s, event, c->rank, "reads"));
    TRY(finding_says(c->findings, &found->value, "%s", c->s->buffers[x->buffer].name));
    found->begin = begin;
    found->end = end;
    return finding_says(c->findings, &found->message, "%s reads bytes %lld to %lld of \"%s\", %s (rank %lld)",
                        finding_op_text(&found->ops[0], message, sizeof message), (long long)begin, (long long)end,
                        found->value, what, (long long)c->rank);
}

/* Whether what the op makes of padding stays in the padding. */
static bool keeps_padding_apart(const proof_event *e) {
    return e->collective != PROOF_NONE || !e->op || op_is(e->op, "scale");
}

static weft_status read_parts(coverage *c, size_t event, const proof_access *x) {
    const proof_buffer *b = &c->s->buffers[x->buffer];
    char what[512];
    size_t i = part_behind(c, x->buffer, x->begin);
    int64_t covered = x->begin;
    for (; i < b->nparts && b->parts[i].begin < x->end; i++) {
        if (b->parts[i].begin > covered && !keeps_padding_apart(&c->s->events[event]))
            return report(c, event, x, covered, b->parts[i].begin, "which are padding that nothing wrote");
        covered = b->parts[i].end;
        if (c->parts_written[c->covers[x->buffer].first_part + i]) continue;
        snprintf(what, sizeof what, "where \"%s\" lies, which nothing wrote there before", b->parts[i].name);
        return report(c, event, x, b->parts[i].begin, b->parts[i].end, what);
    }
    if (covered < x->end && !keeps_padding_apart(&c->s->events[event]))
        return report(c, event, x, covered, x->end, "which are padding that nothing wrote");
    return NULL;
}

/* What no op writes was there before: a feed, if its var does not say so. */
static weft_status is_made(coverage *c, uint32_t buffer_id, bool *out) {
    const proof_schedule *s = c->s;
    bool ask = !c->is_made;
    if (ask && !(c->is_made = ARENA_ARRAY(c->arena, bool, s->nbuffers + 1))) return base_out_of_memory();
    for (size_t k = 0; ask && k < s->naccesses; k++) c->is_made[s->touches[k].buffer] |= s->touches[k].is_write;
    *out = c->is_made[buffer_id];
    return NULL;
}

static weft_status read_bytes(coverage *c, size_t event, const proof_access *x) {
    const proof_buffer *b = &c->s->buffers[x->buffer];
    bool made = false;
    if (c->s->events[event].is_guarded) return NULL;
    if (b->parts) return read_parts(c, event, x);
    TRY(is_made(c, x->buffer, &made));
    return made ? report(c, event, x, x->begin, x->end, "which nothing wrote before") : NULL;
}

/* Whether an op writes a buffer from its own bytes, so that padding holds what it held. */
static bool works_in_place(const coverage *c, size_t event, uint32_t written_buffer) {
    const proof_access *x = c->s->accesses + c->s->events[event].first_access;
    if (!keeps_padding_apart(&c->s->events[event])) return false;
    for (size_t k = 0; k < proof_naccesses(c->s, event); k++)
        if (!x[k].is_write && x[k].buffer == written_buffer) return true;
    return false;
}

/* A fused buffer is written if all of it is at once, padding included. */
static void write_parts(coverage *c, size_t event, const proof_access *x) {
    const proof_buffer *b = &c->s->buffers[x->buffer];
    bool is_whole = !b->nparts || (x->begin <= b->parts[0].begin && x->end > b->parts[b->nparts - 1].end);
    if (is_whole && !works_in_place(c, event, x->buffer)) c->covers[x->buffer].is_written = true;
    for (size_t i = part_behind(c, x->buffer, x->begin); i < b->nparts && overlaps(&b->parts[i], x); i++)
        c->parts_written[c->covers[x->buffer].first_part + i] = true;
}

static weft_status start(coverage *c) {
    const proof_schedule *s = c->s;
    size_t nparts = 0;
    c->covers = ARENA_ARRAY(c->arena, cover, s->nbuffers + 1);
    if (!c->covers) return base_out_of_memory();
    for (size_t i = 0; i < s->nbuffers; i++) {
        c->covers[i] = (cover){.first_part = (uint32_t)nparts, .is_written = s->buffers[i].is_given};
        c->covers[i].has_parts = s->buffers[i].parts != NULL;
        nparts += s->buffers[i].nparts;
    }
    c->parts_written = ARENA_ARRAY(c->arena, bool, nparts + 1);
    return c->parts_written ? NULL : base_out_of_memory();
}

static weft_status sweep(coverage *c) {
    TRY(start(c));
    for (size_t i = 0; i < c->s->nevents; i++) {
        size_t begin = c->s->events[i].first_access, end = begin + proof_naccesses(c->s, i);
        for (size_t k = begin; k < end; k++) {
            proof_touch t = c->s->touches[k];
            if (!t.is_write && !c->covers[t.buffer].is_written) TRY(read_bytes(c, i, &c->s->accesses[k]));
        }
        for (size_t k = begin; k < end; k++) {
            proof_touch t = c->s->touches[k];
            cover *of = &c->covers[t.buffer];
            if (!t.is_write || of->is_written) continue; /* its parts are asked for no more */
            if (of->has_parts)
                write_parts(c, i, &c->s->accesses[k]);
            else
                of->is_written = true;
        }
    }
    return NULL;
}

weft_status check_uninitialised(const proof_schedule *s, int64_t rank, weft_findings *f) {
    arena scratch;
    if (!s->may_read_unwritten) return NULL;
    arena_init(&scratch, &s->context->allocator);
    coverage c = {.s = s, .arena = &scratch, .rank = rank, .findings = f};
    weft_status status = sweep(&c);
    arena_fini(&scratch);
    return status;
}
