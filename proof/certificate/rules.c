/* rules.c: what the checker believes of ops: a list of its own, short, and written apart from ops.def, so
 * that a mark that is wrong there is not believed here too. What is not in it is a function of its inputs that must be
 * there before and after. */
#include "proof/certificate/certificate.h"

enum { CPU_ALIGNMENT = 4096 }; /* of coalesce_tensor where align_size does not say */

static const struct {
    const char *type;
    cert_rule rule;
} rules[] = {
    {"assign", CERT_COPY},
    {"memcpy", CERT_COPY},
    {"memcpy_h2d", CERT_COPY},
    {"wait_tensor", CERT_NAME},
    {"getitem", CERT_NAME},
    {"aten_alias", CERT_NAME},
    {"share_data", CERT_NAME},
    {"scale", CERT_SCALE},
    {"aten_mul_scalar", CERT_SCALE},
    {"aten_div_scalar", CERT_SCALE},
    {"all_reduce", CERT_JOIN},
    {"all_reduce_coalesced", CERT_JOIN},
    {"c_allreduce_sum", CERT_JOIN},
    {"c_allreduce_max", CERT_JOIN},
    {"c_allreduce_min", CERT_JOIN},
    {"c_allreduce_prod", CERT_JOIN},
    {"c_allreduce_avg", CERT_JOIN},
    {"coalesce_tensor", CERT_BUCKET},
    {"nop", CERT_NOTHING},
    {"c_wait_compute", CERT_NOTHING},
    {"c_wait_comm", CERT_NOTHING},
    {"c_sync_calc_stream", CERT_NOTHING},
    {"c_sync_comm_stream", CERT_NOTHING},
    {"aten_view", CERT_VIEW},
    {"aten_flatten", CERT_VIEW},
    {"aten_unsqueeze", CERT_VIEW},
    {"aten_squeeze", CERT_VIEW},
    {"aten_t", CERT_VIEW},
    {"aten_transpose", CERT_VIEW},
    {"aten_permute", CERT_VIEW},
    {"aten_expand", CERT_VIEW},
    {"aten_slice", CERT_VIEW},
    {"aten_select", CERT_VIEW},
    {"aten_split", CERT_VIEW},
};

const slot *cert_x(const weft_op *op) {
    static const char *const names[] = {"X", "x", "self"};
    const slot *s = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !s; i++) s = op_find_slot(op, false, names[i]);
    return s;
}

const slot *cert_out(const weft_op *op) {
    const slot *s = op_find_slot(op, true, "Out");
    return s ? s : op_find_slot(op, true, "out");
}

bool cert_is_float(int32_t dtype) {
    return dtype == WEFT_FP32 || dtype == WEFT_FP64 || dtype == WEFT_FP16 || dtype == WEFT_BF16;
}

double cert_scale_of(const weft_op *op) {
    if (op_is(op, "scale")) return weft_op_attr_float(op, "scale", 1.0);
    double number = weft_op_attr_float(op, "other", 1.0);
    return op_is(op, "aten_div_scalar") ? 1.0 / number : number;
}

static bool is_plain_scale(const weft_op *op, const slot *x, const slot *out) {
    double factor = cert_scale_of(op);
    return cert_is_float(slot_var(op, x, 0)->dtype) && slot_var(op, x, 0)->dtype == slot_var(op, out, 0)->dtype &&
           weft_op_attr_float(op, "bias", 0.0) == 0.0 && weft_op_ninputs(op, "ScaleTensor") == 0 &&
           weft_op_ninputs(op, "BiasTensor") == 0 && factor - factor == 0 && factor != 0;
}

bool cert_runs_block(const weft_op *op) {
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS) return true;
    return false;
}

cert_rule cert_rule_of_type(const char *type) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(type, rules[i].type) == 0) return rules[i].rule;
    return CERT_OPAQUE;
}

bool cert_is_join_type(const char *type) {
    return cert_rule_of_type(type) == CERT_JOIN;
}

bool cert_is_gather_type(const char *type) {
    return strcmp(type, "c_allgather") == 0 || strcmp(type, "all_gather") == 0;
}

cert_rule cert_rule_of(const weft_op *op) {
    cert_rule rule = CERT_OPAQUE;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (op_is(op, rules[i].type)) rule = rules[i].rule;
    if (rule == CERT_OPAQUE || rule == CERT_NOTHING || rule == CERT_BUCKET) return rule;
    const slot *x = cert_x(op), *out = cert_out(op);
    if (!x || !out || x->nargs == 0 || out->nargs == 0 || cert_runs_block(op)) return CERT_OPAQUE;
    if (rule == CERT_VIEW) return x->nargs == 1 ? rule : CERT_OPAQUE;
    if (x->nargs != out->nargs || (rule != CERT_JOIN && x->nargs != 1)) return CERT_OPAQUE;
    if (rule == CERT_SCALE && !is_plain_scale(op, x, out)) return CERT_OPAQUE;
    if (rule == CERT_JOIN && weft_op_ninputs(op, "Cond")) return CERT_OPAQUE;
    return rule;
}

int64_t cert_ring_of(const weft_op *op) {
    return weft_op_attr_int(op, "ring_id", 0);
}

weft_reduce cert_reduce_of(const weft_op *op) {
    if (op_is(op, "c_allreduce_max")) return WEFT_REDUCE_MAX;
    if (op_is(op, "c_allreduce_min")) return WEFT_REDUCE_MIN;
    if (op_is(op, "c_allreduce_prod")) return WEFT_REDUCE_PROD;
    if (op_is(op, "c_allreduce_avg")) return WEFT_REDUCE_AVG;
    if (op_is(op, "c_allreduce_sum")) return WEFT_REDUCE_SUM;
    return (weft_reduce)weft_op_attr_int(op, "reduce_type", WEFT_REDUCE_SUM);
}

/* --- linear ops --------------------------------------------------------------------------------------------------- */

/* A derivative is linear in what it is applied to. */
static const char *const derivatives[] = {
#define DERIVATIVE(type) #type,
#include "proof/certificate/derivatives.def"
#undef DERIVATIVE
};

typedef struct linear_slots {
    const char *type, *slots; /* slots: all of them, or the first letter group */
} linear_slots;

static const linear_slots linear[] = {
    {"sum", "X"},
    {"elementwise_add", "X Y"},
    {"grad_add", "X Y"},
    {"elementwise_sub", "X Y"},
    {"elementwise_mul", "X"},
    {"elementwise_div", "X"},
    {"concat", "X"},
    {"split", "X"},
    {"slice", "Input"},
    {"strided_slice", "Input"},
    {"stack", "X"},
    {"reshape2", "X"},
    {"reshape", "X"},
    {"transpose2", "X"},
    {"transpose", "X"},
    {"squeeze2", "X"},
    {"unsqueeze2", "X"},
    {"flatten_contiguous_range", "X"},
    {"cast", "X"},
    {"reduce_sum", "X"},
    {"reduce_mean", "X"},
    {"mean", "X"},
    {"expand_v2", "X"},
    {"tile", "X"},
    {"flip", "X"},
    {"reverse", "X"},
    {"roll", "X"},
    {"cumsum", "X"},
    {"c_identity", "X"},
    {"c_concat", "X"},
    {"c_split", "X"},
    {"c_allgather", "X"},
    {"c_reducescatter", "X"},
    {"c_broadcast", "X"},
    {"aten_view", "self"},
    {"aten_flatten", "self"},
    {"aten_t", "self"},
    {"aten_transpose", "self"},
    {"aten_permute", "self"},
    {"aten_slice", "self"},
    {"aten_add", "self other"},
    {"aten_sub", "self other"},
    {"aten_mul", "self"},
    {"aten_div", "self"},
    {"aten_cat", "tensors"},
    {"aten_threshold_backward", "grad_output"},
    {"aten_leaky_relu_backward", "grad_output"},
};

static bool is_grad_slot(const name *slot_name) {
    static const char suffix[] = "@GRAD";
    size_t m = sizeof suffix - 1, n = slot_name->nbytes;
    return n >= m && memcmp(slot_name->bytes + n - m, suffix, m) == 0;
}

static bool has_word(const char *words, const name *n) {
    return base_has_word(words, n->bytes, n->nbytes);
}

/* One that is not followed: by zero, or by what a tensor holds. */
static bool is_linear_scale(const weft_op *op) {
    const weft_var *x = op_is(op, "scale") ? weft_op_input(op, "X", 0) : NULL;
    return x && cert_is_float(x->dtype) && weft_op_attr_float(op, "bias", 0.0) == 0.0 &&
           weft_op_ninputs(op, "BiasTensor") == 0;
}

bool cert_is_linear(const weft_op *op, const name *slot_name) {
    if (is_linear_scale(op)) return has_word("X", slot_name);
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        if (op_is(op, linear[i].type)) return has_word(linear[i].slots, slot_name);
    for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++)
        if (op_is(op, derivatives[i])) return is_grad_slot(slot_name);
    return false;
}

bool cert_keeps_order(const weft_op *op) {
    static const char *const types[] = {"dropout",
                                        "gaussian_random",
                                        "uniform_random",
                                        "randint",
                                        "truncated_gaussian_random",
                                        "randperm",
                                        "bernoulli",
                                        "multinomial",
                                        "exponential",
                                        "poisson",
                                        "dirichlet",
                                        "feed",
                                        "fetch",
                                        "fetch_v2",
                                        "print",
                                        "memcpy_d2h",
                                        "py_func",
                                        "save",
                                        "barrier"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return true;
    return false;
}

bool cert_leaves_alone(const weft_op *op, const weft_var *output) {
    static const char *const rows[][2] = {{"data_norm_grad", "BatchSize"},
                                          {"data_norm_grad", "BatchSum"},
                                          {"data_norm_grad", "BatchSquareSum"},
                                          {"hierarchical_sigmoid", "W_Out"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (op_is(op, rows[i][0]) && weft_op_output(op, rows[i][1], 0) == output) return true;
    return false;
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

/* Elements of the next member, as the attrs say it or else the var; -1: not known. */
static int64_t member_numel(const weft_op *op, const weft_var *v, cert_cursor *c) {
    const weft_attr *ranks = op_find_attr(op, "concated_ranks"), *dims = op_find_attr(op, "concated_shapes");
    bool given = ranks && dims && (ranks->type == ATTR_LONGS || ranks->type == ATTR_INTS) &&
                 (dims->type == ATTR_LONGS || dims->type == ATTR_INTS) && c->k < ranks->count;
    int64_t numel = 1, ndim = given ? ranks->u.ints[c->k] : (int64_t)v->ndim;
    if (given && (ndim < 0 || (size_t)ndim > dims->count - c->extent)) return -1;
    const int64_t *extents = given ? dims->u.ints + c->extent : v->dims;
    for (int64_t i = 0; i < ndim; i++)
        if (extents[i] < 0 || __builtin_mul_overflow(numel, extents[i], &numel)) return -1;
    if (given) c->extent += (size_t)ndim;
    return numel;
}

bool cert_slice(const weft_op *op, cert_cursor *c, int64_t *out_offset, int64_t *out_nbytes) {
    const slot *out = op_find_slot(op, true, "Output");
    int64_t size = weft_op_attr_int(op, "user_defined_size_of_dtype", -1),
            given = weft_op_attr_int(op, "align_size", -1);
    if (size < 1) size = (int64_t)weft_dtype_nbytes((weft_dtype)weft_op_attr_int(op, "dtype", WEFT_FP32));
    int64_t step = !weft_op_attr_bool(op, "use_align", true) ? size : given > 0 ? given : CPU_ALIGNMENT;
    if (!out || c->k >= out->nargs || size < 1 || step < 1) return false;
    int64_t numel = member_numel(op, slot_var(op, out, c->k), c), nbytes, end;
    if (numel < 0 || __builtin_mul_overflow(numel, size, &nbytes) || __builtin_add_overflow(nbytes, step - 1, &end))
        return false;
    *out_offset = c->at;
    *out_nbytes = nbytes;
    c->k++;
    return !__builtin_add_overflow(c->at, end / step * step, &c->at);
}
