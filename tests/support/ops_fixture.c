#include "tests/support/ops_fixture_run.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "executor/kernels/typed.h"
#include "tests/support/fixtures.h"
#include "tests/support/kernel_run.h"

/* Loops over the words of `list` that occur in `op`. */
static bool contains_any(const char *op, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strstr(op, list[i])) return true;
    return false;
}

#define CONTAINS_ANY(op, list) contains_any((op), (list), sizeof(list) / sizeof *(list))

bool fixture_fail(fixture_run *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, r->why_nbytes, format, args);
    va_end(args);
    return false;
}

bool fixture_fail_status(fixture_run *r, weft_status status) {
    fixture_fail(r, "%s: %s", weft_status_place(status), weft_status_message(status));
    weft_status_free(status);
    return false;
}

/* 64-byte aligned garbage of the run's arena; an fp32 or fp64 read from it is NaN. */
static void *garbage(fixture_run *r, size_t nbytes) {
    char *bytes = arena_alloc(&r->arena, nbytes + 64);
    if (!bytes) return NULL;
    bytes += 64 - (uintptr_t)bytes % 64;
    memset(bytes, 0xff, nbytes);
    return bytes;
}

tensor *fixture_copies(fixture_run *r, const tensor *from, uint32_t count, bool filled, bool widens) {
    tensor *to = ARENA_ARRAY(&r->arena, tensor, count + 1);
    for (uint32_t i = 0; to && i < count; i++) {
        to[i] = from[i];
        if (from[i].dtype == WEFT_DTYPE_NONE) continue;
        bool half = widens && dtype_is_half(from[i].dtype);
        size_t nrows = from[i].rows ? (size_t)from[i].dims[0] : 0;
        if (half) to[i].dtype = WEFT_FP32;
        if (!(to[i].data = garbage(r, tensor_nbytes(&to[i])))) return NULL;
        if (nrows && !(to[i].rows = garbage(r, nrows * sizeof *to->rows))) return NULL;
        if (!filled) continue;
        if (half)
            half_load(from[i].dtype, from[i].numel, from[i].data, 1, to[i].data);
        else if (from[i].numel)
            memcpy(to[i].data, from[i].data, tensor_nbytes(&from[i]));
        if (nrows) memcpy(to[i].rows, from[i].rows, nrows * sizeof *to->rows);
    }
    return to;
}

static bool is_empty(const weft_var *v) {
    return name_is(v->name, "@EMPTY@");
}

static tensor tensor_of(const shape *s) {
    tensor t = {.dtype = (weft_dtype)s->dtype, .ndim = s->ndim, .numel = 1, .height = s->height};
    for (int i = 0; i < s->ndim; i++) t.numel *= t.dims[i] = s->dims[i];
    return t;
}

/* A shape that depends on the values of a tensor is taken from the recording. */
static void complete_shape(fixture_run *r, const weft_var *v, shape *s) {
    const npz_array *recorded = npz_find(&r->npz, "out/", v->name->bytes);
    if (!recorded || (s->ndim >= 0 && shape_numel(s) >= 0)) return;
    s->ndim = recorded->ndim;
    memcpy(s->dims, recorded->dims, sizeof s->dims);
}

static bool allocate(fixture_run *r, const weft_var *v) {
    tensor *t = &r->values[v->id];
    shape s = shape_env_get(&r->env, v);
    complete_shape(r, v, &s);
    if (shape_env_set(&r->env, v, &s)) return fixture_fail(r, "out of memory");
    if (s.ndim < 0 || shape_numel(&s) < 0) return fixture_fail(r, "shape of %s is not known", v->name->bytes);
    void *old = t->data;
    *t = tensor_of(&s);
    t->data = old ? old : garbage(r, (size_t)t->numel * weft_dtype_nbytes(t->dtype));
    if (t->height >= 0) t->rows = garbage(r, (size_t)t->dims[0] * sizeof *t->rows);
    return t->data ? true : fixture_fail(r, "out of memory");
}

/* The recorded inputs become the shapes and values of their vars. */
static bool load_inputs(fixture_run *r) {
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        const weft_var *v = program_var(r->program, i);
        const npz_array *a = npz_find(&r->npz, "in/", v->name->bytes);
        shape s = shape_env_get(&r->env, v);
        if (!a) continue;
        s.ndim = a->ndim;
        memcpy(s.dims, a->dims, sizeof s.dims);
        if (shape_env_set(&r->env, v, &s)) return fixture_fail(r, "out of memory");
        tensor t = tensor_of(&s);
        bool halved = r->half != WEFT_DTYPE_NONE && t.dtype == r->half && strcmp(a->dtype, "<f4") == 0;
        if ((size_t)t.numel * (halved ? sizeof(float) : weft_dtype_nbytes(t.dtype)) != a->nbytes)
            return fixture_fail(r, "%s is recorded as %s", v->name->bytes, a->dtype);
        if (!allocate(r, v)) return false;
        if (halved)
            half_store(t.dtype, t.numel, a->data, r->values[v->id].data);
        else if (a->nbytes)
            memcpy(r->values[v->id].data, a->data, a->nbytes);
    }
    return true;
}

/* The members of a coalesced buffer move to their places in it, with what they hold. */
static bool place_members(fixture_run *r, weft_op *op) {
    const slot *members = op_find_slot(op, true, "Output"), *fused = op_find_slot(op, true, "FusedOutput");
    if (!members || !fused || fused->nargs != 1) return fixture_fail(r, "coalesce_tensor without its slots");
    if (!allocate(r, slot_var(op, fused, 0))) return false;
    char *at = r->values[slot_args(op, fused)[0].var_id].data;
    size_t alignment = (size_t)coalesce_alignment(op);
    for (size_t i = 0; i < members->nargs; i++) {
        tensor *t = &r->values[slot_args(op, members)[i].var_id];
        void *old = t->data;
        t->data = at;
        if (!allocate(r, slot_var(op, members, i))) return false;
        size_t nbytes = (size_t)t->numel * weft_dtype_nbytes(t->dtype);
        if (old && nbytes) memcpy(at, old, nbytes);
        at += (nbytes + alignment - 1) / alignment * alignment;
    }
    return true;
}

/* The var of an argument; NULL if there are fewer. */
static weft_var *argument(const weft_op *op, bool output, const char *slot_name, size_t i) {
    const slot *s = op_find_slot(op, output, slot_name);
    return s && i < s->nargs ? slot_var(op, s, i) : NULL;
}

static size_t count_uses(const weft_op *op, const weft_var *v) {
    size_t count = 0;
    FOR_EACH_ARG(op, false, u) {
        count += u->var_id == v->id;
    }
    FOR_EACH_ARG(op, true, w) {
        count += w->var_id == v->id;
    }
    return count;
}

/* Gives outputs the memory of the inputs that they may replace. */
static bool share_memory(fixture_run *r, const weft_op *op, const op_schema *schema) {
    for (size_t s = 0; s < schema->noutputs; s++) {
        int from_slot = schema->outputs[s].in_place_of;
        for (size_t i = 0; from_slot >= 0; i++) {
            weft_var *to = argument(op, true, schema->outputs[s].name, i);
            weft_var *from = argument(op, false, schema->inputs[from_slot].name, i);
            if (!to || !from) break;
            if (to == from || is_empty(to) || r->values[to->id].data || count_uses(op, from) != 1) continue;
            shape of_to = shape_env_get(&r->env, to);
            tensor a = tensor_of(&of_to), b = r->values[from->id];
            if ((size_t)a.numel * weft_dtype_nbytes(a.dtype) == (size_t)b.numel * weft_dtype_nbytes(b.dtype))
                r->values[to->id].data = b.data;
        }
    }
    return true;
}

/* Arguments of one side, flattened in schema order; empty ones of single slots are none. */
static bool collect(fixture_run *r, const weft_op *op, const op_schema *schema, bool output, tensor **out_tensors,
                    uint32_t **out_first) {
    const slot_schema *slots = output ? schema->outputs : schema->inputs;
    size_t nslots = output ? schema->noutputs : schema->ninputs, total = 0;
    for (size_t s = 0; s < nslots; s++) {
        const slot *given = op_find_slot(op, output, slots[s].name);
        total += given ? given->nargs : 0;
    }
    tensor *tensors = ARENA_ARRAY(&r->arena, tensor, total + 1);
    uint32_t *first = ARENA_ARRAY(&r->arena, uint32_t, nslots + 1), n = 0;
    if (!tensors || !first) return fixture_fail(r, "out of memory");
    for (size_t s = 0; s < nslots; s++) {
        first[s] = n;
        weft_var *v;
        for (size_t i = 0; (v = argument(op, output, slots[s].name, i)); i++) {
            tensors[n] = (tensor){.dtype = WEFT_DTYPE_NONE, .height = -1};
            shape type = shape_env_get(&r->env, v);
            bool without_elements = shape_numel(&type) == 0; /* XShape: not fed */
            if (!is_empty(v) && (output || without_elements) && !allocate(r, v)) return false;
            if (!is_empty(v) && !r->values[v->id].data) return fixture_fail(r, "%s has no value", v->name->bytes);
            if (!is_empty(v)) tensors[n] = r->values[v->id];
            if (!is_empty(v) || slots[s].arity == SLOT_LIST) n++;
        }
    }
    first[nslots] = n;
    *out_tensors = tensors;
    *out_first = first;
    return true;
}

bool fixture_ready_op(fixture_run *r, weft_op *op, case_args *out) {
    const op_schema *schema = op_schema_of(op);
    weft_status status = shape_infer_op(&r->env, op, &r->arena);
    if (status) return fixture_fail_status(r, status);
    if ((schema->effects & OP_ALIASES) && !place_members(r, op)) return false;
    if (r->mode == OPS_IN_PLACE && !share_memory(r, op, schema)) return false;
    if (!collect(r, op, schema, false, &out->in, &out->in_first)) return false;
    if (!collect(r, op, schema, true, &out->out, &out->out_first)) return false;
    out->nin = out->in_first[schema->ninputs];
    out->nout = out->out_first[schema->noutputs];
    return true;
}

static bool run_op(fixture_run *r, weft_op *op, uint64_t number) {
    case_args a;
    if (!fixture_ready_op(r, op, &a)) return false;
    if (r->linear) return fixture_check_linear(r, op, &a, number);
    if (r->cuts) return fixture_check_cuts(r, op, &a, number);
    if (r->types) return fixture_check_types(r, op, &a, number);
    if (r->axes) return fixture_check_axes(r, op, &a, number);
    if (r->edges) return fixture_check_edges(r, op, &a, number);
    weft_status status = kernel_run_op(op, a.in, a.in_first, a.out, a.out_first, number, &r->arena);
    return status ? fixture_fail_status(r, status) : true;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static double element(weft_dtype dtype, const void *data, int64_t i) {
    switch ((int)dtype) {
    case WEFT_FP32: return (double)((const float *)data)[i];
    case WEFT_FP64: return ((const double *)data)[i];
    case WEFT_FP16: return (double)fp16_to_f32(((const uint16_t *)data)[i]);
    default: return (double)bf16_to_f32(((const uint16_t *)data)[i]);
    }
}

static double tolerance(const char *op, weft_dtype dtype) {
    static const char *const loose[] = {"conv",    "pool",   "norm",   "loss", "log",
                                        "entropy", "interp", "cumsum", "prod", "_grad"};
    if (dtype == WEFT_BF16) return 2e-2;
    if (dtype == WEFT_FP16) return 2e-3;
    return CONTAINS_ANY(op, loose) ? 1e-4 : 1e-5;
}

/* Complex numbers are compared as their parts. */
static bool compare_floats(fixture_run *r, const weft_var *v, const tensor *t, const npz_array *want) {
    double largest = 0, off = 0;
    weft_dtype dtype = t->dtype == WEFT_COMPLEX64 ? WEFT_FP32 : t->dtype;
    for (int64_t i = 0; i < t->numel * (1 + (t->dtype != dtype)); i++) {
        double a = element(dtype, t->data, i), b = element(dtype, want->data, i);
        if (isfinite(b)) {
            largest = fmax(largest, fabs(b));
            off = fmax(off, isnan(a) ? INFINITY : fabs(a - b));
        } else if (!(a == b || (isnan(a) && isnan(b)))) {
            return fixture_fail(r, "%s[%lld] is %g, not %g", v->name->bytes, (long long)i, a, b);
        }
    }
    double limit = tolerance(r->op, dtype) * fmax(largest, 1e-6);
    if (off <= limit) return true;
    return fixture_fail(r, "%s is off by %g of %g (limit %g)", v->name->bytes, off, largest, limit);
}

static bool compare(fixture_run *r, const weft_var *v, const npz_array *want) {
    const tensor *t = &r->values[v->id];
    if (!t->data) return fixture_fail(r, "%s was not computed", v->name->bytes);
    bool same = t->ndim == want->ndim && memcmp(t->dims, want->dims, (size_t)t->ndim * sizeof *t->dims) == 0;
    if (!same) return fixture_fail(r, "%s has another shape", v->name->bytes);
    if ((size_t)t->numel * weft_dtype_nbytes(t->dtype) != want->nbytes)
        return fixture_fail(r, "%s is %s, recorded as %s", v->name->bytes, weft_dtype_name(t->dtype), want->dtype);
    if (!r->values_matter) return true;
    if (dtype_is_float(t->dtype) || t->dtype == WEFT_COMPLEX64) return compare_floats(r, v, t, want);
    if (want->nbytes && memcmp(t->data, want->data, want->nbytes) != 0)
        return fixture_fail(r, "%s differs", v->name->bytes);
    return true;
}

static bool compare_rows(fixture_run *r, const weft_var *v, const npz_array *want) {
    const tensor *t = &r->values[v->id];
    if (t->rows && want->nbytes == (size_t)t->dims[0] * sizeof *t->rows &&
        memcmp(t->rows, want->data, want->nbytes) == 0)
        return true;
    return fixture_fail(r, "%s has other rows", v->name->bytes);
}

/* Whether the op that the recording is of writes it; of a type without a row, as gradients of other types are, any. */
static bool is_of_op(const fixture_run *r, const weft_var *v) {
    if (!ops_find(r->context, r->op)) return true;
    FOR_EACH_USE(u, v) {
        if (u->is_output && op_is(use_op(r->program, u), r->op)) return true;
    }
    return false;
}

bool fixture_compare(fixture_run *r) {
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        const weft_var *v = program_var(r->program, i);
        char rows[300];
        snprintf(rows, sizeof rows, "%s#rows", v->name->bytes);
        const npz_array *want = npz_find(&r->npz, "out/", v->name->bytes), *want_rows = npz_find(&r->npz, "out/", rows);
        if (want && !compare(r, v, want)) return false;
        if (want_rows && !compare_rows(r, v, want_rows)) return false;
        r->ncompared += (want || want_rows) && is_of_op(r, v);
    }
    return true;
}

/* --- whole recordings --------------------------------------------------------------------------------------------- */

bool fixture_has_kernels(const weft_program *p) {
    FOR_EACH_OP(op, p->blocks[0]) {
        const op_schema *schema = op_schema_of(op);
        if (!schema || !kernel_find(schema) || (schema->effects & OP_COLLECTIVE)) return false;
    }
    return true;
}

bool fixture_begin(fixture_run *r) {
    weft_status status = shape_env_init(&r->env, r->program, &r->arena);
    if (status) return fixture_fail_status(r, status);
    r->values = ARENA_ARRAY(&r->arena, tensor, r->program->nall_vars + 1);
    if (!r->values) return fixture_fail(r, "out of memory");
    return load_inputs(r) && (!r->empty || fixture_make_empty(r));
}

static bool run_ops(fixture_run *r) {
    uint64_t number = 0;
    if (!fixture_begin(r)) return false;
    FOR_EACH_OP(op, r->program->blocks[0]) {
        if (!run_op(r, op, ++number)) return false;
    }
    return r->linear || r->cuts || r->types || r->axes || r->edges || fixture_compare(r);
}

/* Whether ops without a kernel may come to others in the plan. */
static bool can_be_planned(const weft_program *p) {
    FOR_EACH_OP(op, p->blocks[0]) {
        const op_schema *schema = op_schema_of(op);
        if (!schema || (schema->effects & OP_COLLECTIVE)) return false;
    }
    return true;
}

static ops_result run_recording(fixture_run *r, const char *dir, const char *variant) {
    char path[600];
    *r->why = 0;
    snprintf(path, sizeof path, "%s/%s.pdmodel", dir, variant);
    weft_status status = weft_program_load(r->context, path, NULL, &r->program);
    if (status) fixture_fail_status(r, status);
    if (status) return OPS_FAILED;
    ops_result result = OPS_SKIPPED;
    bool has_kernels = fixture_has_kernels(r->program);
    if (has_kernels || (r->plans && can_be_planned(r->program))) {
        arena_init(&r->arena, &r->context->allocator);
        snprintf(path, sizeof path, "%s/%s.npz", dir, variant);
        bool passed = npz_open(&r->npz, &r->context->allocator, path, r->why, r->why_nbytes) &&
                      (has_kernels ? run_ops(r) : fixture_run_planned(r));
        npz_close(&r->npz);
        arena_fini(&r->arena);
        result = passed ? OPS_PASSED : OPS_FAILED;
    }
    weft_program_destroy(r->program);
    return result;
}

ops_result ops_fixture_run(weft_context *context, const char *dir, const char *op, const char *variant, ops_mode mode,
                           char *why, size_t why_nbytes) {
    static const char *const random_words[] = {"random",         "randint",     "randperm", "bernoulli", "multinomial",
                                               "gumbel_softmax", "exponential", "poisson",  "dirichlet",
                                               "binomial",       "standard_gamma"};
    fixture_run r = {.context = context, .mode = mode, .op = op, .why = why, .why_nbytes = why_nbytes};
    r.values_matter = (!CONTAINS_ANY(op, random_words) && strcmp(op, "empty") != 0) || strstr(op, "_grad");
    r.plans = mode == OPS_APART;
    ops_result result = run_recording(&r, dir, variant);
    return result == OPS_PASSED && !r.ncompared ? OPS_SKIPPED : result;
}

ops_result ops_fixture_run_linear(weft_context *context, const char *dir, const char *variant, char *why,
                                  size_t why_nbytes) {
    fixture_run r = {.context = context, .op = "", .linear = true, .why = why, .why_nbytes = why_nbytes};
    ops_result result = run_recording(&r, dir, variant);
    return result == OPS_PASSED && !r.nlinear ? OPS_SKIPPED : result;
}

ops_result ops_fixture_run_cuts(weft_context *context, const char *dir, const char *variant, size_t *nways, char *why,
                                size_t why_nbytes) {
    fixture_run r = {.context = context, .op = "", .cuts = true, .why = why, .why_nbytes = why_nbytes};
    ops_result result = run_recording(&r, dir, variant);
    *nways = r.nlinear;
    return result;
}

ops_result ops_fixture_run_axes(weft_context *context, const char *dir, const char *variant, struct axes_check *check,
                                char *why, size_t why_nbytes) {
    fixture_run r = {.context = context, .op = "", .axes = check, .why = why, .why_nbytes = why_nbytes};
    return run_recording(&r, dir, variant);
}

ops_result ops_fixture_run_types(weft_context *context, const char *dir, const char *variant, size_t *nops, char *why,
                                 size_t why_nbytes) {
    fixture_run r = {.context = context, .op = "", .types = true, .why = why, .why_nbytes = why_nbytes};
    ops_result result = run_recording(&r, dir, variant);
    *nops = r.nlinear;
    return result;
}

ops_result ops_fixture_run_edges(weft_context *context, const char *dir, const char *variant, bool empty,
                                 ops_edges *tally, char *why, size_t why_nbytes) {
    fixture_run r = {
        .context = context, .op = "", .edges = tally, .empty = empty, .why = why, .why_nbytes = why_nbytes};
    ops_result result = run_recording(&r, dir, variant);
    if (r.nlinear && result == OPS_FAILED) tally->empty_refused++;
    return result;
}

static bool matches(const json_t *patterns, const char *recording) {
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern) {
        if (json_is_string(pattern) && fnmatch(json_string_value(pattern), recording, 0) == 0) return true;
    }
    return false;
}

bool ops_fixture_is_known(weft_context *context, const char *root, const char *op, const char *variant) {
    char path[600], recording[300];
    char *bytes = NULL;
    size_t nbytes = 0;
    json_t *known = NULL;
    snprintf(recording, sizeof recording, "%s/%s", op, variant);
    if (!fixture_path(path, sizeof path, "ops/known_differences.json")) return false;
    weft_status status = file_read(&context->allocator, path, 1 << 20, &bytes, &nbytes);
    if (!status) status = json_read(context, bytes, nbytes, path, &known);
    if (bytes) base_free(&context->allocator, bytes, nbytes + 1);
    bool found = !status && matches(json_object_get(known, "meaningless"), recording);
    found = found || (strcmp(root, "ops") == 0 && strcmp(recording, "gather_grad/gather.a1_i32") == 0);
    weft_status_free(status);
    json_decref(known);
    return found;
}
