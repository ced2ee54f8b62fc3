/* print.c: terms as text for people, and where two of them begin to differ. */
#include "proof/equivalence/term.h"

enum { MOST_DEPTH = 4, MOST_ARGS = 6, MOST_BYTES = 400 };

/* `most`: how long `out` may be before arguments are left out. */
static void print_value(const terms *t, value v, int depth, size_t most, buffer *out);

static void print_args(const terms *t, uint32_t id, int depth, size_t most, buffer *out) {
    size_t n = t->items[id].nargs;
    if (!n) return;
    buffer_text(out, "(");
    for (size_t i = 0; i < n && i < MOST_ARGS; i++) {
        if (i) buffer_text(out, ", ");
        print_value(t, term_args(t, id)[i], depth - 1, most, out);
    }
    buffer_text(out, n > MOST_ARGS ? ", ...)" : ")");
}

static void print_ints(const head *h, size_t most, buffer *out) {
    buffer_text(out, "[");
    for (size_t i = 0; i < h->nints && i < most; i++) buffer_format(out, i ? " %lld" : "%lld", (long long)h->ints[i]);
    buffer_text(out, h->nints > most ? " ...]" : "]");
}

static void print_value(const terms *t, value v, int depth, size_t most, buffer *out) {
    char number[64];
    if (v.factor != FACTOR_ONE) buffer_format(out, "%s * ", factor_print(value_factor(t, v), number, sizeof number));
    const head *h = term_head(t, v.term);
    uint32_t id = v.term;
    if (h->kind == HEAD_OUT) { /* "matmul_v2_grad.Y@GRAD(...)" */
        uint32_t op = term_args(t, id)[0].term;
        buffer_text(out, term_head(t, op)->label);
        buffer_format(out, ".%s", h->label);
        if (h->ints[1]) buffer_format(out, "[%lld]", (long long)h->ints[1]);
        id = op;
    } else if (h->kind == HEAD_UNDEFINED) {
        buffer_format(out, "undefined bytes of %s", h->label);
    } else if (h->kind == HEAD_RANDOM) {
        buffer_format(out, "random numbers of %s", h->label);
    } else {
        buffer_text(out, h->label);
        if (h->kind == HEAD_RESHAPE || h->kind == HEAD_PART || h->kind == HEAD_BOX || h->kind == HEAD_STRIDED ||
            h->kind == HEAD_PADDED || h->kind == HEAD_FILLED)
            print_ints(h, 8, out);
    }
    if (!t->items[id].nargs) return;
    if (depth <= 0 || out->nbytes > most)
        buffer_text(out, "(...)");
    else
        print_args(t, id, depth, most, out);
}

void value_print(const terms *t, value v, buffer *out) {
    print_value(t, v, MOST_DEPTH, out->nbytes + MOST_BYTES, out);
}

/* The pair of arguments that differ and are the least high; false if there is none. */
static bool lower(const terms *t, value a, value b, value *out_a, value *out_b) {
    const term *x = &t->items[a.term], *y = &t->items[b.term];
    if (x->head != y->head || x->nargs != y->nargs) return false;
    bool found = false;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < x->nargs; i++) {
        value p = term_args(t, a.term)[i], q = term_args(t, b.term)[i];
        if (p.term == q.term && p.factor == q.factor) continue;
        uint32_t height =
            t->items[p.term].height > t->items[q.term].height ? t->items[p.term].height : t->items[q.term].height;
        if (found && height >= least) continue;
        *out_a = p;
        *out_b = q;
        least = height;
        found = true;
    }
    return found;
}

void value_difference(const terms *t, value a, value b, value *out_a, value *out_b) {
    value p = a, q = b;
    while (lower(t, a, b, &p, &q) && a.factor == b.factor) {
        a = p;
        b = q;
    }
    *out_a = a;
    *out_b = b;
}
