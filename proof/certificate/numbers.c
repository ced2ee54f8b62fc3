/* numbers.c: the passes' lists of ops: inserted, removed and moved. They must add up to the program after.
 */
#include "proof/certificate/certificate.h"

static bool is_number(const cert_checker *c, int64_t number) {
    return number >= 0 && (uint64_t)number < c->nnumbers;
}

static weft_status add_inserted(cert_checker *c, size_t pass, size_t *known) {
    const cert_pass *p = &c->doc.passes[pass];
    for (size_t i = 0; i < p->inserted.count; i++) {
        if (p->inserted.items[i] != (int64_t)*known)
            return cert_refuse(c, "pass %s inserts op %lld, where the next new one is %zu", p->name,
                               (long long)p->inserted.items[i], *known);
        c->inserted_by[*known] = (uint32_t)pass;
        c->inserted_type[(*known)++] = p->types[i];
    }
    return NULL;
}

static weft_status take_removed(cert_checker *c, size_t pass, size_t known) {
    const cert_pass *p = &c->doc.passes[pass];
    for (size_t i = 0; i < p->removed.count; i++) {
        int64_t n = p->removed.items[i];
        if (n < 0 || (uint64_t)n >= known || c->removed_by[n] != CERT_NONE)
            return cert_refuse(c, "pass %s removes op %lld, which is not there", p->name, (long long)n);
        c->removed_by[n] = (uint32_t)pass;
    }
    for (size_t i = 0; i < p->moved.count; i++)
        if (p->moved.items[i] < 0 || (uint64_t)p->moved.items[i] >= known)
            return cert_refuse(c, "pass %s moves op %lld, which is not there", p->name, (long long)p->moved.items[i]);
    return NULL;
}

/* The numbers of the ops after are those that are left, each once. */
static weft_status check_order(cert_checker *c) {
    size_t nleft = 0;
    for (size_t i = 0; i < c->nnumbers; i++) nleft += c->removed_by[i] == CERT_NONE;
    for (size_t at = 0; at < c->doc.order.count; at++) {
        int64_t n = c->doc.order.items[at];
        if (!is_number(c, n) || c->removed_by[n] != CERT_NONE || c->new_position[n] != CERT_NONE)
            return cert_refuse(c, "op %lld is said to be in the program after, but not to be left", (long long)n);
        c->new_position[n] = (uint32_t)at;
        if ((size_t)n >= c->nold && !op_is(c->new_ops[at], c->inserted_type[n]))
            return cert_refuse(c, "%s is said to be an inserted %s", cert_op_text(c, c->new_ops[at], (uint32_t)at),
                               c->inserted_type[n]);
    }
    if (nleft != c->doc.order.count)
        return cert_refuse(c, "%zu ops are left by the passes' lists, %zu are said to be in the program after", nleft,
                           c->doc.order.count);
    return NULL;
}

/* What nobody moved is in the order in which it was. */
static weft_status check_unmoved(cert_checker *c) {
    bool *moved = ARENA_ARRAY(c->arena, bool, c->nnumbers + 1);
    if (!moved) return base_out_of_memory();
    for (size_t p = 0; p < c->doc.npasses; p++)
        for (size_t i = 0; i < c->doc.passes[p].moved.count; i++) moved[c->doc.passes[p].moved.items[i]] = true;
    int64_t last = -1;
    for (size_t at = 0; at < c->doc.order.count; at++) {
        int64_t n = c->doc.order.items[at];
        if ((size_t)n >= c->nold || moved[n]) continue;
        if (n < last)
            return cert_refuse(c, "%s stands behind #%lld of before, and no pass says that it moved one of them",
                               cert_op_text(c, c->new_ops[at], (uint32_t)at), (long long)last);
        last = n;
    }
    return NULL;
}

weft_status cert_number_ops(cert_checker *c) {
    size_t known = c->nold;
    c->nnumbers = c->nold;
    for (size_t p = 0; p < c->doc.npasses; p++) c->nnumbers += c->doc.passes[p].inserted.count;
    c->new_position = ARENA_ARRAY(c->arena, uint32_t, c->nnumbers + 1);
    c->removed_by = ARENA_ARRAY(c->arena, uint32_t, c->nnumbers + 1);
    c->inserted_by = ARENA_ARRAY(c->arena, uint32_t, c->nnumbers + 1);
    c->gather_of = ARENA_ARRAY(c->arena, size_t, c->nnumbers + 1);
    c->of_weight = ARENA_ARRAY(c->arena, bool, c->nnumbers + 1);
    c->inserted_type = ARENA_ARRAY(c->arena, const char *, c->nnumbers + 1);
    c->joined = ARENA_ARRAY(c->arena, cert_value, c->nnumbers + 1);
    if (!c->new_position || !c->removed_by || !c->inserted_by || !c->inserted_type || !c->joined || !c->gather_of ||
        !c->of_weight)
        return base_out_of_memory();
    for (size_t i = 0; i < c->nnumbers; i++) c->new_position[i] = c->removed_by[i] = c->inserted_by[i] = CERT_NONE;
    for (size_t p = 0; p < c->doc.npasses && !c->message; p++) {
        TRY(add_inserted(c, p, &known));
        if (!c->message) TRY(take_removed(c, p, known));
    }
    if (!c->message) TRY(check_order(c));
    return c->message ? NULL : check_unmoved(c);
}

bool cert_is_number(const cert_checker *c, int64_t number) {
    return number >= 0 && (uint64_t)number < c->nnumbers;
}

const char *cert_type_of(const cert_checker *c, int64_t number) {
    if (!cert_is_number(c, number)) return "";
    return (size_t)number < c->nold ? c->old_ops[number]->type->bytes : c->inserted_type[number];
}
