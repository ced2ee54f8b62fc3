/* exact.c: see exact.h. */
#include "tests/support/exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/pass.h"
#include "weft/verify.h"

/* --- loading ------------------------------------------------------------------------------------------------------ */

static bool load_rank(exact_world *w, weft_context *context, const char *folder, const char *format, int rank) {
    char file[64], relative[300], path[512];
    snprintf(file, sizeof file, format, rank);
    snprintf(relative, sizeof relative, "%s/%s", folder, file);
    if (!fixture_path(path, sizeof path, relative)) return false;
    must(weft_program_load(context, path, NULL, &w->programs[w->nranks++]));
    return true;
}

/* A traced graph is every rank's; how many there are its rings tell. */
static void share_graph(exact_world *w) {
    weft_program *p = w->programs[0];
    int n = 1;
    for (size_t i = 0; i < p->nrings; i++)
        if ((int)p->rings[i].nranks > n) n = (int)p->rings[i].nranks;
    for (; w->nranks < n && n <= EXACT_MOST_RANKS; w->nranks++) must(weft_program_clone(p, &w->programs[w->nranks]));
}

void world_load(exact_world *w, weft_context *context, const char *folder) {
    *w = (exact_world){.nranks = 0};
    for (int r = 0; r < EXACT_MOST_RANKS; r++)
        if (!load_rank(w, context, folder, "rank%d.pdmodel", r) &&
            !load_rank(w, context, folder, "rank%d.pdmodel.gz", r))
            break;
    if (!w->nranks &&
        (load_rank(w, context, folder, "before.fx.json", 0) || load_rank(w, context, folder, "before.fx.json.gz", 0)))
        share_graph(w);
}

bool world_try_pass(exact_world *w, const char *message) {
    weft_status status = NULL;
    for (int r = 0; r < w->nranks && !status; r++) {
        weft_pass_list *list;
        must(weft_pass_list_parse(w->programs[r]->context, message, strlen(message), "test", &list));
        status = weft_pass_list_run(list, w->programs[r], NULL);
        weft_pass_list_destroy(list);
    }
    bool good = status == NULL;
    weft_status_free(status);
    return good;
}

void world_pass(exact_world *w, const char *message) {
    if (world_try_pass(w, message)) return;
    printf("FAIL set-up: a pass refuses\n0 passed, 1 failed\n");
    exit(1);
}

void world_clone(const exact_world *from, exact_world *out) {
    *out = (exact_world){.nranks = from->nranks};
    for (int r = 0; r < from->nranks; r++) must(weft_program_clone(from->programs[r], &out->programs[r]));
}

void world_free(exact_world *w) {
    for (int r = 0; r < w->nranks; r++) weft_program_destroy(w->programs[r]);
    w->nranks = 0;
}

/* --- what is exact ------------------------------------------------------------------------------------------------ */

/* On whole numbers; gradients of these are, too. */
static const char *const exact_types[] = {"matmul_v2",
                                          "mul",
                                          "elementwise_add",
                                          "elementwise_sub",
                                          "elementwise_mul",
                                          "elementwise_max",
                                          "relu",
                                          "scale",
                                          "sum",
                                          "assign",
                                          "reshape2",
                                          "transpose2",
                                          "concat",
                                          "split",
                                          "slice",
                                          "stack",
                                          "squeeze2",
                                          "unsqueeze2",
                                          "fill_constant",
                                          "reduce_sum",
                                          "reduce_mean",
                                          "conv2d",
                                          "lookup_table_v2",
                                          "flatten_contiguous_range",
                                          "tril_triu",
                                          "cast",
                                          "square",
                                          "abs",
                                          "squared_l2_norm",
                                          "coalesce_tensor",
                                          "nop",
                                          "depend",
                                          "share_data",
                                          "feed",
                                          "fetch",
                                          "check_finite_and_unscale",
                                          "arg_max",
                                          "equal",
                                          "increment",
                                          "sgd",
                                          "conditional_block",
                                          "update_loss_scaling",
                                          "fill_any_like",
                                          "zeros_like",
                                          "wait_tensor",
                                          "getitem",
                                          "alltoall",
                                          "reduce_scatter",
                                          "all_gather",
                                          "broadcast",
                                          "c_identity",
                                          "mp_allreduce_sum",
                                          "pool2d",
                                          "elementwise_mod",
                                          "not_equal",
                                          "logical_and",
                                          "greater_than"};
static const char *const exact_aten[] = {
    "aten_t",          "aten_alias",     "aten_view",    "aten_addmm",      "aten_expand",    "aten_threshold_backward",
    "aten_cat",        "aten_slice",     "aten_copy_",   "aten_div_scalar", "aten_clone",     "aten_reshape",
    "aten_mul_scalar", "aten_detach",    "aten_zeros",   "aten_zeros_like", "aten_full",      "aten_empty",
    "aten_split",      "aten_transpose", "aten_permute", "aten_select",     "aten_unsqueeze", "aten_squeeze",
    "aten_neg"};

static bool is_among(const char *type, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(type, list[i]) == 0) return true;
    return false;
}

static bool is_power_of_two(double x) {
    int exponent;
    return x != 0 && isfinite(x) && fabs(frexp(x, &exponent)) == 0.5;
}

/* Every float attr that multiplies is a power of two from here on. */
static void round_factor(weft_op *op, const char *attr) {
    const weft_attr *a = op_find_attr(op, attr);
    if (!a || (a->type != ATTR_FLOAT && a->type != ATTR_FLOAT64) || a->u.f == 0 || is_power_of_two(a->u.f)) return;
    must(weft_op_set_attr_float(op, attr, a->u.f < 0 ? -0.5 : 0.5));
    if (op_find_attr(op, "str_value")) must(weft_op_set_attr_string(op, "str_value", ""));
}

static bool has_power_of_two(const weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        shape s = shape_of_var(use_var(op->program, u));
        int64_t n = shape_numel(&s);
        if (n <= 0 || !is_power_of_two((double)n)) return false;
    }
    return true;
}

static bool is_exact(const weft_op *op) {
    char type[64];
    snprintf(type, sizeof type, "%s", op->type->bytes);
    size_t n = strlen(type);
    if (n > 5 && strcmp(type + n - 5, "_grad") == 0) type[n - 5] = 0;
    if (strcmp(type, "softmax_with_cross_entropy") == 0) return type[n - 5] == 0 && n > 26;
    if (strcmp(type, "reduce_mean") == 0) return has_power_of_two(op);
    if (strcmp(type, "pool2d") == 0) return strcmp(attr_string(op, "pooling_type", "max"), "max") == 0;
    if (op_has_effect((weft_op *)op, OP_COLLECTIVE | OP_NO_BYTES | OP_ONLY_VIEWS)) return true;
    if (strcmp(type, "aten_div_scalar") == 0) return is_power_of_two(attr_float(op, "other", 3));
    return is_among(type, exact_types, sizeof exact_types / sizeof *exact_types) ||
           is_among(type, exact_aten, sizeof exact_aten / sizeof *exact_aten);
}

/* --- leaving out -------------------------------------------------------------------------------------------------- */

static void copy_role(const weft_op *from, weft_op *to) {
    static const char *const attrs[] = {"op_role_var", "op_namescope", "op_role"};
    for (size_t i = 0; i < 3; i++) {
        const weft_attr *a = op_find_attr(from, attrs[i]);
        weft_attr *copy;
        if (!a) continue;
        must(op_set_attr(to, attrs[i], &copy));
        copy->type = a->type;
        copy->count = a->count;
        copy->u = a->u;
    }
}

/* Any optimizer becomes sgd. */
static void simplify_optimizer(weft_op *op) {
    weft_op *sgd;
    must(weft_op_create(op->program, "sgd", &sgd));
    must(weft_op_add_input(sgd, "Grad", weft_op_input(op, "Grad", 0)));
    must(weft_op_add_input(sgd, "LearningRate", weft_op_input(op, "LearningRate", 0)));
    must(weft_op_add_input(sgd, "Param", weft_op_input(op, "Param", 0)));
    must(weft_op_add_output(sgd, "ParamOut", weft_op_output(op, "ParamOut", 0)));
    copy_role(op, sgd);
    weft_block_insert_before(op->block, op, sgd);
    if (op->dist) {
        op_dist *dist;
        must(op_dist_get(sgd, &dist));
        *dist = *op->dist;
    }
    weft_op_remove(op);
}

void world_make_exact(exact_world *w) {
    for (int r = 0; r < w->nranks; r++)
        for (size_t b = 0; b < w->programs[r]->nblocks; b++)
            for (weft_op *op = w->programs[r]->blocks[b]->first, *next; op; op = next) {
                next = op->next;
                if (op_has_effect(op, OP_OPTIMIZER) && !op_is(op, "sgd")) {
                    simplify_optimizer(op);
                } else if (!is_exact(op)) {
                    weft_op_remove(op);
                } else {
                    round_factor(op, "scale");
                    round_factor(op, "value");
                }
            }
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

static void put_number(void *at, weft_dtype dtype, size_t i, double x) {
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (dtype) {
    case WEFT_FP32: ((float *)at)[i] = f; break;
    case WEFT_FP64: ((double *)at)[i] = x; break;
    case WEFT_BF16: ((uint16_t *)at)[i] = (uint16_t)(bits >> 16); break;
    case WEFT_FP16: /* of a power of two */
        ((uint16_t *)at)[i] = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10));
        break;
    default: break;
    }
}

static void put_whole(void *at, size_t element, size_t i, uint64_t x) {
    memcpy((char *)at + i * element, &x, element); /* little-endian, and 0 or 1 */
}

static bool is_learning_rate(const weft_program *p, const char *n) {
    weft_var *v = weft_block_find_var(p->blocks[0], n);
    if (!v) return false;
    FOR_EACH_USE(u, v) {
        const slot *s = op_find_slot(use_op(v->program, u), false, "LearningRate");
        if (s && s->nargs && slot_var(use_op(v->program, u), s, 0) == v) return true;
    }
    return false;
}

/* State is equal on all ranks and so is what ranks branch on; other inputs are each rank's own. */
static void set_value(weft_executor *x, const weft_program *p, int rank, const weft_plan_value *v) {
    size_t element = weft_dtype_nbytes(v->dtype), n = 1;
    weft_tensor t = {.name = v->name, .dtype = v->dtype, .ndim = v->ndim};
    for (size_t k = 0; k < v->ndim; k++) n *= (size_t)(t.dims[k] = v->dims[k]);
    t.nbytes = n * element;
    t.data = calloc(t.nbytes + 8, 1);
    bool is_common = v->persistable || v->dtype == WEFT_BOOL, is_rate = is_learning_rate(p, v->name);
    uint64_t seed = base_hash(v->name, strlen(v->name)) + (is_common ? 0 : (uint64_t)rank + 1);
    bool is_float = v->dtype == WEFT_FP32 || v->dtype == WEFT_FP64 || v->dtype == WEFT_FP16 || v->dtype == WEFT_BF16;
    for (size_t i = 0; i < n; i++) {
        uint64_t draw = mix(seed + i * UINT64_C(0x2545f4914f6cdd1d));
        static const double numbers[] = {-2, -1, 1, 2};
        if (is_float)
            put_number(t.data, v->dtype, i, is_rate ? 0.25 : numbers[draw >> 7 & 3]);
        else
            put_whole(t.data, element, i, draw >> 9 & 1);
    }
    must(weft_executor_set(x, rank, v->name, &t));
    free(t.data);
}

static void set_values(weft_executor *x, const exact_world *w, weft_plan *const *plans, bool is_first) {
    for (int r = 0; r < w->nranks; r++)
        for (size_t i = 0; i < weft_plan_nvalues(plans[r]); i++) {
            weft_plan_value v;
            weft_plan_value_at(plans[r], i, &v);
            if ((is_first && v.persistable) || (v.is_feed && (is_first || v.is_written)))
                set_value(x, w->programs[r], r, &v);
        }
}

static void keep_values(weft_executor *x, const exact_world *w, weft_plan *const *plans, exact_result *out) {
    for (int r = 0; r < w->nranks; r++) {
        must(weft_tensors_create(w->programs[r]->context, &out->ranks[r]));
        for (size_t i = 0; i < weft_plan_nvalues(plans[r]); i++) {
            weft_plan_value v;
            weft_tensor t, *kept;
            weft_plan_value_at(plans[r], i, &v);
            if (!v.persistable && !v.is_fetch) continue;
            must(weft_executor_get(x, r, v.name, &t));
            if (!t.data) continue;
            must(weft_tensors_add(out->ranks[r], v.name, t.dtype, t.ndim, t.dims, &kept));
            memcpy(kept->data, t.data, t.nbytes);
        }
    }
    out->nranks = w->nranks;
}

static weft_status run_plans(const exact_world *w, weft_plan *const *plans, const weft_delay *delay,
                             exact_result *out) {
    weft_executor *x = NULL;
    weft_executor_options o = {WEFT_EXECUTOR_OPTIONS_INIT,
                               .watchdog_seconds = 3,
                               .first_step_seconds = 3,
                               .seed = 1,
                               .unsafe = true,
                               .delays = delay};
    o.ndelays = delay != NULL;
    TRY(weft_executor_create(w->programs[0]->context, (const weft_plan *const *)plans, (size_t)w->nranks, w->nranks, &o,
                             &x));
    weft_status status = NULL;
    for (int step = 0; step < 2 && !status; step++) {
        set_values(x, w, plans, step == 0);
        status = weft_executor_run(x);
    }
    if (!status) keep_values(x, w, plans, out);
    weft_executor_destroy(x);
    return status;
}

static void keep_reason(weft_status status, exact_result *out) {
    if (status)
        snprintf(out->why_not, sizeof out->why_not, "%s: %s", weft_status_place(status), weft_status_message(status));
    weft_status_free(status);
}

void world_run_plans(const exact_world *w, weft_plan *const *plans, const weft_delay *delay, exact_result *out) {
    *out = (exact_result){.nranks = 0};
    keep_reason(run_plans(w, plans, delay, out), out);
}

static weft_status plan_as(const exact_world *w, int rank, weft_reading reading, weft_plan **out) {
    weft_order_options how = {WEFT_ORDER_OPTIONS_INIT, .reading = reading};
    weft_plan_order *order = NULL;
    weft_status status = weft_plan_order_create(w->programs[rank], &how, &order);
    if (!status)
        status = weft_plan_create(w->programs[rank], &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, out);
    weft_plan_order_destroy(order);
    return status;
}

weft_status world_plan_in_order(const exact_world *w, int rank, weft_plan **out) {
    return plan_as(w, rank, WEFT_READING_IN_ORDER, out);
}

void world_run(const exact_world *w, const weft_delay *delay, exact_result *out) {
    weft_plan *plans[EXACT_MOST_RANKS] = {NULL};
    weft_status status = NULL;
    *out = (exact_result){.nranks = 0};
    for (int r = 0; r < w->nranks && !status; r++)
        status = plan_as(w, r, delay ? WEFT_READING_IN_ORDER : WEFT_READING_BY_BYTES, &plans[r]);
    if (!status) status = run_plans(w, plans, delay, out);
    keep_reason(status, out);
    for (int r = 0; r < w->nranks; r++) weft_plan_destroy(plans[r]);
}

bool result_is_finite(const exact_result *r) {
    for (int i = 0; i < r->nranks; i++)
        for (size_t k = 0; k < weft_tensors_count(r->ranks[i]); k++) {
            const weft_tensor *t = weft_tensors_at(r->ranks[i], k);
            for (size_t e = 0; t->dtype == WEFT_FP32 && e < t->nbytes / 4; e++)
                if (!isfinite(((const float *)t->data)[e])) return false;
        }
    return true;
}

void result_free(exact_result *r) {
    for (int i = 0; i < r->nranks; i++) weft_tensors_destroy(r->ranks[i]);
    r->nranks = 0;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* 0 and -0 are one number. */
static bool same_numbers(const weft_tensor *s, const weft_tensor *t) {
    if (s->dtype != t->dtype || s->nbytes != t->nbytes) return false;
    if (memcmp(s->data, t->data, s->nbytes) == 0) return true;
    const float *a = s->data, *b = t->data;
    const double *c = s->data, *d = t->data;
    for (size_t i = 0; s->dtype == WEFT_FP32 && i < s->nbytes / 4; i++)
        if (!(a[i] == b[i])) return false;
    for (size_t i = 0; s->dtype == WEFT_FP64 && i < s->nbytes / 8; i++)
        if (!(c[i] == d[i])) return false;
    return s->dtype == WEFT_FP32 || s->dtype == WEFT_FP64;
}

bool result_equal(const exact_result *expected, const exact_result *found, char *out, size_t room) {
    snprintf(out, room, "%s", found->nranks ? "" : found->why_not);
    if (!expected->nranks || expected->nranks != found->nranks) return false;
    for (int r = 0; r < expected->nranks; r++)
        for (size_t i = 0; i < weft_tensors_count(expected->ranks[r]); i++) {
            const weft_tensor *s = weft_tensors_at(expected->ranks[r], i),
                              *t = weft_tensors_find(found->ranks[r], s->name);
            if (t && same_numbers(s, t)) continue;
            snprintf(out, room, "\"%s\" of rank %d differs", s->name, r);
            return false;
        }
    return true;
}
