/* certificate.c: weft_certificate_check: the steps.
 *
 * The certificate must be of this pair (digests); its lists of ops must add up; then both programs are followed
 * (walk.c) and each claim is held against what was found (claims.c). */
#include "proof/certificate/certificate.h"

#include "program/digest.h"

static weft_status list_ops(cert_checker *c, const weft_program *p, weft_op ***out, size_t *out_count) {
    const weft_block *b = p->blocks[0];
    *out_count = 0;
    if (!(*out = ARENA_ARRAY(c->arena, weft_op *, b->nops + 1))) return base_out_of_memory();
    FOR_EACH_OP(op, b)(*out)[(*out_count)++] = op;
    return NULL;
}

static weft_status check_pair(cert_checker *c) {
    char before[PROGRAM_DIGEST_NBYTES], after[PROGRAM_DIGEST_NBYTES];
    const char *now = c->doc.before;
    program_digest(c->before.p, before);
    program_digest(c->after.p, after);
    if (strcmp(before, c->doc.before) != 0)
        return cert_refuse(c, "it is another program's: the one before has digest %s, the certificate %s", before,
                           c->doc.before);
    if (strcmp(after, c->doc.after) != 0)
        return cert_refuse(c, "it is another program's: the one after has digest %s, the certificate %s", after,
                           c->doc.after);
    for (size_t i = 0; i < c->doc.npasses; now = c->doc.passes[i++].after)
        if (strcmp(c->doc.passes[i].before, now) != 0)
            return cert_refuse(c, "pass %s does not begin with the program that was there", c->doc.passes[i].name);
    if (strcmp(now, c->doc.after) != 0) return cert_refuse(c, "the last pass does not end with the program after");
    if (c->doc.order.count != c->nnew)
        return cert_refuse(c, "the program after has %zu ops, the certificate %zu", c->nnew, c->doc.order.count);
    return NULL;
}

/* Rings that were there are what they were. */
static weft_status check_rings(cert_checker *c) {
    for (size_t i = 0; i < c->before.p->nrings; i++) {
        const ring *r = &c->before.p->rings[i], *now = program_find_ring(c->after.p, r->id);
        if (!now || !ring_equal(r, now))
            return cert_refuse(c, "ring %lld is not of the ranks that it was of", (long long)r->id);
    }
    return NULL;
}

static weft_status begin(cert_checker *c, const weft_program *before, const weft_program *after) {
    size_t nvars = before->nall_vars + 1;
    TRY(cert_world_begin(c, before, false, &c->before));
    TRY(cert_world_begin(c, after, true, &c->after));
    TRY(list_ops(c, before, &c->old_ops, &c->nold));
    TRY(list_ops(c, after, &c->new_ops, &c->nnew));
    c->old_inputs = ARENA_ARRAY(c->arena, cert_value *, c->nold + 1);
    c->new_inputs = ARENA_ARRAY(c->arena, cert_value *, c->nnew + 1);
    c->first_base = ARENA_ARRAY(c->arena, uint32_t, c->nold + 1);
    c->seed = ARENA_ARRAY(c->arena, double, c->nold + 1);
    c->dense = ARENA_ARRAY(c->arena, bool, c->nold + 1);
    c->of_rows = ARENA_ARRAY(c->arena, uint8_t, c->nold + 1);
    c->same_as = ARENA_ARRAY(c->arena, uint32_t, c->nold + 1);
    c->wait_of = ARENA_ARRAY(c->arena, uint32_t, c->nnew + 1);
    c->first_gather = ARENA_ARRAY(c->arena, size_t, c->nold + 1);
    c->next_gather = ARENA_ARRAY(c->arena, size_t, c->doc.nclaims + 1);
    c->is_feed = ARENA_ARRAY(c->arena, bool, nvars);
    c->is_split_feed = ARENA_ARRAY(c->arena, bool, nvars);
    c->is_weighed_loss = ARENA_ARRAY(c->arena, bool, nvars);
    c->is_weight = ARENA_ARRAY(c->arena, bool, after->nall_vars + 1);
    if (!c->old_inputs || !c->new_inputs || !c->first_base || !c->seed || !c->dense || !c->of_rows || !c->same_as ||
        !c->wait_of || !c->is_feed || !c->is_split_feed || !c->is_weighed_loss || !c->is_weight || !c->first_gather ||
        !c->next_gather)
        return base_out_of_memory();
    for (size_t i = 0; i < c->nnew; i++) c->wait_of[i] = CERT_NONE;
    for (size_t i = 0; i < c->nold; i++) c->same_as[i] = CERT_NONE;
    for (uint32_t i = 0, base; i < before->nall_vars; i++)
        TRY(cert_new_base(c, CERT_NONE, program_var(before, i)->name->bytes, &base));
    return NULL;
}

/* The first pass without claims, NULL if all have them. */
static const char *pass_without(const cert_checker *c) {
    for (size_t i = 0; i < c->doc.npasses; i++)
        if (!c->doc.passes[i].claims_all) return c->doc.passes[i].name;
    return NULL;
}

static weft_status check(cert_checker *c) {
    TRY(check_pair(c));
    if (!c->message) TRY(check_rings(c));
    if (!c->message) TRY(cert_prepare_claims(c));
    if (!c->message) TRY(cert_check_losses(c));
    if (!c->message) TRY(cert_walk_before(c));
    if (!c->message) TRY(cert_walk_after(c));
    if (!c->message) TRY(cert_check_claims(c));
    for (size_t i = 0; i < c->doc.npasses && !c->message; i++)
        if (c->doc.passes[i].plan) TRY(cert_check_buckets(c, i));
    return NULL;
}

static weft_status write_verdict(const cert_checker *c, const char *without, weft_certified *out_verdict,
                                 char **out_message, size_t *out_nwords) {
    buffer message;
    buffer_init(&message, &c->context->allocator);
    *out_verdict = without ? WEFT_CERTIFICATE_NONE : c->message ? WEFT_CERTIFICATE_BAD : WEFT_CERTIFIED;
    if (without)
        buffer_format(&message, "pass %s gives no certificate", without);
    else if (c->message)
        buffer_text(&message, c->message);
    else
        buffer_format(&message, "%zu claims of %zu pass%s, %zu values", c->doc.nclaims, c->doc.npasses,
                      c->doc.npasses == 1 ? "" : "es", c->nchecked);
    if (*out_verdict == WEFT_CERTIFIED && c->underived)
        buffer_format(&message, "; how ranks' losses combine is not derived of %s", c->underived);
    if (*out_verdict == WEFT_CERTIFIED && c->unseen_rows)
        buffer_format(&message, "; that ranks have rows of it is not derived of %s", c->unseen_rows);
    if (*out_verdict == WEFT_CERTIFIED && c->step_ns)
        buffer_format(&message, "; no buckets end a step before %.6f ms; these end it at %.6f ms, %.2f%% later",
                      1e-6 * (double)c->bound_ns, 1e-6 * (double)c->step_ns,
                      100 * ((double)c->step_ns / (double)(c->bound_ns ? c->bound_ns : 1) - 1));
    if (*out_verdict == WEFT_CERTIFIED && c->gap) buffer_format(&message, ", since %s", c->gap);
    if (*out_verdict == WEFT_CERTIFIED && c->nlanes > 1)
        buffer_format(&message, "; that %zu streams of reduces may share links is not counted", c->nlanes);
    return buffer_take(&message, out_message, out_nwords);
}

weft_status weft_certificate_check(const weft_program *before, const weft_program *after, const char *certificate,
                                   size_t nbytes, const char *place, weft_certified *out_verdict, char **out_message,
                                   size_t *out_nwords) {
    cert_checker c = {.context = before->context};
    arena memory;
    arena_init(&memory, &before->context->allocator);
    c.arena = &memory;
    weft_status status = NULL;
    TRY_DONE(cert_read(c.context, certificate, nbytes, place, &memory, &c.doc));
    TRY_DONE(begin(&c, before, after));
    const char *without = pass_without(&c);
    if (!without) TRY_DONE(check(&c));
    TRY_DONE(write_verdict(&c, without, out_verdict, out_message, out_nwords));
done:
    json_decref(c.doc.root);
    arena_fini(&memory);
    return status;
}
