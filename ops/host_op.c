/* host_op.c: ops of hosts: their rows in the context's table, their inference and cost. */
#include <stdio.h>

#include "ops/collectives.h"
#include "ops/cost.h"
#include "ops/host_op.h"
#include "ops/infer.h"
#include "ops/table.h"

/* What a definition may say of effects. The others are promises about kernels, views and blocks that it cannot give. */
enum { HOST_EFFECTS = OP_RANDOM | OP_HOST | OP_OPTIMIZER | OP_LINEAR_GRAD | OP_LINEAR | OP_LINEAR_X | OP_ONE_TYPE };

/* --- registering -------------------------------------------------------------------------------------------------- */

static weft_status infer_by_host(infer *i) {
    const host_op *h = i->schema->host;
    return h->def.infer((weft_infer *)(void *)i, h->def.user);
}

static weft_status read_effects(const weft_op_def *def, uint32_t *out) {
    *out = 0;
    for (const char *at = def->effects ? def->effects : ""; *at;) {
        size_t n = strcspn(at, ", ");
        uint32_t bit = op_effect_of(at, n);
        if (!(bit & HOST_EFFECTS))
            return weft_status_create(WEFT_INVALID_ARGUMENT, def->type,
                                      "effect \"%.*s\": a host's op may be random, host, "
                                      "optimizer, linear_grad, linear, linear_x or one_type",
                                      (int)n, at);
        *out |= bit;
        at += n + strspn(at + n, ", ");
    }
    return NULL;
}

static weft_status read_axes(weft_context *context, host_op *h) {
    const weft_op_def *def = &h->def;
    if (def->gradient_of) {
        const op_schema *forward = ops_find(context, def->gradient_of);
        h->forward = axes_row_of(forward);
        if (!forward)
            return weft_status_create(WEFT_NOT_FOUND, def->type, "it is the gradient of \"%s\", which nobody knows",
                                      def->gradient_of);
    }
    if (h->forward && h->forward->kind == AXES_ROW_RULE)
        h->axes = (axes_row){def->type, AXES_ROW_GRAD, -1, def->axes ? def->axes : ""};
    else if (def->axes && !def->gradient_of)
        h->axes = (axes_row){def->type, AXES_ROW_RULE, -1, def->axes};
    return NULL;
}

static weft_status check_def(weft_context *context, const weft_op_def *def) {
    if (!def->type || !*def->type) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "an op needs a type");
    if (ops_find(context, def->type) || collectives_find(context, def->type))
        return weft_status_create(WEFT_INVALID_ARGUMENT, def->type, "an op of this type is known already");
    return NULL;
}

static const char *or_empty(const char *words) {
    return words ? words : "";
}

static weft_status make_schema(weft_context *context, host_op *h, op_schema *out) {
    const weft_op_def *def = &h->def;
    op_row row = {.type = def->type,
                  .family = "host",
                  .summary = or_empty(def->summary),
                  .inputs = or_empty(def->inputs),
                  .outputs = or_empty(def->outputs),
                  .attrs = or_empty(def->attrs),
                  .infer = def->infer ? infer_by_host : infer_none};
    TRY(read_effects(def, &row.effect_bits));
    TRY(schema_parse(&context->arena, &row, out));
    if (out->effects & OP_VIEWS)
        return weft_status_create(WEFT_INVALID_ARGUMENT, def->type, "\"%s\": a host's op makes no views (&)",
                                  row.outputs);
    out->host = h;
    return NULL;
}

weft_status weft_op_register(weft_context *context, const weft_op_def *def) {
    host_op *h = ARENA_NEW(&context->arena, host_op);
    op_schema *schema = ARENA_NEW(&context->arena, op_schema);
    if (!h || !schema) return base_out_of_memory();
    TRY(base_take_struct("weft_op_def", &h->def, sizeof h->def, def));
    TRY(check_def(context, &h->def));
    TRY(read_axes(context, h));
    TRY(make_schema(context, h, schema));
    TRY(axes_check_row(schema));
    return op_table_add(context, schema);
}

bool weft_op_is_known(weft_context *context, const char *type) {
    return ops_find(context, type) != NULL;
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

int64_t weft_op_declared_int(const weft_op *op, const char *n) {
    return attr_int(op, n, 0);
}
double weft_op_declared_float(const weft_op *op, const char *n) {
    return attr_float(op, n, 0);
}
bool weft_op_declared_bool(const weft_op *op, const char *n) {
    return attr_bool(op, n, false);
}
const char *weft_op_declared_string(const weft_op *op, const char *n) {
    return attr_string(op, n, "");
}
const int64_t *weft_op_declared_ints(const weft_op *op, const char *n, size_t *out_count) {
    return attr_ints(op, n, out_count);
}
const double *weft_op_declared_floats(const weft_op *op, const char *n, size_t *out_count) {
    return attr_floats(op, n, out_count);
}

/* --- what inference and cost functions ask ------------------------------------------------------------------------ */

static const infer *infer_of(const weft_infer *i) {
    return (const infer *)(const void *)i;
}

const weft_op *weft_infer_op(const weft_infer *i) {
    return infer_of(i)->op;
}

size_t weft_infer_nargs(const weft_infer *i, bool output, size_t slot_index) {
    const infer *in = infer_of(i);
    const uint32_t *first = output ? in->out_first : in->in_first;
    size_t nslots = output ? in->schema->noutputs : in->schema->ninputs;
    return slot_index < nslots ? first[slot_index + 1] - first[slot_index] : 0;
}

bool weft_infer_arg(const weft_infer *i, bool output, size_t slot_index, size_t index, weft_arg_type *out_type) {
    const infer *in = infer_of(i);
    uint32_t at;
    if (!host_arg_at(output ? in->out_first : in->in_first, output ? in->schema->noutputs : in->schema->ninputs,
                     slot_index, index, &at))
        return false;
    const shape *s = &(output ? in->out : in->in)[at];
    if (s->dtype == WEFT_DTYPE_NONE) return false;
    *out_type = (weft_arg_type){.dtype = (weft_dtype)s->dtype, .ndim = s->ndim};
    for (int d = 0; d < s->ndim; d++) out_type->dims[d] = s->dims[d];
    return true;
}

void weft_infer_set_output(weft_infer *i, size_t slot_index, size_t index, const weft_arg_type *type) {
    const infer *in = infer_of(i);
    uint32_t at;
    if (!host_arg_at(in->out_first, in->schema->noutputs, slot_index, index, &at)) return;
    if (type->ndim < 0 || type->ndim > WEFT_MAX_RANK) return;
    shape_set(&in->out[at], type->dtype, (size_t)type->ndim, type->dims);
}

weft_status weft_infer_error(const weft_infer *i, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return infer_error(infer_of(i), "%s", message);
}

bool host_op_cost(const op_cost_call *c, double *out_flops, double *out_bytes) {
    const weft_op_def *def = &c->schema->host->def;
    if (!def->cost) return false;
    infer asked = {.op = c->op,
                   .schema = c->schema,
                   .in = c->in,
                   .in_first = c->in_first,
                   .out = (shape *)c->out, /* the function only reads: weft_infer_set_output is not for it */
                   .out_first = c->out_first};
    def->cost((const weft_infer *)(const void *)&asked, out_flops, out_bytes, def->user);
    return true;
}
