/* bind.c: names as bytes. A name means a buffer of its own until an op binds it anew; that holds from this op to the
 * end of the step. What wrote a member before coalesce_tensor bound it wrote other bytes: Paddle allocates when a
 * kernel asks (phi/kernels/coalesce_tensor_kernel.cc; DenseTensor::AllocateFrom). */
#include "proof/schedule/bind.h"

weft_status bind_init(binder *b, proof_schedule *s, const weft_program *p) {
    *b = (binder){.schedule = s, .written = {.schedule = s}};
    size_t n = p->nall_vars ? p->nall_vars : 1;
    b->of_var = ARENA_ARRAY(s->arena, binding, n);
    if (!b->of_var) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) b->of_var[i].buffer = PROOF_NONE;
    return NULL;
}

int64_t bind_nbytes(const weft_var *v) {
    size_t nbytes = weft_dtype_nbytes((weft_dtype)v->dtype);
    if (!v->has_tensor || v->kind != WEFT_DENSE_TENSOR || !nbytes) return -1;
    for (uint32_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0 || !base_mul(nbytes, (size_t)v->dims[i], &nbytes)) return -1;
    return nbytes <= INT64_MAX / 4 ? (int64_t)nbytes : -1;
}

bool bind_is_named(const weft_var *v) {
    return !name_is(v->name, "@EMPTY@") && v->kind != WEFT_FEED_MINIBATCH && v->kind != WEFT_FETCH_LIST &&
           v->kind != WEFT_STEP_SCOPES && v->kind != WEFT_RAW && v->kind != WEFT_READER;
}

weft_status bind_get(binder *b, const weft_var *v, binding *out) {
    binding *found = &b->of_var[v->id];
    if (found->buffer == PROOF_NONE) {
        int64_t nbytes = bind_nbytes(v);
        TRY(schedule_buffer(b->schedule, v->name->bytes, v->persistable || v->need_check_feed, &found->buffer));
        b->schedule->buffers[found->buffer].is_fed = v->need_check_feed && !v->persistable;
        found->nbytes = nbytes < 0 ? 1 : nbytes; /* one part: all of it */
    }
    *out = *found;
    return NULL;
}

/* Bytes of member `k`: what concated_shapes says, else its declaration. */
typedef struct recorded {
    const int64_t *ranks, *dims;
    size_t nranks, ndims, at;
} recorded;

static int64_t recorded_nbytes(recorded *r, size_t k, int64_t element) {
    if (k >= r->nranks || r->ranks[k] < 0 || r->at + (size_t)r->ranks[k] > r->ndims) return -1;
    size_t nbytes = (size_t)element;
    for (int64_t i = 0; i < r->ranks[k]; i++) {
        int64_t extent = r->dims[r->at++];
        if (extent < 0 || !base_mul(nbytes, (size_t)extent, &nbytes)) return -1;
    }
    return nbytes <= INT64_MAX / 4 ? (int64_t)nbytes : -1;
}

static bool round_up(int64_t nbytes, int64_t alignment, int64_t *out) {
    if (alignment < 1 || __builtin_add_overflow(nbytes, alignment - 1, out)) return false;
    *out = *out / alignment * alignment;
    return true;
}

/* What a member of another type or size than its place was made for does. */
static weft_status check_member(binder *b, const weft_var *v, int64_t dtype, int64_t place, uint32_t event) {
    int64_t nbytes = bind_nbytes(v);
    if (v->kind == WEFT_SELECTED_ROWS)
        return schedule_problem(b->schedule, WEFT_VERDICT_INVALID_PROGRAM, event,
                                "\"%s\" is SelectedRows (a sparse gradient): only dense tensors can be coalesced",
                                v->name->bytes);
    if (nbytes > place)
        return schedule_problem(b->schedule, WEFT_VERDICT_OUT_OF_BOUNDS, event,
                                "\"%s\" has %lld bytes (%s), its place in the buffer %lld: who writes it overruns the "
                                "member behind it",
                                v->name->bytes, (long long)nbytes, weft_dtype_name((weft_dtype)v->dtype),
                                (long long)place);
    if (nbytes < 0 || v->dtype == dtype) return NULL;
    const char *is = weft_dtype_name((weft_dtype)v->dtype), *wanted = weft_dtype_name((weft_dtype)dtype);
    return schedule_problem(b->schedule, WEFT_VERDICT_INVALID_PROGRAM, event, "\"%s\" is %s, the buffer %s",
                            v->name->bytes, is ? is : "of no known type", wanted ? wanted : "of no known type");
}

weft_status bind_coalesce(binder *b, const weft_op *op, uint32_t event) {
    weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    const slot *outputs = op_find_slot(op, true, "Output");
    if (!fused || !outputs)
        return schedule_problem(b->schedule, WEFT_VERDICT_INVALID_PROGRAM, event,
                                "expected the slots Output and FusedOutput");
    binding whole;
    TRY(bind_get(b, fused, &whole));
    recorded r = {0};
    r.ranks = attr_ints(op, "concated_ranks", &r.nranks);
    r.dims = attr_ints(op, "concated_shapes", &r.ndims);
    int64_t element = attr_int(op, "user_defined_size_of_dtype", -1), offset = whole.begin, step;
    int64_t dtype = attr_int(op, "dtype", WEFT_FP32), alignment = coalesce_alignment(op);
    if (element < 1) element = (int64_t)weft_dtype_nbytes((weft_dtype)dtype);
    proof_part *parts = ARENA_ARRAY(b->schedule->arena, proof_part, outputs->nargs + 1);
    if (!parts) return base_out_of_memory();
    uint32_t first;
    TRY(written_divide(&b->written, whole.buffer, outputs->nargs, &first));
    for (size_t i = 0; i < outputs->nargs; i++) {
        const weft_var *v = slot_var(op, outputs, i);
        int64_t nbytes = recorded_nbytes(&r, i, element), own = bind_nbytes(v);
        if (nbytes < 0) nbytes = own < 0 ? 1 : own;
        if (!round_up(nbytes, alignment, &step) || offset > INT64_MAX / 2 - step)
            return schedule_problem(b->schedule, WEFT_VERDICT_INVALID_PROGRAM, event, "its sizes overflow");
        TRY(check_member(b, v, dtype, step, event));
        parts[i] = (proof_part){v->name->bytes, offset, offset + nbytes, v->id};
        b->of_var[v->id] = (binding){whole.buffer, first + (uint32_t)i + 1, offset, own < 0 ? nbytes : own};
        b->schedule->may_read_unwritten |= own > nbytes; /* padding, or what lies behind it */
        offset += step;
    }
    /* What the buffer is declared as holds only where its layout does not depend on the device. */
    int64_t declared = attr_bool(op, "use_align", true) && attr_int(op, "align_size", -1) > 0 ? bind_nbytes(fused) : -1;
    if (declared >= 0 && offset - whole.begin > declared)
        TRY(schedule_problem(b->schedule, WEFT_VERDICT_OUT_OF_BOUNDS, event,
                             "its members take %lld bytes, \"%s\" has %lld", (long long)(offset - whole.begin),
                             fused->name->bytes, (long long)declared));
    if (whole.nbytes < offset - whole.begin) b->of_var[fused->id].nbytes = offset - whole.begin;
    b->schedule->buffers[whole.buffer].parts = parts;
    b->schedule->buffers[whole.buffer].nparts = outputs->nargs;
    return NULL;
}

/* --- views -------------------------------------------------------------------------------------------------------- */

bool bind_wants_type_only(const op_schema *schema, const slot *s) {
    for (size_t k = 0; schema && k < schema->ninputs; k++)
        if (name_is(s->name, schema->inputs[k].name)) return schema->inputs[k].only_type;
    return false;
}

bool bind_is_view(const weft_op *op, const op_schema *schema, const slot *s, const slot **out_input) {
    if (!schema) return false;
    for (size_t k = 0; k < schema->noutputs; k++) {
        if (!name_is(s->name, schema->outputs[k].name)) continue;
        bool shares = op_is(op, "share_data") || op_is(op, "share_buffer");
        int input = shares ? schema->outputs[k].in_place_of : schema->outputs[k].view_of;
        if (input < 0) return false;
        *out_input = op_find_slot(op, false, schema->inputs[input].name);
        return *out_input != NULL;
    }
    return false;
}

weft_status bind_views(binder *b, const weft_op *op) {
    const op_schema *schema = op_schema_of((weft_op *)op);
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *out = op_slot(op, true, k), *in;
        if (!bind_is_view(op, schema, out, &in)) continue;
        for (uint32_t i = 0; i < out->nargs && i < in->nargs; i++) {
            const weft_var *v = slot_var(op, out, i);
            binding of_input;
            TRY(bind_get(b, slot_var(op, in, i), &of_input));
            b->of_var[v->id] = of_input; /* all of it: which part a view shows is the view's own business */
        }
    }
    return NULL;
}
