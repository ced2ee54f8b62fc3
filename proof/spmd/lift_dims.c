/* lift_dims.c: which dimensions of an op's arguments go together.
 *
 * A rule gives each dimension of an argument a letter, as in a formula of sums: matmul is X[b m k], Y[b k n], Out[b m
 * n]. Where what has a letter is sharded, each rank computes its part of what has it: an output with that letter is
 * sharded there, one without it is partial, if the op sums over the letter. All arguments with the letter must be
 * sharded there. A gradient op has the letters of the op that it is the gradient of: what a letter is missing from got
 * its gradient summed. A dimension without a letter (NONE) may not be sharded: what an op mixes, what it broadcasts. */
#include "proof/spmd/lift.h"

/* Letters: of dimensions of the result, two with names of their own; from SUMMED on, of what is summed over. */
enum { NONE = -1, OF_X = 30, OF_Y = 31, SUMMED = 32 };

typedef enum rule_kind {
    RULE_EACH,      /* all arguments alike, element by element, but for dimensions that flags say are mixed */
    RULE_ROWS,      /* only dimension 0, and not of weights */
    RULE_BROADCAST, /* two operands */
    RULE_MATRIX,
    RULE_MUL,
    RULE_TABLE, /* rows of a table */
    RULE_ORDER, /* attr axis: which dimension comes where */
    RULE_BOX,   /* attr axes is cut; decrease_axis goes away */
    RULE_SQUEEZE,
    RULE_REDUCE, /* attr dim: dimensions that are reduced */
    RULE_TOTAL,  /* over all elements */
    RULE_NORM,   /* from begin_norm_axis on, mixed */
    RULE_INSERT, /* new dimensions: attr axis, or axes */
    RULE_SHAPE   /* only dimension 0, which attr shape keeps open */
} rule_kind;

enum {
    MIXES_AXIS = 1, /* attr axis, by default the last dimension */
    JOINS_AXIS = 2, /* by default the first */
    MIXES_LAST = 4,
    MIXES_TWO = 8, /* the last two */
    IS_MEAN = 16,
    IS_SUM = 32,
    IS_STEP = 64 /* of an optimizer */
};

typedef struct rule {
    const char *type;
    rule_kind kind;
    int flags;
} rule;

static const rule table[] = {
    {"softmax", RULE_EACH, MIXES_AXIS},
    {"log_softmax", RULE_EACH, MIXES_AXIS},
    {"softmax_with_cross_entropy", RULE_EACH, MIXES_AXIS},
    {"cross_entropy", RULE_EACH, MIXES_LAST},
    {"cross_entropy2", RULE_EACH, MIXES_LAST},
    {"concat", RULE_EACH, JOINS_AXIS},
    {"split", RULE_EACH, JOINS_AXIS},
    {"tril_triu", RULE_EACH, MIXES_TWO},
    {"bce_loss", RULE_EACH, 0},
    {"huber_loss", RULE_EACH, 0},
    {"log_loss", RULE_EACH, 0},
    {"scale", RULE_EACH, 0},
    {"cast", RULE_EACH, 0},
    {"clip", RULE_EACH, 0},
    {"pow", RULE_EACH, 0},
    {"fill_any_like", RULE_EACH, 0},
    {"fill_zeros_like", RULE_EACH, 0},
    {"elementwise_add", RULE_BROADCAST, 0},
    {"elementwise_sub", RULE_BROADCAST, 0},
    {"elementwise_mul", RULE_BROADCAST, 0},
    {"elementwise_div", RULE_BROADCAST, 0},
    {"elementwise_max", RULE_BROADCAST, 0},
    {"elementwise_min", RULE_BROADCAST, 0},
    {"elementwise_pow", RULE_BROADCAST, 0},
    {"matmul_v2", RULE_MATRIX, IS_SUM},
    {"bmm", RULE_MATRIX, IS_SUM},
    {"mul", RULE_MUL, IS_SUM},
    {"layer_norm", RULE_NORM, 0},
    {"group_norm", RULE_ROWS, 0},
    {"instance_norm", RULE_ROWS, 0},
    {"conv2d", RULE_ROWS, 0},
    {"depthwise_conv2d", RULE_ROWS, 0},
    {"pool2d", RULE_ROWS, 0},
    {"lookup_table_v2", RULE_TABLE, 0},
    {"transpose2", RULE_ORDER, 0},
    {"slice", RULE_BOX, 0},
    {"squeeze2", RULE_SQUEEZE, 0},
    {"unsqueeze2", RULE_INSERT, 0},
    {"reduce_sum", RULE_REDUCE, IS_SUM},
    {"reduce_mean", RULE_REDUCE, IS_MEAN},
    {"reduce_max", RULE_REDUCE, 0},
    {"reduce_min", RULE_REDUCE, 0},
    {"mean", RULE_TOTAL, IS_MEAN},
    {"squared_l2_norm", RULE_TOTAL, IS_SUM},
    {"stack", RULE_INSERT, 0},
    {"reshape2", RULE_SHAPE, 0},
    {"reshape", RULE_SHAPE, 0},
    {"sgd", RULE_EACH, IS_STEP},
    {"momentum", RULE_EACH, IS_STEP},
    {"adam", RULE_EACH, IS_STEP},
    {"adamw", RULE_EACH, IS_STEP},
};

/* --- which rule --------------------------------------------------------------------------------------------------- */

typedef struct letters {
    const sharded_inputs *in;
    rule rule;
    bool is_grad;
    int split;      /* how the letter is sharded */
    int64_t extent; /* where the split is not even: the rank's, which all that have the letter must have */
} letters;

static bool is_type(const char *name_text, const char *type, size_t nbytes) {
    return strlen(name_text) == nbytes && memcmp(name_text, type, nbytes) == 0;
}

/* Functions of one element, which ops.def lists together with softmax and its kind. */
static bool is_activation(weft_op *op, const char *type, size_t nbytes) {
    const op_schema *s = op_schema_of(op);
    return s && strcmp(s->family, "activation") == 0 && !is_type("prelu", type, nbytes) &&
           !is_type("swiglu", type, nbytes);
}

/* Which dimensions it is about is known at run time only. */
static bool has_axis_tensor(const weft_op *op) {
    static const char *const names[] = {"AxisTensor", "AxesTensor", "AxesTensorList"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const slot *s = op_find_slot(op, false, names[i]);
        if (s && s->nargs) return true;
    }
    return false;
}

static bool find_rule(weft_op *op, letters *out) {
    if (has_axis_tensor(op)) return false;
    if (op_is(op, "split") && attr_int(op, "axis", 0) < 0) return false; /* Paddle deals out elements in memory order */
    const char *type = op->type->bytes;
    size_t nbytes = strlen(type);
    out->is_grad = nbytes > 5 && strcmp(type + nbytes - 5, "_grad") == 0;
    if (out->is_grad) nbytes -= 5;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (is_type(table[i].type, type, nbytes)) return out->rule = table[i], true;
    out->rule = (rule){type, RULE_EACH, 0};
    return is_activation(op, type, nbytes);
}

/* --- arguments and results ---------------------------------------------------------------------------------------- */

/* An argument or a result of the op: its slot without "@GRAD", and what is known of its extents. */
typedef struct place {
    const char *slot_text;
    size_t nbytes;
    int ndim;            /* -1: not known */
    const int64_t *dims; /* NULL: not known */
    int sharded;         /* the dimension that is, of an argument or of what the result is the gradient of */
    int split;           /* how */
} place;

static place place_of(const terms *t, const char *slot_text, uint32_t id, const lifted *held, size_t axis) {
    size_t ndim, nbytes = strlen(slot_text);
    if (nbytes > 5 && strcmp(slot_text + nbytes - 5, "@GRAD") == 0) nbytes -= 5;
    place p = {slot_text, nbytes, t->items[id].ndim, NULL, NONE, 0};
    p.dims = term_dims(t, id, &ndim);
    if (held && held->state == LIFT_KNOWN && is_sharded(held->placed[axis])) {
        p.sharded = held->placed[axis].dim;
        p.split = held->placed[axis].split;
    }
    return p;
}

static bool is_slot(const place *p, const char *slot_text) {
    return is_type(slot_text, p->slot_text, p->nbytes);
}

/* The first argument of the slot, or else of its gradient; false: it has none. */
static bool find_place(const letters *of, const char *slot_text, size_t nbytes, place *out) {
    const sharded_inputs *in = of->in;
    for (uint32_t i = 0; i < op_nslots(in->op, false); i++) {
        const slot *s = op_slot(in->op, false, i);
        if (!s->nargs) continue;
        *out = place_of(in->t, s->name->bytes, in->own[s->first].term, &in->args[s->first], in->axis);
        if (out->nbytes == nbytes && memcmp(out->slot_text, slot_text, nbytes) == 0) return true;
    }
    return false;
}

static int ndim_of(const letters *of, const char *slot_text) {
    place p;
    return find_place(of, slot_text, strlen(slot_text), &p) ? p.ndim : -1;
}

/* The most dimensions of any argument. */
static int most_ndim(const letters *of) {
    int most = -1;
    for (size_t i = 0; i < of->in->nargs; i++) {
        int ndim = of->in->t->items[of->in->own[i].term].ndim;
        if (ndim > most) most = ndim;
    }
    return most;
}

static int from_end(int64_t axis, int ndim) {
    return (int)(axis < 0 ? axis + ndim : axis);
}

static bool lists(const weft_op *op, const char *attr, int d, int ndim) {
    size_t n;
    const int64_t *axes = attr_ints(op, attr, &n);
    for (size_t i = 0; i < n; i++)
        if (from_end(axes[i], ndim) == d) return true;
    return false;
}

/* --- letters: of dimension `d` of a place
 * -----------------------------------------------------------------------------
 */

/* What has other dimensions than the op's elements: weights, and what a step of an optimizer reads besides. */
static bool is_apart(const place *p) {
    static const char *const names[] = {"Filter",        "Scale",        "Bias",        "ScaleTensor",  "BiasTensor",
                                        "Seed",          "FactorTensor", "Min",         "Max",          "Beta1Pow",
                                        "Beta1Tensor",   "Beta2Pow",     "Beta2Tensor", "LearningRate", "SkipUpdate",
                                        "EpsilonTensor", "Beta1PowOut",  "Beta2PowOut"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_slot(p, names[i])) return true;
    return false;
}

static int letter_each(const letters *of, const place *p, int d) {
    int flags = of->rule.flags, most = most_ndim(of);
    if (is_apart(p)) return NONE;
    if (flags & (MIXES_AXIS | JOINS_AXIS) &&
        d == from_end(attr_int(of->in->op, "axis", flags & MIXES_AXIS ? -1 : 0), most))
        return NONE;
    if (flags & MIXES_LAST && d >= most - 1) return NONE;
    if (flags & MIXES_TWO && d >= p->ndim - 2) return NONE;
    return d;
}

/* An operand's dimension that lies at `letter` of the result; it is stretched if it has extent 1 and is not sharded. */
static int unless_stretched(const place *p, int d, int letter) {
    return p->dims && p->dims[d] == 1 && p->sharded != d ? NONE : letter;
}

static int letter_broadcast(const letters *of, const place *p, int d) {
    int x = ndim_of(of, "X"), y = ndim_of(of, "Y"), most = x > y ? x : y;
    if (x < 0 || y < 0) return NONE;
    if (!is_slot(p, "X") && !is_slot(p, "Y")) return d;
    int64_t axis = attr_int(of->in->op, "axis", -1);
    int begin = p->ndim == most ? 0 : axis < 0 ? most - p->ndim : (int)axis;
    return unless_stretched(p, d, begin + d);
}

static int letter_matrix(const letters *of, const place *p, int d) {
    int x = ndim_of(of, "X"), y = ndim_of(of, "Y"), most = x > y ? x : y, batch = most > 2 ? most - 2 : 0;
    if (x < 1 || y < 1) return NONE;
    bool is_x = is_slot(p, "X");
    if (!is_x && !is_slot(p, "Y")) {
        if (d < batch) return d;
        return d == batch && x > 1 ? OF_X : OF_Y;
    }
    if (p->ndim == 1) return SUMMED;
    if (d < p->ndim - 2) return unless_stretched(p, d, d + most - p->ndim);
    bool turned = attr_bool(of->in->op, is_x ? "trans_x" : "trans_y", false), last = d == p->ndim - 1;
    if (is_x) return last != turned ? SUMMED : OF_X;
    return last != turned ? OF_Y : SUMMED;
}

static int letter_mul(const letters *of, const place *p, int d) {
    int nx = (int)attr_int(of->in->op, "x_num_col_dims", 1), ny = (int)attr_int(of->in->op, "y_num_col_dims", 1);
    bool one = ndim_of(of, "X") == nx + 1 && ny == 1; /* dimensions that are summed together are not followed */
    if (is_slot(p, "X")) return d < nx ? d : one ? SUMMED : NONE;
    if (is_slot(p, "Y")) return d >= ny ? nx + d - ny : one ? SUMMED : NONE;
    return d;
}

static int letter_table(const letters *of, const place *p, int d) {
    int ids = ndim_of(of, "Ids");
    if (is_slot(p, "W")) return d == 1 ? OF_Y : NONE;
    return ids >= 0 && d == ids ? OF_Y : d;
}

static int letter_order(const letters *of, const place *p, int d) {
    size_t n;
    const int64_t *axes = attr_ints(of->in->op, "axis", &n);
    if (is_slot(p, "X")) return d;
    if (is_slot(p, "XShape")) return d - 1;
    return (size_t)d < n && axes[d] >= 0 && axes[d] < SUMMED ? (int)axes[d] : NONE;
}

static bool is_reduced(const weft_op *op, int d, int ndim) {
    size_t n;
    (void)attr_ints(op, "dim", &n);
    if (!op_find_attr(op, "dim")) return attr_bool(op, "reduce_all", false) || d == 0;
    return n == 0 || attr_bool(op, "reduce_all", false) || lists(op, "dim", d, ndim);
}

/* Whether dimension `d` of the argument goes away. */
static bool goes_away(const letters *of, int d, const place *whole) {
    const weft_op *op = of->in->op;
    switch (of->rule.kind) {
    case RULE_REDUCE: return is_reduced(op, d, whole->ndim) && !attr_bool(op, "keep_dim", false);
    case RULE_BOX: return lists(op, "decrease_axis", d, whole->ndim);
    default: return lists(op, "axes", d, whole->ndim) && whole->dims && whole->dims[d] == 1; /* else it stays */
    }
}

/* Ops that take dimensions away. */
static int letter_fewer(const letters *of, const place *p, int d) {
    const weft_op *op = of->in->op;
    bool reduces = of->rule.kind == RULE_REDUCE;
    const char *whole = of->rule.kind == RULE_BOX ? "Input" : "X";
    place from_whole;
    int ndim = find_place(of, whole, strlen(whole), &from_whole) ? from_whole.ndim : -1;
    size_t count;
    (void)attr_ints(op, "axes", &count);
    if (ndim < 0 || (of->rule.kind == RULE_SQUEEZE && (count == 0 || !from_whole.dims))) return NONE;
    if (!is_slot(p, whole)) {
        int from = 0;
        for (int left = d; from < ndim; from++)
            if (!goes_away(of, from, &from_whole) && left-- == 0) break;
        d = from;
        if (d == ndim || (reduces && is_reduced(op, d, ndim))) return NONE;
    }
    if (reduces) return is_reduced(op, d, ndim) ? SUMMED + d : d;
    return lists(op, "axes", d, ndim) ? NONE : d;
}

static int letter_insert(const letters *of, const place *p, int d) {
    const weft_op *op = of->in->op;
    bool stacks = op_find_attr(op, "axes") == NULL;
    if (is_slot(p, "X")) return d;
    int before = 0;
    for (int i = 0; i <= d; i++) {
        bool is_new = stacks ? from_end(attr_int(op, "axis", 0), p->ndim) == i : lists(op, "axes", i, p->ndim);
        if (is_new && i == d) return NONE;
        before += is_new;
    }
    return d - before;
}

static int letter_norm(const letters *of, const place *p, int d) {
    int begin = (int)attr_int(of->in->op, "begin_norm_axis", 1);
    if (is_apart(p)) return NONE;
    bool flattened = (is_slot(p, "Mean") || is_slot(p, "Variance")) && p->ndim != begin;
    return d < (flattened ? 1 : begin) ? d : NONE;
}

static bool keeps_first_open(const weft_op *op) {
    size_t n;
    const int64_t *list = attr_ints(op, "shape", &n);
    return n > 0 && list[0] <= 0;
}

static int letter_of(const letters *of, const place *p, int d) {
    switch (of->rule.kind) {
    case RULE_EACH: return letter_each(of, p, d);
    case RULE_ROWS: return d == 0 && !is_apart(p) ? 0 : NONE;
    case RULE_BROADCAST: return letter_broadcast(of, p, d);
    case RULE_MATRIX: return letter_matrix(of, p, d);
    case RULE_MUL: return letter_mul(of, p, d);
    case RULE_TABLE: return letter_table(of, p, d);
    case RULE_ORDER: return letter_order(of, p, d);
    case RULE_BOX:
    case RULE_SQUEEZE:
    case RULE_REDUCE: return letter_fewer(of, p, d);
    case RULE_TOTAL: return is_slot(p, "X") ? SUMMED + d : NONE;
    case RULE_NORM: return letter_norm(of, p, d);
    case RULE_INSERT: return letter_insert(of, p, d);
    case RULE_SHAPE: return d == 0 && keeps_first_open(of->in->op) ? 0 : NONE;
    }
    return NONE;
}

/* --- from arguments to an output ---------------------------------------------------------------------------------- */

/* The letter that is sharded, *letter NONE so far: whether this argument agrees with it. */
static bool agrees(letters *of, const place *p, int *letter) {
    if (p->sharded == NONE) return true;
    int own = p->sharded < p->ndim ? letter_of(of, p, p->sharded) : NONE;
    if (own == NONE || (*letter != NONE && (*letter != own || of->split != p->split))) return false;
    *letter = own;
    if (p->split && (!p->dims || (of->split && of->extent != p->dims[p->sharded]))) return false;
    of->split = p->split;
    if (p->split) of->extent = p->dims[p->sharded];
    return true;
}

static bool has_whole(const letters *of, const place *p, int letter) {
    for (int d = 0; d < p->ndim; d++)
        if (d != p->sharded && letter_of(of, p, d) == letter) return true;
    return false;
}

/* The letter at which all arguments that have it are sharded; NONE: there is none. */
static int find_letter(letters *of) {
    const sharded_inputs *in = of->in;
    int letter = NONE;
    for (int round = 0; round < 2; round++) {
        size_t at = 0;
        for (size_t i = 0; i < op_nslots(in->op, false); i++) {
            const slot *s = op_slot(in->op, false, i);
            for (size_t k = 0; k < s->nargs; k++, at++) {
                if (at >= in->nargs || in->args[at].state != LIFT_KNOWN) return NONE;
                place p = place_of(in->t, s->name->bytes, in->own[at].term, &in->args[at], in->axis);
                if (p.ndim < 0 || (round == 0 ? !agrees(of, &p, &letter) : has_whole(of, &p, letter))) return NONE;
            }
        }
        for (; at < in->nargs; at++) /* random numbers */
            if (!is_replicated(in->args[at].placed[in->axis])) return NONE;
    }
    return letter;
}

bool sharded_output(const sharded_inputs *in, uint32_t id, axis_placement *out, bool *out_mean) {
    letters of = {.in = in};
    if (!find_rule(in->op, &of)) return false;
    int letter = find_letter(&of);
    bool sums = letter >= SUMMED, can_sum = of.rule.flags & (IS_SUM | IS_MEAN);
    if (letter == NONE || (sums && !can_sum)) return false;
    if (sums && of.split && of.split < SPLIT_RUNS && of.rule.flags & IS_MEAN)
        return false; /* of fewer elements on some ranks than on others */
    place p = place_of(in->t, term_head(in->t, id)->label, id, NULL, in->axis), forward;
    if (p.ndim < 0 && of.rule.kind == RULE_TABLE) p.ndim = 2; /* SelectedRows: as the table */
    if (p.ndim < 0) return false;
    if (find_place(&of, p.slot_text, p.nbytes, &forward)) p.sharded = forward.sharded;
    *out_mean = sums && of.rule.flags & IS_MEAN;
    *out = of.rule.flags & IS_STEP && is_apart(&p) ? REPLICATED : PARTIAL;
    if (is_replicated(*out)) return true;
    for (int d = 0; d < p.ndim; d++)
        if (letter_of(&of, &p, d) == letter) {
            *out = sharded_by(d, of.split);
            return !of.split || (p.dims && p.dims[d] == of.extent);
        }
    return sums || of.is_grad;
}
