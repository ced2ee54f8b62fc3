/* same.c: types that need no op's own rule: outputs like inputs, and gradients like what they are the gradient of. */
#include "ops/infer.h"

weft_status infer_none(infer *i) {
    (void)i; /* declared types hold */
    return NULL;
}

/* Each output slot is like the input slot whose memory it may take or is a view of, or like the first. */
weft_status infer_same(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++) {
        const slot_schema *row = &i->schema->outputs[o];
        int from = row->in_place_of >= 0 ? row->in_place_of : row->view_of >= 0 ? row->view_of : 0;
        size_t nin = infer_nin(i, from), nout = infer_nout(i, (int)o);
        if (nin && nout > nin)
            return infer_error(i, "expected as many arguments in %s as in %s, found %zu and %zu", row->name,
                               i->schema->inputs[from].name, nout, nin);
        for (size_t k = 0; k < nout && k < nin; k++) i->out[i->out_first[o] + k] = i->in[i->in_first[from] + k];
    }
    return NULL;
}

/* Every output is like the first input. */
weft_status infer_each_like_x(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++)
        if (infer_out(i, (int)o)) *infer_out(i, (int)o) = *infer_in(i, 0);
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* The input slot that is called `stem` of `nbytes` bytes followed by `tail`; -1 if there is none with arguments. */
static int find_present(const infer *i, const char *stem, size_t nbytes, const char *tail) {
    for (size_t s = 0; s < i->schema->ninputs; s++) {
        const char *n = i->schema->inputs[s].name;
        if (nbytes && *n != *stem) continue;
        if (strncmp(n, stem, nbytes) == 0 && strcmp(n + nbytes, tail) == 0 && infer_nin(i, (int)s)) return (int)s;
    }
    return -1;
}

static bool knows_slot(const infer *i, const char *stem, size_t nbytes) {
    for (size_t s = 0; s < i->schema->ninputs; s++) {
        const char *n = i->schema->inputs[s].name;
        if (nbytes && *n != *stem) continue;
        if (strlen(n) == nbytes && memcmp(n, stem, nbytes) == 0) return true;
    }
    return false;
}

static bool is_grad_slot(const char *slot_name) {
    size_t n = strlen(slot_name);
    return n > 5 && strcmp(slot_name + n - 5, "@GRAD") == 0;
}

static const shape *first_gradient(const infer *i) {
    for (size_t s = 0; s < i->schema->ninputs; s++)
        if (is_grad_slot(i->schema->inputs[s].name) && infer_nin(i, (int)s)) return infer_in(i, (int)s);
    return NULL;
}

/* S@GRAD has the type of S where the op still sees it; else what S's shape was kept in (SShape: a leading 0, then S's
 * extents). Ops that have no slot for S give it the type of the input whose memory it may take, or of the first
 * gradient. */
static weft_status infer_one_gradient(infer *i, size_t o) {
    const slot_schema *slot_row = &i->schema->outputs[o];
    size_t nbytes = strlen(slot_row->name) - (is_grad_slot(slot_row->name) ? 5 : 0);
    int s = find_present(i, slot_row->name, nbytes, "");
    if (s >= 0) {
        if (infer_nout(i, (int)o) > infer_nin(i, s))
            return infer_error(i, "expected as many arguments in %s as in %s, found %zu and %zu", slot_row->name,
                               i->schema->inputs[s].name, infer_nout(i, (int)o), infer_nin(i, s));
        for (size_t k = 0; k < infer_nout(i, (int)o); k++) i->out[i->out_first[o] + k] = i->in[i->in_first[s] + k];
        return NULL;
    }
    const shape *gradient = first_gradient(i);
    int kept = find_present(i, slot_row->name, nbytes, "Shape");
    if (kept >= 0) {
        const shape *x = infer_in(i, kept);
        if (x->ndim > 0)
            shape_set(infer_out(i, (int)o), gradient ? gradient->dtype : x->dtype, (size_t)x->ndim - 1, x->dims + 1);
    } else if (infer_out(i, (int)o) && !knows_slot(i, slot_row->name, nbytes)) {
        const shape *like = slot_row->in_place_of >= 0 ? infer_in(i, slot_row->in_place_of) : gradient;
        if (like) *infer_out(i, (int)o) = *like;
    }
    return NULL;
}

weft_status infer_grad(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++) TRY(infer_one_gradient(i, o));
    return NULL;
}

/* Second gradients in the older spelling: DDOut and DOut are like the result, which DOut or Out shows. */
weft_status infer_second_grad(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++) {
        int from = schema_input(i->schema, "DOut");
        if (is_grad_slot(i->schema->outputs[o].name)) {
            TRY(infer_one_gradient(i, o));
            continue;
        }
        if (from < 0 || !infer_nin(i, from)) from = schema_input(i->schema, "Out");
        if (from < 0 || !infer_nin(i, from)) from = schema_input(i->schema, "DDX");
        if (from >= 0 && infer_nin(i, from) && infer_nout(i, (int)o)) *infer_out(i, (int)o) = *infer_in(i, from);
    }
    return NULL;
}

/* Those of products in that spelling: DX and DY are like X and Y. */
weft_status infer_second_product(infer *i) {
    for (int o = 0; o < 3; o++) /* X, Y, DOut */
        if (infer_out(i, o) && infer_nin(i, o)) *infer_out(i, o) = *infer_in(i, o);
    return NULL;
}

/* D_S has the type of S. */
weft_status infer_third_grad(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++) {
        int from = schema_input(i->schema, i->schema->outputs[o].name + strlen("D_"));
        if (from >= 0 && infer_nin(i, from) && infer_out(i, (int)o)) *infer_out(i, (int)o) = *infer_in(i, from);
    }
    return NULL;
}

/* What is quantized has its own type; scales, and what averages them, are one number, or one of each channel. */
static weft_status quantized(infer *i, int64_t count) {
    const shape *x = infer_in(i, 0);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (size_t o = 1; o < i->schema->noutputs; o++) shape_set(infer_out(i, (int)o), x->dtype, 1, &count);
    return NULL;
}

weft_status infer_fake_quantize(infer *i) {
    return quantized(i, 1);
}
/* OutScales has those of the window. */
weft_status infer_fake_quantize_range(infer *i) {
    int64_t size = attr_int(i->op, "window_size", 10000);
    TRY(quantized(i, 1));
    shape_set(infer_out(i, 2), infer_in(i, 0)->dtype, 1, &size);
    return NULL;
}
weft_status infer_fake_quantize_channels(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t axis;
    if (!shape_known(x)) return NULL;
    TRY(infer_axis(i, "quant_axis", attr_int(i->op, "quant_axis", 0), x->ndim, &axis));
    return quantized(i, x->dims[axis]);
}
