/* Shape inference against what Paddle recorded: shapes that its programs declare, types and small elements that its ops
 * computed. */
#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "ops/infer.h"
#include "tests/support/fixtures.h"
#include "tests/support/npz.h"

static weft_context *context;

static void setup(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(ops_register(context));
}

static void teardown(void) {
    context_destroy(context);
}

TestSuite(ops_infer_recorded, .init = setup, .fini = teardown);

/* --- recorded programs -------------------------------------------------------------------------------------------- */

/* Whether the first op that names `v` makes it, by a rule: then inference can and must find its type. */
static bool is_made(const weft_var *v) {
    const use *first = use_at(v->program, v->first_use);
    if (!first || v->persistable) return false;
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u), *before = use_op(v->program, first);
        if (op->block->idx != before->block->idx) return false;
        if (op->order < before->order || (op == before && !u->is_output)) first = u;
    }
    const op_schema *s = op_schema_of(use_op(v->program, first));
    return first->is_output && s && s->infer != infer_none && !(s->effects & OP_NO_BYTES);
}

static bool is_in_slot(const weft_var *v, const char *type, const char *slot_name) {
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        if (u->is_output && op_is(op, type) && weft_op_output(op, slot_name, 0) == v) return true;
    }
    return false;
}

/* Paddle leaves the fused buffer's shape at [], and its partitioner splits statistics like the batch: those are stale.
 */
static bool is_stale(const weft_var *v) {
    return is_in_slot(v, "coalesce_tensor", "FusedOutput") || is_in_slot(v, "batch_norm", "SavedMean") ||
           is_in_slot(v, "batch_norm", "SavedVariance");
}

/* Types that inference gave otherwise than Paddle did, as text. */
static void compare_var(const shape_env *env, const weft_var *v, buffer *out) {
    shape got = shape_env_get(env, v), want = shape_of_var(v);
    if (!v->block || want.ndim < 0 || is_stale(v)) return;
    bool same = got.ndim == want.ndim && got.height == want.height && got.dtype == want.dtype;
    for (int32_t d = 0; d < want.ndim && same; d++) same = got.dims[d] == want.dims[d] || want.dims[d] < 0;
    shape_text a, b;
    if (!same)
        buffer_format(out, "%s: Paddle %s/%d, inferred %s/%d\n", v->name->bytes, shape_print(&want, &a), want.dtype,
                      shape_print(&got, &b), got.dtype);
}

/* Forgets what Paddle declared for what ops make, so that inference has to find it. */
static void forget_outputs(shape_env *env) {
    for (size_t i = 0; i < env->nkept; i++)
        if (is_made(program_var(env->program, i))) env->kept[i].ndim = -1;
}

static weft_status infer_program(weft_program *p, buffer *out) {
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    weft_status status = shape_env_init(&env, p, &scratch);
    if (!status) forget_outputs(&env);
    if (!status) status = shape_infer_block(&env, p->blocks[0], &scratch);
    for (size_t i = 0; i < p->nall_vars && !status; i++) compare_var(&env, program_var(p, i), out);
    arena_fini(&scratch);
    return status;
}

/* Slots and attrs that a recorded op carries and its row does not know, as text. */
static void check_row(weft_op *op, buffer *out) {
    const op_schema *s = op_schema_of(op);
    for (int side = 0; side < 2 && s; side++) {
        for (uint32_t i = 0; i < op_nslots(op, side); i++) {
            const char *slot_text = op_slot(op, side, i)->name->bytes;
            if ((side ? schema_output : schema_input)(s, slot_text) < 0)
                buffer_format(out, "%s: slot %s is not in its row\n", s->type, slot_text);
        }
    }
    for (size_t i = 0; s && i < s->nattrs; i++) {
        const weft_attr *a = op_find_attr(op, s->attrs[i].name);
        bool lists = a && (a->type == ATTR_INTS || a->type == ATTR_LONGS);
        bool row_lists = s->attrs[i].type == ATTR_INTS || s->attrs[i].type == ATTR_LONGS;
        bool ints = a && (a->type == ATTR_INT || a->type == ATTR_LONG || a->type == ATTR_BOOLEAN);
        bool row_ints =
            s->attrs[i].type == ATTR_INT || s->attrs[i].type == ATTR_LONG || s->attrs[i].type == ATTR_BOOLEAN;
        if (a && a->type != s->attrs[i].type && !(lists && row_lists) && !(ints && row_ints))
            buffer_format(out, "%s: attr %s: type %d is not that of its row\n", s->type, s->attrs[i].name, a->type);
    }
}

static void walk_file(const char *path) {
    weft_program *p;
    buffer found;
    buffer_init(&found, &context->allocator);
    weft_status status = weft_program_load(context, path, NULL, &p);
    if (!status) {
        for (size_t i = 0; i < p->nblocks; i++) {
            FOR_EACH_OP(op, p->blocks[i]) {
                check_row(op, &found);
            }
        }
        status = infer_program(p, &found);
        weft_program_destroy(p);
    }
    cr_expect_null(status, "%s: %s", path, weft_status_message(status));
    if (found.nbytes) cr_expect_eq(found.nbytes, 0, "%s:\n%.*s", path, (int)found.nbytes, found.bytes);
    weft_status_free(status);
    buffer_fini(&found);
}

static void for_each_file(const char *pattern, void (*visit)(const char *path)) {
    char path[512];
    glob_t files;
    snprintf(path, sizeof path, "%s/%s", fixture_root(), pattern);
    if (glob(path, 0, NULL, &files)) cr_skip_test("no %s", path);
    for (size_t i = 0; i < files.gl_pathc; i++) visit(files.gl_pathv[i]);
    globfree(&files);
}

Test(ops_infer_recorded, finds_the_shapes_of_paddle26_programs) {
    for_each_file("paddle26/*/*.pdmodel*", walk_file);
}
Test(ops_infer_recorded, finds_the_shapes_of_paddle3_programs) {
    for_each_file("paddle3/*/*.pdmodel*", walk_file);
}

/* --- recorded ops: types of what really came out
 * ------------------------------------------------------------------------ */

static const weft_var *find_var(const weft_program *p, const npz_array *t, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(t->name, prefix, n) ? NULL : weft_block_find_var(p->blocks[0], t->name + n);
}

/* bf16 is recorded as uint16 bits. */
static int32_t dtype_of(const npz_array *t, const weft_var *v) {
    static const struct {
        const char *word;
        weft_dtype dtype;
    } dtypes[] = {{"|b1", WEFT_BOOL}, {"<i4", WEFT_INT32}, {"<i8", WEFT_INT64}, {"<f2", WEFT_FP16}, {"<f4", WEFT_FP32},
                  {"<f8", WEFT_FP64}, {"|u1", WEFT_UINT8}, {"|i1", WEFT_INT8},  {"<i2", WEFT_INT16}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].word, t->dtype) == 0) return dtypes[i].dtype;
    return strcmp(t->dtype, "<u2") == 0 ? WEFT_BF16 : v->dtype;
}

/* Element k as inference keeps it: floats as the bits of a double. */
static int64_t kept_element(int32_t dtype, const void *data, int64_t k) {
    int64_t bits;
    double real = dtype == WEFT_FP32 ? (double)((const float *)data)[k] : 0;
    if (dtype == WEFT_FP64) real = ((const double *)data)[k];
    memcpy(&bits, &real, sizeof bits);
    switch (dtype) {
    case WEFT_BOOL: return ((const uint8_t *)data)[k];
    case WEFT_INT32: return ((const int32_t *)data)[k];
    case WEFT_INT64: return ((const int64_t *)data)[k];
    default: return bits;
    }
}

static bool is_kept(int32_t dtype) {
    return dtype == WEFT_BOOL || dtype == WEFT_INT32 || dtype == WEFT_INT64 || dtype == WEFT_FP32 ||
           dtype == WEFT_FP64;
}

/* Inputs have the recorded types; small ones also the recorded values, as a caller of inference may know them. */
static void give_inputs(shape_env *env, const weft_program *p, const npz *recorded) {
    for (size_t i = 0; i < recorded->count; i++) {
        const npz_array *t = &recorded->arrays[i];
        const weft_var *v = find_var(p, t, "in/");
        if (!v) continue;
        int32_t dtype = dtype_of(t, v);
        shape given;
        shape_set(&given, dtype, (size_t)t->ndim, t->dims);
        cr_assert_null(shape_env_set(env, v, &given));
        if (t->numel > 64 || !is_kept(dtype)) continue;
        int64_t *values = ARENA_ARRAY(env->memory, int64_t, t->numel ? t->numel : 1);
        for (int64_t k = 0; k < t->numel; k++) values[k] = kept_element(dtype, t->data, k);
        shape_env_set_values(env, v, values);
    }
}

static bool is_close(int32_t dtype, int64_t kept, int64_t want) {
    double a = value_real(dtype, kept), b = value_real(dtype, want);
    return a == b || fabs(a - b) <= 1e-5 * fabs(b) || (isnan(a) && isnan(b));
}

/* Elements that inference followed are those that Paddle computed. How many were. */
static size_t compare_elements(const shape_env *env, const weft_var *v, const npz_array *t, buffer *out) {
    shape got = shape_env_get(env, v);
    const int64_t *kept = env->values[v->id];
    if (!kept || !is_kept(got.dtype)) return 0;
    for (int64_t k = 0; k < t->numel; k++)
        if (!is_close(got.dtype, kept[k], kept_element(got.dtype, t->data, k))) {
            buffer_format(out, "%s[%lld]: another element than Paddle's was kept\n", v->name->bytes, (long long)k);
            break;
        }
    return (size_t)t->numel;
}

static size_t nkept; /* elements that were compared */

static void compare_outputs(const shape_env *env, const weft_program *p, const npz *recorded, buffer *out) {
    for (size_t i = 0; i < recorded->count; i++) {
        const npz_array *t = &recorded->arrays[i];
        const weft_var *v = find_var(p, t, "out/");
        bool unread = v && is_in_slot(v, "batch_norm", "ReserveSpace"); /* a GPU library's, of any dtype */
        if (!v || !is_made(v) || v->kind == WEFT_SELECTED_ROWS || unread) continue;
        shape want, got = shape_env_get(env, v);
        shape_text a, b;
        shape_set(&want, dtype_of(t, v), (size_t)t->ndim, t->dims);
        bool by_data = is_in_slot(v, "masked_select", "Y") || is_in_slot(v, "where_index", "Out");
        bool same = got.ndim == want.ndim && got.dtype == want.dtype;
        for (int32_t d = 0; d < want.ndim && same; d++)
            same = got.dims[d] == want.dims[d] || (by_data && got.dims[d] < 0);
        if (!same)
            buffer_format(out, "%s: Paddle %s/%d, inferred %s/%d\n", v->name->bytes, shape_print(&want, &a), want.dtype,
                          shape_print(&got, &b), got.dtype);
        else
            nkept += compare_elements(env, v, t, out);
    }
}

/* Where 3.3.1, which Weft follows, differs from the 2.6.2 recording. */
static bool is_known_difference(const char *path) {
    return strstr(path, "/strided_slice/neg_stride") != NULL || strstr(path, "ops/round/halves") != NULL;
}

static weft_status infer_recorded(weft_program *p, const npz *recorded, buffer *out) {
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    weft_status status = shape_env_init(&env, p, &scratch);
    if (!status) {
        forget_outputs(&env);
        give_inputs(&env, p, recorded);
        FOR_EACH_OP(op, p->blocks[0]) {
            check_row(op, out);
        }
        status = shape_infer_block(&env, p->blocks[0], &scratch);
    }
    if (!status) compare_outputs(&env, p, recorded, out);
    arena_fini(&scratch);
    return status;
}

static void walk_op(const char *path) {
    char file[512], why[256] = "";
    int stem = (int)(strlen(path) - strlen(".pdmodel"));
    npz recorded;
    weft_program *p;
    buffer found;
    snprintf(file, sizeof file, "%.*s.npz", stem, path);
    if (!file_exists(file)) snprintf(file, sizeof file, "%.*s.rank0.npz", stem, path);
    if (!file_exists(file) || is_known_difference(path)) return;
    cr_assert(npz_open(&recorded, &context->allocator, file, why, sizeof why), "%s: %s", file, why);
    buffer_init(&found, &context->allocator);
    weft_status status = weft_program_load(context, path, NULL, &p);
    if (!status) {
        status = infer_recorded(p, &recorded, &found);
        weft_program_destroy(p);
    }
    cr_expect_null(status, "%s: %s", path, weft_status_message(status));
    if (found.nbytes) cr_expect_eq(found.nbytes, 0, "%s:\n%.*s", path, (int)found.nbytes, found.bytes);
    weft_status_free(status);
    npz_close(&recorded);
    buffer_fini(&found);
}

Test(ops_infer_recorded, finds_the_shapes_and_elements_of_recorded_ops) {
    for_each_file("ops/*/*.pdmodel", walk_op);
    cr_assert_gt(nkept, 100, "only %zu elements were followed", nkept);
}
Test(ops_infer_recorded, finds_the_shapes_of_recorded_ops_of_paddle3) {
    for_each_file("ops3/*/*.pdmodel", walk_op);
}
