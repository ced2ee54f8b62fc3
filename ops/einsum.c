/* einsum.c: reading einsum's equations, and types of einsum (paddle/phi/infermeta/multiary.cc, EinsumInferMeta).
 *
 * InnerCache is ours to fill: a copy of each operand, from which the gradient is made. */
#include "ops/einsum.h"

#include <ctype.h>

#include "ops/infer.h"

/* --- equations ---------------------------------------------------------------------------------------------------- */

enum { LETTERS = 128 };

typedef struct reader {
    const char *at;
    einsum *to;
    int of_letter[LETTERS];  /* label, or -1 */
    int uses[EINSUM_LABELS]; /* in operands */
    int ellipsis[WEFT_MAX_RANK];
    int nellipsis; /* labels of "...", counted from the end */
} reader;

static const char *const too_many = "too many dimensions";

static int new_label(reader *r) {
    return r->to->nlabels < EINSUM_LABELS ? r->to->nlabels++ : -1;
}

static const char *add_label(einsum_term *t, int label) {
    if (label < 0 || t->ndim == WEFT_MAX_RANK) return too_many;
    t->label[t->ndim++] = label;
    return NULL;
}

static const char *add_letter(reader *r, einsum_term *t, char c, bool is_output) {
    int *label = &r->of_letter[(unsigned char)c];
    if (*label < 0 && is_output) return "expected letters of the operands behind ->";
    if (*label < 0) *label = new_label(r);
    if (*label >= 0 && !is_output) r->uses[*label]++;
    return add_label(t, *label);
}

static const char *add_ellipsis(reader *r, einsum_term *t, int count) {
    const char *why = NULL;
    for (; r->nellipsis < count; r->nellipsis++) r->ellipsis[r->nellipsis] = new_label(r);
    for (int k = count - 1; k >= 0 && !why; k--) why = add_label(t, r->ellipsis[k]);
    return why;
}

static int count_letters(const char *at) {
    int n = 0;
    for (; *at && *at != ',' && !(at[0] == '-' && at[1] == '>'); at++) n += isalpha((unsigned char)*at) != 0;
    return n;
}

/* A term up to ',' , "->" or the end. `ndim` -1: the output, whose "..." has all dimensions of the operands'. */
static const char *read_term(reader *r, einsum_term *t, int ndim) {
    int letters = count_letters(r->at), rest = ndim < 0 ? r->nellipsis : ndim - letters;
    const char *why = NULL;
    bool seen = false;
    while (!why && *r->at && *r->at != ',' && *r->at != '-') {
        if (isalpha((unsigned char)*r->at)) {
            why = add_letter(r, t, *r->at++, ndim < 0);
        } else if (*r->at == ' ') {
            r->at++;
        } else if (r->at[0] == '.' && r->at[1] == '.' && r->at[2] == '.' && !seen && rest >= 0) {
            why = add_ellipsis(r, t, rest);
            r->at += 3;
            seen = true;
        } else {
            return "expected letters, \"...\", \",\" and \"->\"";
        }
    }
    return why ? why : ndim >= 0 && t->ndim != ndim ? "expected a letter for each dimension" : NULL;
}

/* Without "->": "..." and the letters that stand once. */
static const char *implied_output(reader *r) {
    const char *why = add_ellipsis(r, &r->to->out, r->nellipsis);
    for (int c = 0; c < LETTERS && !why; c++)
        if (r->of_letter[c] >= 0 && r->uses[r->of_letter[c]] == 1) why = add_label(&r->to->out, r->of_letter[c]);
    return why;
}

const char *einsum_parse(const char *equation, int noperands, const int *ndims, einsum *out) {
    const char *why = NULL;
    reader r = {.at = equation, .to = out};
    *out = (einsum){.noperands = noperands};
    if (noperands < 1 || noperands > EINSUM_OPERANDS) return "expected one or two operands";
    for (int c = 0; c < LETTERS; c++) r.of_letter[c] = -1;
    for (int k = 0; k < noperands && !why; k++) {
        if (k && *r.at++ != ',') return "expected a term for each operand";
        why = read_term(&r, &out->in[k], ndims[k]);
    }
    if (why) return why;
    if (!*r.at) return implied_output(&r);
    if (r.at[0] != '-' || r.at[1] != '>') return "expected as many terms as operands";
    r.at += 2;
    why = read_term(&r, &out->out, -1);
    return why ? why : *r.at ? "expected one term behind ->" : NULL;
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static weft_status read_extents(infer *i, const einsum *e, int64_t extents[EINSUM_LABELS]) {
    for (int l = 0; l < e->nlabels; l++) extents[l] = 1;
    for (int k = 0; k < e->noperands; k++)
        for (int d = 0; d < e->in[k].ndim; d++) {
            int64_t *is = &extents[e->in[k].label[d]], found = i->in[k].dims[d];
            if (*is > 1 && found > 1 && *is != found)
                return infer_error(i, "equation: expected one extent for each letter, found %lld and %lld",
                                   (long long)*is, (long long)found);
            if (*is == 1 || (*is < 0 && found > 1)) *is = found;
        }
    return NULL;
}

weft_status infer_einsum(infer *i) {
    int ndims[EINSUM_OPERANDS], n = (int)infer_nin(i, 0);
    einsum e;
    int64_t extents[EINSUM_LABELS];
    if (n < 1 || n > EINSUM_OPERANDS) return infer_error(i, "expected one or two operands, found %d", n);
    for (int k = 0; k < n; k++) {
        if (!shape_known(&i->in[k])) return NULL;
        ndims[k] = i->in[k].ndim;
    }
    const char *why = einsum_parse(attr_string(i->op, "equation", ""), n, ndims, &e);
    if (why) return infer_error(i, "equation: %s, found \"%s\"", why, attr_string(i->op, "equation", ""));
    TRY(read_extents(i, &e, extents));
    shape out = {.dtype = i->in[0].dtype, .height = -1};
    for (int d = 0; d < e.out.ndim; d++) TRY(shape_append(i, &out, extents[e.out.label[d]]));
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    for (size_t k = 0; k < infer_nout(i, 1) && k < (size_t)n; k++) i->out[i->out_first[1] + k] = i->in[k];
    for (size_t k = 0; k < infer_nout(i, 2) && k < (size_t)n; k++) {
        shape *kept = &i->out[i->out_first[2] + k];
        if (ndims[k] == WEFT_MAX_RANK) continue;
        *kept = (shape){.dtype = i->in[k].dtype, .ndim = ndims[k] + 1, .height = -1};
        memcpy(kept->dims + 1, i->in[k].dims, (size_t)ndims[k] * sizeof *kept->dims);
    }
    return NULL;
}

/* The gradients are like the copies of the operands that the forward op kept. */
weft_status infer_einsum_grad(infer *i) {
    int kept = schema_input(i->schema, "InnerCache");
    for (size_t k = 0; k < infer_nout(i, 0) && k < infer_nin(i, kept); k++)
        i->out[k] = i->in[i->in_first[kept] + k];
    return NULL;
}
