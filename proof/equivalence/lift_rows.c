/* lift_rows.c: which ops treat the rows of a batch (dimension 0) each for itself, given their attrs. A table of types
 * with what must hold; what is not in it does not. */
#include "proof/equivalence/lift.h"

typedef enum need {
    NEED_ALL,       /* every input has rows */
    NEED_BROADCAST, /* whole operands have fewer dimensions, or extent 1 in the first */
    NEED_AXIS,      /* attr axis is not dimension 0 */
    NEED_DIMS,      /* nor are any of dim, axes */
    NEED_MATRIX,
    NEED_TABLE, /* the table is whole */
    NEED_FIRST, /* weights are whole */
    NEED_ORDER, /* attr axis, a list, begins with 0 */
    NEED_NORM,  /* begin_norm_axis is not 0 */
    NEED_SHAPE  /* attr shape keeps the first extent open */
} need;

static const struct {
    const char *type;
    need need;
} table[] = {
    {"softmax", NEED_AXIS},
    {"log_softmax", NEED_AXIS},
    {"softmax_with_cross_entropy", NEED_AXIS},
    {"cross_entropy", NEED_ALL},
    {"cross_entropy2", NEED_ALL},
    {"bce_loss", NEED_ALL},
    {"huber_loss", NEED_ALL},
    {"log_loss", NEED_ALL},
    {"elementwise_add", NEED_BROADCAST},
    {"elementwise_sub", NEED_BROADCAST},
    {"elementwise_mul", NEED_BROADCAST},
    {"elementwise_div", NEED_BROADCAST},
    {"elementwise_max", NEED_BROADCAST},
    {"elementwise_min", NEED_BROADCAST},
    {"elementwise_pow", NEED_BROADCAST},
    {"scale", NEED_FIRST},
    {"cast", NEED_ALL},
    {"clip", NEED_FIRST},
    {"pow", NEED_FIRST},
    {"fill_any_like", NEED_ALL},
    {"fill_zeros_like", NEED_ALL},
    {"matmul_v2", NEED_MATRIX},
    {"bmm", NEED_MATRIX},
    {"mul", NEED_MATRIX},
    {"layer_norm", NEED_NORM},
    {"group_norm", NEED_FIRST},
    {"instance_norm", NEED_FIRST},
    {"conv2d", NEED_FIRST},
    {"depthwise_conv2d", NEED_FIRST},
    {"pool2d", NEED_FIRST},
    {"lookup_table_v2", NEED_TABLE},
    {"transpose2", NEED_ORDER},
    {"slice", NEED_DIMS},
    {"squeeze2", NEED_DIMS},
    {"unsqueeze2", NEED_DIMS},
    {"reduce_sum", NEED_DIMS},
    {"reduce_mean", NEED_DIMS},
    {"reduce_max", NEED_DIMS},
    {"reduce_min", NEED_DIMS},
    {"concat", NEED_AXIS},
    {"split", NEED_AXIS},
    {"stack", NEED_AXIS},
    {"reshape2", NEED_SHAPE},
    {"reshape", NEED_SHAPE},
};

static bool first_arg(const row_inputs *in, const char *slot_name, size_t *out_index) {
    size_t at = 0;
    for (size_t i = 0; i < in->op->inputs.count; i++) {
        const slot *s = &in->op->inputs.slots[i];
        if (s->nargs && name_is(s->name, slot_name)) return *out_index = at, true;
        at += s->nargs;
    }
    return false;
}

static size_t count_inputs(const row_inputs *in) {
    size_t n = 0;
    for (size_t i = 0; i < in->op->inputs.count; i++) n += in->op->inputs.slots[i].nargs;
    return n;
}

lift_state row_slot_state(const row_inputs *in, const char *slot_name) {
    size_t at;
    return first_arg(in, slot_name, &at) ? in->args[at].state : LIFT_PENDING;
}

static int64_t ndim_at(const row_inputs *in, size_t at) {
    return in->t->items[in->own[at].term].ndim;
}

/* Dimensions of the argument of that slot; or, if it has none, the most of any other with rows. */
static int64_t ndim_of(const row_inputs *in, const char *slot_name) {
    size_t at = 0;
    int64_t most = -1;
    if (first_arg(in, slot_name, &at)) return ndim_at(in, at);
    for (size_t i = 0, n = count_inputs(in); i < n; i++)
        if (in->args[i].state == LIFT_ROWS && ndim_at(in, i) > most) most = ndim_at(in, i);
    return most;
}

static bool is_first(int64_t axis, int64_t ndim) {
    return axis == 0 || (ndim >= 0 && axis == -ndim);
}

static bool begins_with_one(const row_inputs *in, size_t at) {
    size_t ndim;
    const int64_t *dims = term_dims(in->t, in->own[at].term, &ndim);
    return dims && ndim && dims[0] == 1;
}

static bool broadcasts(const row_inputs *in) {
    int64_t rows = -1;
    size_t n = count_inputs(in);
    for (size_t i = 0; i < n; i++)
        if (in->args[i].state == LIFT_ROWS && ndim_at(in, i) > rows) rows = ndim_at(in, i);
    for (size_t i = 0; i < n; i++) {
        bool whole = in->args[i].state == LIFT_WHOLE;
        int64_t ndim = ndim_at(in, i);
        if (ndim < 0 || (whole && ndim >= rows && !begins_with_one(in, i)) || (!whole && ndim < rows)) return false;
    }
    int64_t axis = attr_int(in->op, "axis", -1);
    return axis != 0 || row_slot_state(in, "Y") == LIFT_ROWS || ndim_of(in, "Y") == 0;
}

static bool lists_first(const row_inputs *in, const char *attr, int64_t ndim) {
    size_t n;
    const int64_t *axes = attr_ints(in->op, attr, &n);
    for (size_t i = 0; i < n; i++)
        if (is_first(axes[i], ndim)) return true;
    return false;
}

static bool multiplies_rows(const row_inputs *in, bool is_mul) {
    bool rows_y = row_slot_state(in, "Y") == LIFT_ROWS;
    int64_t x = ndim_of(in, "X"), y = ndim_of(in, "Y");
    if (row_slot_state(in, "X") != LIFT_ROWS) return false;
    if (is_mul) return !rows_y && attr_int(in->op, "x_num_col_dims", 1) >= 1;
    if (rows_y) return x >= 3 && y >= 3;
    return x >= 2 && y <= 2 && !(x == 2 && attr_bool(in->op, "trans_x", false));
}

static bool is_only_rows(const row_inputs *in) {
    for (size_t i = 0, n = count_inputs(in); i < n; i++)
        if (in->args[i].state != LIFT_ROWS && in->args[i].state != LIFT_WHOLE) return false;
    return true;
}

static bool all_rows(const row_inputs *in) {
    for (size_t i = 0, n = count_inputs(in); i < n; i++)
        if (in->args[i].state != LIFT_ROWS) return false;
    return true;
}

static bool has_whole_weights(const row_inputs *in) {
    static const char *const weights[] = {"Filter", "Scale", "Bias", "ScaleTensor", "BiasTensor", "FactorTensor"};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        if (row_slot_state(in, weights[i]) == LIFT_ROWS) return false;
    return true;
}

/* The default of dim is [0]; an empty list is all dimensions. */
static bool keeps_rows(const row_inputs *in, int64_t ndim) {
    size_t count = 0;
    bool reduces = strncmp(in->op->type->bytes, "reduce_", 7) == 0;
    (void)attr_ints(in->op, "dim", &count);
    if (reduces && (count == 0 || attr_bool(in->op, "reduce_all", false))) return false;
    return !lists_first(in, "dim", ndim) && !lists_first(in, "axes", ndim);
}

static bool holds(const row_inputs *in, need n, bool is_mul) {
    size_t count;
    const int64_t *list;
    int64_t x = ndim_of(in, "X");
    switch (n) {
    case NEED_ALL: return all_rows(in);
    case NEED_BROADCAST: return broadcasts(in);
    case NEED_AXIS: return all_rows(in) && !is_first(attr_int(in->op, "axis", -1), x);
    case NEED_DIMS: return keeps_rows(in, op_find_slot(in->op, false, "Input") ? ndim_of(in, "Input") : x);
    case NEED_MATRIX: return multiplies_rows(in, is_mul);
    case NEED_TABLE: return row_slot_state(in, "W") == LIFT_WHOLE && row_slot_state(in, "Ids") == LIFT_ROWS;
    case NEED_FIRST: return has_whole_weights(in);
    case NEED_ORDER: list = attr_ints(in->op, "axis", &count); return count > 0 && list[0] == 0;
    case NEED_NORM: return attr_int(in->op, "begin_norm_axis", 1) >= 1 && has_whole_weights(in);
    case NEED_SHAPE: list = attr_ints(in->op, "shape", &count); return count > 0 && list[0] <= 0;
    }
    return false;
}

static bool is_type(const char *name_text, const char *type, size_t nbytes) {
    return strlen(name_text) == nbytes && memcmp(name_text, type, nbytes) == 0;
}

/* Functions of one element, which ops.def lists together with softmax and its kind. */
static bool is_activation(const row_inputs *in, const char *type, size_t nbytes) {
    const op_schema *s = op_schema_of(in->op);
    return s && strcmp(s->family, "activation") == 0 && !is_type("prelu", type, nbytes) &&
           !is_type("swiglu", type, nbytes);
}

bool acts_on_rows(const row_inputs *in, const char *type, size_t nbytes) {
    if (!is_only_rows(in)) return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (is_type(table[i].type, type, nbytes)) return holds(in, table[i].need, is_type("mul", type, nbytes));
    return is_activation(in, type, nbytes);
}

bool reduces_rows(const row_inputs *in, const char *type, size_t nbytes, bool *out_mean) {
    bool mean = is_type("mean", type, nbytes) || is_type("reduce_mean", type, nbytes);
    *out_mean = mean;
    if (is_type("mean", type, nbytes)) return true;
    if (!mean && !is_type("reduce_sum", type, nbytes)) return false;
    size_t count;
    (void)attr_ints(in->op, "dim", &count);
    return attr_bool(in->op, "reduce_all", false) || count == 0 || lists_first(in, "dim", ndim_of(in, "X"));
}
