/* compare.c: ops, blocks and values of the two programs, held against each other. */
#include "proof/certificate/certificate.h"

/* Where an op stands in the text of a program says nothing of what it computes. */
static bool is_of_place(const cert_checker *c, uint32_t k, const name *n) {
    static const char *const names[] = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"};
    (void)c, (void)k;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(n->bytes, names[i]) == 0) return true;
    return false;
}

/* How a library runs a collective, not what it does. */
static bool is_of_library(const name *n) {
    return name_is(n, "nccl_algorithm") || name_is(n, "nccl_ctas") || name_is(n, "nccl_policy");
}

static bool is_licensed(const cert_checker *c, uint32_t k, const name *n) {
    if (is_of_library(n)) return true;
    if (name_is(n, "is_sparse")) return c->dense[k];
    if (name_is(n, "shape")) return c->of_rows[k] != 0;
    return c->seed[k] != 0 && (name_is(n, "value") || name_is(n, "str_value"));
}

static const weft_attr *find_attr(const weft_op *op, const name *n) {
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].name->nbytes == n->nbytes && memcmp(op->attrs[i].name->bytes, n->bytes, n->nbytes) == 0)
            return &op->attrs[i];
    return NULL;
}

/* Whether an attr of op k before may be another after; NULL: none may. */
typedef bool (*may_differ_fn)(const cert_checker *c, uint32_t k, const name *n);

/* The name of the first attr of `a` that `b` has not, or has otherwise; NULL: none. */
static const name *lacks_attr_of(const cert_checker *c, const weft_op *a, const weft_op *b, uint32_t k,
                                 may_differ_fn may_differ) {
    for (size_t i = 0; i < a->nattrs; i++) {
        const name *n = a->attrs[i].name;
        if (attr_is_of_node(&a->attrs[i]) || (may_differ && may_differ(c, k, n))) continue;
        const weft_attr *there = find_attr(b, n);
        if (!there || !attr_equal(&a->attrs[i], there)) return n;
    }
    return NULL;
}

static const name *first_difference(const cert_checker *c, const weft_op *a, const weft_op *b, uint32_t k,
                                    may_differ_fn may_differ) {
    const name *n = lacks_attr_of(c, a, b, k, may_differ);
    return n ? n : lacks_attr_of(c, b, a, k, may_differ);
}

weft_status cert_check_attrs(cert_checker *c, const weft_op *op, uint32_t at, uint32_t k) {
    const name *n = first_difference(c, c->old_ops[k], op, k, is_licensed);
    if (!n) return NULL;
    return cert_refuse(c, "%s: attr \"%s\" is not what it was in #%u before", cert_op_text(c, op, at), n->bytes, k);
}

const slot *cert_same_slot(const weft_op *op, bool output, const slot *s) {
    const slot *there = op_find_slot(op, output, s->name->bytes);
    return there && there->nargs == s->nargs ? there : NULL;
}

weft_status cert_check_slots(cert_checker *c, const weft_op *op, uint32_t at, uint32_t k) {
    const weft_op *old = c->old_ops[k];
    for (int output = 0; output < 2; output++) {
        for (uint32_t i = 0; i < op_nslots(old, output); i++) {
            const slot *s = op_slot(old, output, i);
            if (s->nargs && !cert_same_slot(op, output, s))
                return cert_refuse(c, "%s: slot \"%s\" has not the arguments that it had in #%u before",
                                   cert_op_text(c, op, at), s->name->bytes, k);
        }
        if (op_nargs(old, output) != op_nargs(op, output))
            return cert_refuse(c, "%s has other arguments than #%u before", cert_op_text(c, op, at), k);
    }
    return NULL;
}

static bool same_parts(cert_value a, cert_value b) {
    if (a.count != b.count) return false;
    for (size_t i = 0; i < a.count; i++)
        if (a.parts[i].base != b.parts[i].base || a.parts[i].chain != b.parts[i].chain ||
            a.parts[i].nbytes != b.parts[i].nbytes || a.parts[i].offset != b.parts[i].offset)
            return false;
    return true;
}

/* now / before; 0: they differ by more than a factor. */
double cert_ratio(cert_value before, cert_value now) {
    if (!same_parts(before, now)) return 0;
    double ratio = before.count ? cert_snap(now.parts[0].factor / before.parts[0].factor) : 1;
    if (cert_same_factor(ratio, 1)) ratio = 1;
    for (size_t i = 1; i < before.count; i++)
        if (!cert_same_factor(cert_snap(now.parts[i].factor / before.parts[i].factor), ratio)) return 0;
    return ratio;
}

bool cert_gives_same(const cert_checker *c, uint32_t k, uint32_t other) {
    const weft_op *a = c->old_ops[k], *b = c->old_ops[other];
    if (!op_is(a, b->type->bytes) || first_difference(c, a, b, k, is_of_place) || cert_keeps_order(a)) return false;
    if (cert_runs_block(a) || op_nargs(a, false) != op_nargs(b, false) || op_nargs(a, true) != op_nargs(b, true))
        return false;
    size_t nargs = 0;
    for (uint32_t i = 0; i < op_nslots(a, false); i++) {
        const slot *s = op_slot(a, false, i), *there = i < op_nslots(b, false) ? op_slot(b, false, i) : NULL;
        if (!there || strcmp(s->name->bytes, there->name->bytes) != 0 || s->nargs != there->nargs) return false;
        nargs += s->nargs;
    }
    if (!c->old_inputs[k] || !c->old_inputs[other]) return false;
    for (size_t i = 0; i < nargs; i++)
        if (!c->old_inputs[k][i].count || cert_ratio(c->old_inputs[other][i], c->old_inputs[k][i]) != 1) return false;
    return true;
}

/* Blocks below block 0 are as they were. */
weft_status cert_check_blocks(cert_checker *c) {
    const weft_program *p = c->before.p, *q = c->after.p;
    if (p->nblocks != q->nblocks) return cert_refuse(c, "there are %zu blocks, and were %zu", q->nblocks, p->nblocks);
    for (size_t i = 1; i < p->nblocks; i++) {
        const weft_op *b = q->blocks[i]->first;
        if (p->blocks[i]->nops != q->blocks[i]->nops) return cert_refuse(c, "block %zu is not what it was", i);
        FOR_EACH_OP(a, p->blocks[i]) {
            bool same = op_is(b, a->type->bytes) && !first_difference(c, a, b, CERT_NONE, NULL);
            for (int output = 0; output < 2 && same; output++) {
                for (uint32_t i_slot = 0; i_slot < op_nslots(a, output) && same; i_slot++) {
                    const slot *s = op_slot(a, output, i_slot);
                    const slot *there = s->nargs ? cert_same_slot(b, output, s) : NULL;
                    same = there || !s->nargs;
                    for (size_t k = 0; there && k < there->nargs; k++)
                        same = same && strcmp(slot_var(b, there, k)->name->bytes, slot_var(a, s, k)->name->bytes) == 0;
                }
            }
            if (!same) return cert_refuse(c, "block %zu: %s is not what it was", i, a->type->bytes);
            b = b->next;
        }
    }
    return NULL;
}
