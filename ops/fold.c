/* fold.c: elements of small tensors that programs compute from extents: shape, slice, arithmetic, concat, range.
 *
 * Shapes may depend on such elements, so inference follows them like extents. A row of `folds` computes an op's outputs
 * from its inputs, all in double: integers of a shape fit, and a result is rounded to the output's type as the kernel
 * rounds it. An op without a row makes elements that only a run knows. */
#include <math.h>

#include "ops/infer.h"
#include "ops/part.h"
#include "ops/rows.h"

enum { FOLD_MAX = 64 }; /* elements of a tensor that is followed */

typedef struct folding {
    infer *i;
    double out[FOLD_MAX];
    size_t count;
} folding;

typedef struct fold_rule {
    bool (*run)(folding *f, const struct fold_rule *rule); /* false: not known */
    double (*of_two)(double, double);
    double (*of_one)(double);
} fold_rule;

/* Element k of flattened input `index`; all of its elements are known. */
static double element(const folding *f, uint32_t index, int64_t k) {
    return value_real(f->i->in[index].dtype, f->i->in_values[index][k]);
}

static int64_t count_of(const folding *f, uint32_t index) {
    return shape_numel(&f->i->in[index]);
}

static bool append(folding *f, double value) {
    if (f->count == FOLD_MAX) return false;
    f->out[f->count++] = value;
    return true;
}

/* --- elements one by one ------------------------------------------------------------------------------------------ */

static bool fold_copy(folding *f, const fold_rule *rule) {
    for (int64_t k = 0; k < count_of(f, 0); k++) {
        double x = element(f, 0, k);
        if (!append(f, rule->of_one ? rule->of_one(x) : x)) return false;
    }
    return true;
}

/* On integers scale and bias are integers too, as in the kernel. */
static double scaled(const weft_op *op, bool integers, double x) {
    double scale = attr_float(op, "scale", 1), bias = attr_float(op, "bias", 0);
    if (integers) scale = trunc(scale), bias = trunc(bias);
    return attr_bool(op, "bias_after_scale", true) ? x * scale + bias : (x + bias) * scale;
}

static bool fold_scale(folding *f, const fold_rule *rule) {
    (void)rule;
    if (f->i->in_first[f->i->schema->ninputs] != 1) return false; /* scale or bias in a tensor */
    bool integers = f->i->in[0].dtype != WEFT_FP32 && f->i->in[0].dtype != WEFT_FP64;
    for (int64_t k = 0; k < count_of(f, 0); k++)
        if (!append(f, scaled(f->i->op, integers, element(f, 0, k)))) return false;
    return true;
}

static bool fold_increment(folding *f, const fold_rule *rule) {
    (void)rule;
    return append(f, element(f, 0, 0) + attr_float(f->i->op, "step", 1));
}

static bool fold_filled(folding *f, const fold_rule *rule) {
    (void)rule;
    for (int64_t k = 0, n = shape_numel(&f->i->out[0]); k < n; k++)
        if (!append(f, attr_float(f->i->op, "value", 0))) return false;
    return true;
}

/* Operands of one shape, or of one element. */
static bool fold_pair(folding *f, const fold_rule *rule) {
    int64_t nx = count_of(f, 0), ny = count_of(f, 1), n = shape_numel(&f->i->out[0]);
    if ((nx != n && nx != 1) || (ny != n && ny != 1)) return false;
    for (int64_t k = 0; k < n; k++)
        if (!append(f, rule->of_two(element(f, 0, nx == 1 ? 0 : k), element(f, 1, ny == 1 ? 0 : k)))) return false;
    return true;
}

static bool is_everywhere(const folding *f, uint32_t index, double value) {
    if (!f->i->in_values[index]) return false;
    for (int64_t k = 0; k < count_of(f, index); k++)
        if ((element(f, index, k) != 0) != (value != 0)) return false;
    return count_of(f, index) > 0;
}

/* One operand may decide: what is false and anything is false. */
static bool fold_logic(folding *f, const fold_rule *rule) {
    double deciding = rule->of_two(0, 1);
    int64_t n = shape_numel(&f->i->out[0]);
    if (f->i->in_values[0] && f->i->in_values[1]) return fold_pair(f, rule);
    if (!is_everywhere(f, 0, deciding) && !is_everywhere(f, 1, deciding)) return false;
    for (int64_t k = 0; k < n; k++)
        if (!append(f, deciding)) return false;
    return n > 0;
}

static bool fold_sum(folding *f, const fold_rule *rule) {
    (void)rule;
    uint32_t nin = f->i->in_first[1];
    for (int64_t k = 0; k < count_of(f, 0); k++) {
        double all = 0;
        for (uint32_t a = 0; a < nin; a++) {
            if (count_of(f, a) != count_of(f, 0)) return false;
            all += element(f, a, k);
        }
        if (!append(f, all)) return false;
    }
    return true;
}

static bool fold_where(folding *f, const fold_rule *rule) {
    (void)rule;
    int64_t n = shape_numel(&f->i->out[0]), count[3];
    for (uint32_t a = 0; a < 3; a++) {
        count[a] = count_of(f, a);
        if (count[a] != n && count[a] != 1) return false;
    }
    for (int64_t k = 0; k < n; k++) {
        uint32_t from = element(f, 0, count[0] == 1 ? 0 : k) != 0 ? 1 : 2;
        if (!append(f, element(f, from, count[from] == 1 ? 0 : k))) return false;
    }
    return true;
}

/* One result of all elements. */
static bool fold_reduce(folding *f, const fold_rule *rule) {
    int64_t n = count_of(f, 0);
    if (!n || shape_numel(&f->i->out[0]) != 1) return false;
    double all = element(f, 0, 0);
    for (int64_t k = 1; k < n; k++) all = rule->of_two(all, element(f, 0, k));
    return append(f, all);
}

/* --- parts and wholes --------------------------------------------------------------------------------------------- */

/* Vectors and scalars one after another: concat of vectors, stack of scalars. */
static bool fold_join(folding *f, const fold_rule *rule) {
    (void)rule;
    if (f->i->out[0].ndim != 1) return false;
    for (uint32_t a = 0; a < f->i->in_first[1]; a++)
        for (int64_t k = 0; k < count_of(f, a); k++)
            if (!append(f, element(f, a, k))) return false;
    return true;
}

static bool one_number(const infer *i, const char *tensor_slot, const char *list_slot, const char *attr, int64_t *out) {
    numbers n;
    weft_status s = infer_numbers(i, tensor_slot, list_slot, attr, &n);
    bool known = !s && n.known && n.count == 1;
    weft_status_free(s);
    if (known) *out = n.values[0];
    return known;
}

/* A part of a vector. */
static bool fold_slice(folding *f, const fold_rule *rule) {
    (void)rule;
    const infer *i = f->i;
    int64_t start, end, stride = 1, first, n = count_of(f, 0);
    if (i->in[0].ndim != 1 || !one_number(i, "StartsTensor", "StartsTensorList", "starts", &start) ||
        !one_number(i, "EndsTensor", "EndsTensorList", "ends", &end))
        return false;
    if (schema_input(i->schema, "StridesTensor") >= 0 &&
        (!one_number(i, "StridesTensor", "StridesTensorList", "strides", &stride) || !stride))
        return false;
    int64_t count = strided_extent(n, start, strided_end(op_follows_older(i->op), n, end, stride), stride, &first);
    for (int64_t k = 0; k < count; k++)
        if (!append(f, element(f, 0, first + k * stride))) return false;
    return true;
}

static bool fold_gather(folding *f, const fold_rule *rule) {
    (void)rule;
    int64_t n = count_of(f, 0);
    if (f->i->in[0].ndim != 1) return false;
    for (int64_t k = 0; k < count_of(f, 1); k++) {
        double at = element(f, 1, k);
        if (at < 0) at += (double)n;
        if (at < 0 || at >= (double)n || !append(f, element(f, 0, (int64_t)at))) return false;
    }
    return true;
}

/* One element, as often as the output has room; or a vector over and over. */
static bool fold_repeat(folding *f, const fold_rule *rule) {
    (void)rule;
    int64_t own = count_of(f, 0), n = shape_numel(&f->i->out[0]);
    if (!own || (own != 1 && f->i->out[0].ndim != 1)) return false;
    for (int64_t k = 0; k < n; k++)
        if (!append(f, element(f, 0, k % own))) return false;
    return true;
}

static bool fold_range(folding *f, const fold_rule *rule) {
    (void)rule;
    for (int64_t k = 0, n = shape_numel(&f->i->out[0]); k < n; k++)
        if (!append(f, element(f, 0, 0) + (double)k * element(f, 2, 0))) return false;
    return true;
}

/* Outputs that are parts of a vector, one after another. */
static bool fold_parts(folding *f, const fold_rule *rule) {
    (void)rule;
    return f->i->in[0].ndim == 1 && fold_copy(f, &(fold_rule){.run = NULL});
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static double add(double x, double y) {
    return x + y;
}
static double subtract(double x, double y) {
    return x - y;
}
static double multiply(double x, double y) {
    return x * y;
}
static double divide(double x, double y) {
    return x / y;
}
static double floor_divide(double x, double y) {
    return floor(x / y);
}
static double modulo(double x, double y) {
    return x - y * floor(x / y);
}
static double is_equal(double x, double y) {
    return x == y;
}
static double is_not_equal(double x, double y) {
    return x != y;
}
static double is_less(double x, double y) {
    return x < y;
}
static double is_less_or_equal(double x, double y) {
    return x <= y;
}
static double is_greater(double x, double y) {
    return x > y;
}
static double is_greater_or_equal(double x, double y) {
    return x >= y;
}
static double both(double x, double y) {
    return x != 0 && y != 0;
}
static double either(double x, double y) {
    return x != 0 || y != 0;
}
static double negated(double x) {
    return x == 0;
}
static double squared(double x) {
    return x * x;
}

#define COPY(type) [ROW_##type] = {.run = fold_copy}
#define OF_ONE(type, function) [ROW_##type] = {.run = fold_copy, .of_one = function}
#define OF_TWO(type, function) [ROW_##type] = {.run = fold_pair, .of_two = function}
#define LOGIC(type, function) [ROW_##type] = {.run = fold_logic, .of_two = function}
#define OF_ALL(type, function) [ROW_##type] = {.run = fold_reduce, .of_two = function}
#define BY(type, function) [ROW_##type] = {.run = function}

static const fold_rule folds[NROWS] = {
    COPY(cast),
    COPY(assign),
    COPY(share_data),
    COPY(memcpy),
    COPY(memcpy_d2h),
    COPY(memcpy_h2d),
    COPY(reshape2),
    COPY(reshape),
    COPY(squeeze2),
    COPY(unsqueeze2),
    COPY(flatten_contiguous_range),
    OF_ONE(floor, floor),
    OF_ONE(ceil, ceil),
    OF_ONE(round, rint),
    OF_ONE(abs, fabs),
    OF_ONE(sqrt, sqrt),
    OF_ONE(square, squared),
    OF_ONE(logical_not, negated),
    BY(scale, fold_scale),
    BY(increment, fold_increment),
    BY(fill_any_like, fold_filled),
    BY(fill_zeros_like, fold_filled),
    OF_TWO(elementwise_add, add),
    OF_TWO(elementwise_sub, subtract),
    OF_TWO(elementwise_mul, multiply),
    OF_TWO(elementwise_div, divide),
    OF_TWO(elementwise_floordiv, floor_divide),
    OF_TWO(elementwise_mod, modulo),
    OF_TWO(elementwise_max, fmax),
    OF_TWO(elementwise_min, fmin),
    OF_TWO(elementwise_pow, pow),
    OF_TWO(equal, is_equal),
    OF_TWO(not_equal, is_not_equal),
    OF_TWO(less_than, is_less),
    OF_TWO(less_equal, is_less_or_equal),
    OF_TWO(greater_than, is_greater),
    OF_TWO(greater_equal, is_greater_or_equal),
    LOGIC(logical_and, both),
    LOGIC(logical_or, either),
    BY(where, fold_where),
    BY(sum, fold_sum),
    OF_ALL(reduce_sum, add),
    OF_ALL(reduce_prod, multiply),
    OF_ALL(reduce_max, fmax),
    OF_ALL(reduce_min, fmin),
    OF_ALL(reduce_all, both),
    OF_ALL(reduce_any, either),
    BY(concat, fold_join),
    BY(stack, fold_join),
    BY(slice, fold_slice),
    BY(strided_slice, fold_slice),
    BY(gather, fold_gather),
    BY(index_select, fold_gather),
    BY(expand_v2, fold_repeat),
    BY(expand_as_v2, fold_repeat),
    BY(tile, fold_repeat),
    BY(range, fold_range),
    BY(split, fold_parts),
    BY(unstack, fold_parts),
    BY(unbind, fold_parts),
};

static bool reads_elements_alone(const infer *i, uint32_t index) {
    return i->in_values[index] && shape_numel(&i->in[index]) >= 0;
}

/* Whether the elements of all inputs are known; of fill ops like another tensor only its extents are read. */
static bool inputs_are_known(const infer *i, const fold_rule *rule) {
    if (rule->run == fold_filled) return shape_numel(&i->in[0]) >= 0;
    if (rule->run == fold_logic) return reads_elements_alone(i, 0) || reads_elements_alone(i, 1);
    for (uint32_t a = 0; a < i->in_first[i->schema->ninputs]; a++)
        if (!reads_elements_alone(i, a)) return false;
    return i->in_first[1] > 0;
}

/* Outputs take what was computed one after another: all but a split have one that counts. */
static weft_status keep_outputs(infer *i, const folding *f) {
    size_t at = 0;
    for (uint32_t o = i->out_first[0]; o < i->out_first[1]; o++) {
        int64_t n = shape_numel(&i->out[o]);
        if (n < 0 || at + (size_t)n > f->count) return NULL;
        TRY(infer_keep_reals(i, o, (size_t)n, f->out + at));
        at += (size_t)n;
    }
    return NULL;
}

weft_status infer_fold_values(infer *i) {
    const fold_rule *rule = i->schema->index >= 0 && i->schema->index < NROWS ? &folds[i->schema->index] : NULL;
    if (!rule || !rule->run || i->out_first[0] == i->out_first[1] || !inputs_are_known(i, rule)) return NULL;
    folding f = {.i = i};
    return rule->run(&f, rule) ? keep_outputs(i, &f) : NULL;
}
