/* message.c: what does not hold, as messages. */
#include <stdio.h>

#include "proof/certificate/certificate.h"

weft_status cert_refuse(cert_checker *c, const char *format, ...) {
    if (c->message) return NULL;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int nbytes = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *message = nbytes < 0 ? NULL : arena_alloc(c->arena, (size_t)nbytes + 1);
    if (message) vsnprintf(message, (size_t)nbytes + 1, format, args);
    va_end(args);
    c->message = message;
    return message ? NULL : base_out_of_memory();
}

const char *cert_op_text(cert_checker *c, const weft_op *op, uint32_t position) {
    const char *message = arena_format(c->arena, "%s #%u", op->type->bytes, position);
    return message ? message : "";
}

static const char *chain_text(cert_checker *c, uint32_t chain, const char *message) {
    static const char *const kinds[] = {"sum", "maximum", "minimum", "product", "mean", "any", "all"};
    if (!chain || !message) return message;
    const cert_join *j = &c->joins[chain - 1];
    if (j->reduce == CERT_ROWS_OF_ALL)
        return arena_format(c->arena, "what all ranks of ring %lld have of %s", (long long)j->ring,
                            chain_text(c, j->parent, message));
    if (j->reduce == CERT_BY_ROWS)
        return arena_format(c->arena, "what a rank's rows weigh of %s", chain_text(c, j->parent, message));
    return arena_format(c->arena, "%s over ring %lld of %s", (unsigned)j->reduce < 7 ? kinds[j->reduce] : "reduce",
                        (long long)j->ring, chain_text(c, j->parent, message));
}

static const char *part_text(cert_checker *c, const cert_part *part) {
    const cert_base *b = &c->bases[part->base];
    const char *message = b->op != CERT_NONE ? arena_format(c->arena, "\"%s\" of %s #%u before", b->name,
                                                            c->old_ops[b->op]->type->bytes, b->op)
                          : part->base < c->before.p->nall_vars
                              ? arena_format(c->arena, "\"%s\" as the step begins", b->name)
                              : arena_format(c->arena, "bytes of \"%s\" that nothing told wrote", b->name);
    message = chain_text(c, part->chain, message);
    if (message && part->factor != 1) message = arena_format(c->arena, "%g * %s", part->factor, message);
    return message ? message : "";
}

const char *cert_value_text(cert_checker *c, cert_value v) {
    if (v.count == 1) return part_text(c, v.parts);
    const char *message =
        arena_format(c->arena, "a bucket of %zu, the first %s", v.count, v.count ? part_text(c, v.parts) : "none");
    return message ? message : "";
}
