/* losses.c: how the loss of a batch comes from the losses of ranks that have equal parts of its rows: as their mean, as
 * their sum, or not in a way that is known. A claim that says otherwise is refused.
 *
 * The program before is read forward. A value is the same whatever the rows; or its first dimension is that of the
 * rows, each computed from its own row; or it is the mean, or the sum, over ranks of what each gets from its rows. The
 * rules are a list of their own, as those of rules.c; what is in none gives a value that is not known. */
#include "proof/certificate/certificate.h"

/* In the order of how little they say. */
typedef enum row_state { SAME, ROWS, MEAN, SUM, UNKNOWN } row_state;

typedef enum row_rule {
    EACH, /* the inputs' elements one by one, broadcast as attr axis says */
    ADD,  /* as EACH; and a sum of means is one, a sum of sums too */
    SUBTRACT,
    TIMES, /* as EACH; and a multiple of a mean or a sum is one */
    DIVIDE,
    SCALED,  /* as EACH; and a mean or a sum through a scale, a cast, a copy */
    PER_ROW, /* the first slot's rows each for itself; other inputs are weights */
    AXIS,    /* as PER_ROW where attr axis is not the first dimension */
    JOINED,  /* the same, of several */
    CLASSES, /* labels too */
    NORM,    /* from begin_norm_axis on */
    PRODUCT,
    ORDER, /* attr axis: the first dimension stays the first */
    SLICE,
    MOVE, /* the same elements in order: extents say whether rows stay rows */
    MEAN_OF,
    SUM_OF,
    MEAN_ALL
} row_rule;

static const struct {
    const char *type;
    row_rule rule;
    const char *main; /* slot */
} rules[] = {
    {"relu", EACH, "X"},
    {"aten_relu", EACH, "self"},
    {"gelu", EACH, "X"},
    {"tanh", EACH, "X"},
    {"sigmoid", EACH, "X"},
    {"sqrt", EACH, "X"},
    {"rsqrt", EACH, "X"},
    {"square", EACH, "X"},
    {"abs", EACH, "X"},
    {"exp", EACH, "X"},
    {"log", EACH, "X"},
    {"log1p", EACH, "X"},
    {"pow", EACH, "X"},
    {"clip", EACH, "X"},
    {"silu", EACH, "X"},
    {"swish", EACH, "X"},
    {"softplus", EACH, "X"},
    {"leaky_relu", EACH, "X"},
    {"relu6", EACH, "X"},
    {"elu", EACH, "X"},
    {"hard_sigmoid", EACH, "X"},
    {"hard_swish", EACH, "X"},
    {"mish", EACH, "X"},
    {"selu", EACH, "X"},
    {"softsign", EACH, "X"},
    {"stanh", EACH, "X"},
    {"brelu", EACH, "X"},
    {"celu", EACH, "X"},
    {"logsigmoid", EACH, "X"},
    {"tanh_shrink", EACH, "X"},
    {"softshrink", EACH, "X"},
    {"hard_shrink", EACH, "X"},
    {"thresholded_relu", EACH, "X"},
    {"erf", EACH, "X"},
    {"sin", EACH, "X"},
    {"cos", EACH, "X"},
    {"atan", EACH, "X"},
    {"expm1", EACH, "X"},
    {"reciprocal", EACH, "X"},
    {"dropout", EACH, "X"},
    {"fill_any_like", EACH, "X"},
    {"fill_zeros_like", EACH, "X"},
    {"equal", EACH, "X"},
    {"not_equal", EACH, "X"},
    {"less_than", EACH, "X"},
    {"greater_than", EACH, "X"},
    {"elementwise_max", EACH, "X"},
    {"elementwise_min", EACH, "X"},
    {"elementwise_pow", EACH, "X"},
    {"bce_loss", EACH, "X"},
    {"log_loss", EACH, "Predicted"},
    {"huber_loss", EACH, "X"},
    {"elementwise_add", ADD, "X"},
    {"grad_add", ADD, "X"},
    {"sum", ADD, "X"},
    {"elementwise_sub", SUBTRACT, "X"},
    {"elementwise_mul", TIMES, "X"},
    {"elementwise_div", DIVIDE, "X"},
    {"scale", SCALED, "X"},
    {"cast", SCALED, "X"},
    {"assign", SCALED, "X"},
    {"conv2d", PER_ROW, "Input"},
    {"depthwise_conv2d", PER_ROW, "Input"},
    {"conv2d_transpose", PER_ROW, "Input"},
    {"depthwise_conv2d_transpose", PER_ROW, "Input"},
    {"conv3d", PER_ROW, "Input"},
    {"pool2d", PER_ROW, "X"},
    {"pool3d", PER_ROW, "X"},
    {"pixel_shuffle", PER_ROW, "X"},
    {"group_norm", PER_ROW, "X"},
    {"instance_norm", PER_ROW, "X"},
    {"lookup_table_v2", PER_ROW, "Ids"},
    {"lookup_table", PER_ROW, "Ids"},
    {"softmax", AXIS, "X"},
    {"log_softmax", AXIS, "X"},
    {"softmax_with_cross_entropy", CLASSES, "Logits"},
    {"cross_entropy2", CLASSES, "X"},
    {"cross_entropy", CLASSES, "X"},
    {"layer_norm", NORM, "X"},
    {"matmul_v2", PRODUCT, "X"},
    {"mul", PRODUCT, "X"},
    {"bmm", PRODUCT, "X"},
    {"transpose2", ORDER, "X"},
    {"slice", SLICE, "Input"},
    {"split", AXIS, "X"},
    {"concat", JOINED, "X"},
    {"reshape2", MOVE, "X"},
    {"reshape", MOVE, "X"},
    {"squeeze2", MOVE, "X"},
    {"unsqueeze2", MOVE, "X"},
    {"flatten_contiguous_range", MOVE, "X"},
    {"reduce_mean", MEAN_OF, "X"},
    {"reduce_sum", SUM_OF, "X"},
    {"mean", MEAN_ALL, "X"},
};

typedef struct reading {
    cert_checker *c;
    uint8_t *states;   /* by var id of the program before */
    uint32_t *unknown; /* by var id: position of the op where it began */
    bool *mixed;       /* by var id: a rank's rows are not neighbours in the batch: rows were put behind rows */
    const weft_op *op;
    const slot *main;
} reading;

static row_state state_of(const reading *r, const weft_var *v) {
    return v->block ? (row_state)r->states[v->id] : SAME;
}

/* The argument of a slot with one, NULL: not that. */
static const weft_var *only(const weft_op *op, const char *slot_text) {
    const slot *s = op_find_slot(op, false, slot_text);
    return s && s->nargs == 1 ? slot_var(op, s, 0) : NULL;
}

static bool has_tensor_attr(const weft_op *op) {
    static const char *const names[] = {"AxisTensor",  "AxesTensor",   "AxesTensorList", "ShapeTensor",       "Shape",
                                        "ScaleTensor", "StartsTensor", "EndsTensor",     "SectionsTensorList"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (weft_op_ninputs(op, names[i])) return true;
    return false;
}

/* --- rows stay rows ----------------------------------------------------------------------------------------------- */

/* All that have rows have them in dimension 0 of the same extents; all others are spread over the rows. */
static row_state each_row(const reading *r) {
    size_t ndim = 0;
    bool any = false;
    FOR_EACH_ARG(r->op, false, u) {
        if (state_of(r, use_var(r->op->program, u)) > ROWS) return UNKNOWN;
        if (state_of(r, use_var(r->op->program, u)) != ROWS) continue;
        if (any && use_var(r->op->program, u)->ndim != ndim) return UNKNOWN;
        ndim = use_var(r->op->program, u)->ndim;
        any = true;
    }
    FOR_EACH_ARG(r->op, false, u) {
        const weft_var *v = use_var(r->op->program, u);
        if (!any || state_of(r, v) == ROWS) continue;
        bool spread =
            v->ndim == ndim ? v->ndim && v->dims[0] == 1 : v->ndim < ndim && weft_op_attr_int(r->op, "axis", -1) != 0;
        if (!spread) return UNKNOWN;
    }
    return !any ? SAME : ndim ? ROWS : UNKNOWN;
}

/* The main slot has rows, and nothing else does. */
static row_state only_main(const reading *r, bool labels_too) {
    const weft_var *x = r->main && r->main->nargs == 1 ? slot_var(r->op, r->main, 0) : NULL;
    if (!x || state_of(r, x) != ROWS || x->ndim < 2) return UNKNOWN;
    for (size_t i = 0; i < op_nslots(r->op, false); i++) {
        const slot *s = op_slot(r->op, false, i);
        bool is_label = labels_too && name_is(s->name, "Label");
        for (size_t k = 0; k < s->nargs && s != r->main; k++)
            if (state_of(r, slot_var(r->op, s, k)) != (is_label ? ROWS : SAME)) return UNKNOWN;
    }
    return ROWS;
}

static bool is_first(int64_t axis, size_t ndim) {
    return axis == 0 || axis == -(int64_t)ndim;
}

static row_state product(const reading *r) {
    const weft_var *x = only(r->op, "X"), *y = only(r->op, "Y");
    if (!x || !y || state_of(r, x) != ROWS) return UNKNOWN;
    bool turned = weft_op_attr_bool(r->op, "trans_x", false), mul = op_is(r->op, "mul");
    if (state_of(r, y) == SAME)
        return x->ndim >= 2 && y->ndim <= 2 && !(turned && x->ndim == 2) &&
                       (!mul || weft_op_attr_int(r->op, "x_num_col_dims", 1) >= 1)
                   ? ROWS
                   : UNKNOWN;
    return state_of(r, y) == ROWS && !mul && x->ndim >= 3 && x->ndim == y->ndim ? ROWS : UNKNOWN;
}

static const int64_t *list_of(const weft_op *op, const char *attr, size_t *count) {
    const weft_attr *a = op_find_attr(op, attr);
    bool is_list = a && (a->type == ATTR_INTS || a->type == ATTR_LONGS);
    *count = is_list ? a->count : 0;
    return is_list ? a->u.ints : NULL;
}

static bool lists_first(const weft_op *op, const char *attr, size_t ndim) {
    size_t n;
    const int64_t *axes = list_of(op, attr, &n);
    for (size_t i = 0; i < n; i++)
        if (is_first(axes[i], ndim)) return true;
    return false;
}

/* A rank's elements are one stretch of the batch's, and stay it; they are rows of what is made if only its first extent
 * differs. That must be as many times a rank's as there are ranks. */
static row_state moved(const reading *r) {
    const weft_var *out = weft_op_output(r->op, "Out", 0);
    const weft_var *now = out ? block_find_text(r->c->after.p->blocks[0], out->name->bytes, out->name->nbytes) : NULL;
    size_t n;
    const int64_t *shape_attr = list_of(r->op, "shape", &n);
    if (!now || now->ndim != out->ndim || out->ndim == 0) return UNKNOWN;
    for (size_t i = 1; i < out->ndim; i++)
        if (out->dims[i] != now->dims[i]) return UNKNOWN;
    if (out->dims[0] < 0) return now->dims[0] < 0 && n && shape_attr[0] <= 0 ? ROWS : UNKNOWN;
    int64_t rows;
    if (now->dims[0] < 0 || __builtin_mul_overflow(now->dims[0], r->c->ranks->count, &rows)) return UNKNOWN;
    return rows == out->dims[0] ? ROWS : UNKNOWN;
}

/* --- means and sums ----------------------------------------------------------------------------------------------- */

/* What a reduction over some dimensions makes of rows; of a mean or a sum, which it takes linearly, the same. */
static row_state reduced(const reading *r, row_state made) {
    const weft_var *x = only(r->op, "X");
    size_t n;
    if (!x) return UNKNOWN;
    if (state_of(r, x) != ROWS) return state_of(r, x);
    bool all = weft_op_attr_bool(r->op, "reduce_all", false);
    (void)list_of(r->op, "dim", &n);
    if (op_find_attr(r->op, "dim") && !n) all = true;
    if (!op_find_attr(r->op, "dim") && !all) return made; /* dimension 0 by default */
    return all || lists_first(r->op, "dim", x->ndim) ? made : ROWS;
}

static bool is_total(row_state s) {
    return s == MEAN || s == SUM;
}

/* Terms that are added up. */
static row_state added(const reading *r) {
    row_state found = SAME;
    FOR_EACH_ARG(r->op, false, u) {
        row_state s = state_of(r, use_var(r->op->program, u));
        if (s == UNKNOWN || s == ROWS || (is_total(found) && is_total(s) && s != found)) return UNKNOWN;
        if (is_total(s)) found = s;
    }
    FOR_EACH_ARG(r->op, false, u) {
        if (found == SUM && state_of(r, use_var(r->op->program, u)) == SAME) return UNKNOWN; /* once a rank */
    }
    return found;
}

static bool has_total(const weft_op *op, const reading *r) {
    FOR_EACH_ARG(op, false, u) {
        if (is_total(state_of(r, use_var(op->program, u)))) return true;
    }
    return false;
}

static row_state scaled(const reading *r) {
    const weft_var *x = only(r->op, "X"), *out = weft_op_output(r->op, "Out", 0);
    if (!x || !out || !cert_is_float(x->dtype) || !cert_is_float(out->dtype)) return UNKNOWN;
    return state_of(r, x) == SUM && weft_op_attr_float(r->op, "bias", 0.0) != 0.0 ? UNKNOWN : state_of(r, x);
}

static row_state multiplied(const reading *r, bool divided) {
    const weft_var *x = only(r->op, "X"), *y = only(r->op, "Y");
    if (!x || !y) return UNKNOWN;
    if (state_of(r, y) == SAME) return state_of(r, x);
    return state_of(r, x) == SAME && !divided ? state_of(r, y) : UNKNOWN;
}

/* --- an op -------------------------------------------------------------------------------------------------------- */

static row_state by_rule(const reading *r, row_rule rule) {
    const weft_op *op = r->op;
    const weft_var *x = r->main && r->main->nargs ? slot_var(r->op, r->main, 0) : NULL;
    bool total = has_total(op, r);
    if (!x || has_tensor_attr(op)) return UNKNOWN;
    if (total && rule < PER_ROW) {
        if (rule == ADD || rule == SUBTRACT) return added(r);
        if (rule == TIMES || rule == DIVIDE) return multiplied(r, rule == DIVIDE);
        return rule == SCALED ? scaled(r) : UNKNOWN;
    }
    switch (rule) {
    case AXIS:
        return is_first(weft_op_attr_int(op, "axis", op_is(op, "split") ? 0 : -1), x->ndim) ? UNKNOWN
                                                                                            : only_main(r, false);
    case CLASSES: return is_first(weft_op_attr_int(op, "axis", -1), x->ndim) ? UNKNOWN : only_main(r, true);
    case NORM: return weft_op_attr_int(op, "begin_norm_axis", 1) >= 1 ? only_main(r, false) : UNKNOWN;
    case PER_ROW: return only_main(r, false);
    case PRODUCT: return product(r);
    case ORDER: {
        size_t n;
        const int64_t *axes = list_of(op, "axis", &n);
        return n && axes[0] == 0 ? only_main(r, false) : UNKNOWN;
    }
    case SLICE:
        return lists_first(op, "axes", x->ndim) || lists_first(op, "decrease_axis", x->ndim) ? UNKNOWN
                                                                                             : only_main(r, false);
    case MOVE: return state_of(r, x) == ROWS ? moved(r) : state_of(r, x);
    case MEAN_OF: return reduced(r, MEAN);
    case SUM_OF: return reduced(r, SUM);
    case MEAN_ALL: return state_of(r, x) == ROWS ? MEAN : state_of(r, x);
    default: return each_row(r);
    }
}

static row_state state_made(reading *r) {
    bool same = !cert_runs_block(r->op);
    FOR_EACH_ARG(r->op, false, u) {
        same = same && state_of(r, use_var(r->op->program, u)) == SAME;
    }
    if (same) return SAME;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!op_is(r->op, rules[i].type)) continue;
        r->main = op_find_slot(r->op, false, rules[i].main);
        return by_rule(r, rules[i].rule);
    }
    return UNKNOWN;
}

/* An op whose outputs are other names of bytes: only what is the same anyway is followed through these. */
static bool shares_bytes(const weft_op *op) {
    cert_rule rule = cert_rule_of(op);
    return rule == CERT_NAME || rule == CERT_VIEW || rule == CERT_BUCKET;
}

static void follow(reading *r, uint32_t at) {
    row_state made = state_made(r);
    uint32_t began = at;
    if (made != SAME && shares_bytes(r->op)) made = UNKNOWN;
    FOR_EACH_ARG(r->op, false, u) {
        if (state_of(r, use_var(r->op->program, u)) == UNKNOWN && r->unknown[u->var_id] < began)
            began = r->unknown[u->var_id];
    }
    FOR_EACH_ARG(r->op, true, u) {
        if (!use_var(r->op->program, u)->block) continue;
        if (r->c->of_rows[at]) made = r->c->of_rows[at] == 1 ? ROWS : UNKNOWN;
        bool fed = op_is(r->op, "feed") || op_is(r->op, "feed_v2");
        r->states[u->var_id] = (uint8_t)(fed ? (r->c->is_split_feed[u->var_id] ? ROWS : SAME) : made);
        r->unknown[u->var_id] = began;
    }
}

/* --- rows that are gathered --------------------------------------------------------------------------------------- */

/* What ranks have one after another is the batch's, if each has neighbouring rows of it. */
static weft_status check_gathered(const reading *r, const cert_claim *claim) {
    cert_checker *c = r->c;
    const weft_var *v = cert_rows_of_gather(c, claim);
    row_state s = state_of(r, v);
    if (s == UNKNOWN || (s == ROWS && r->mixed[v->id])) {
        if (!c->unseen_rows) c->unseen_rows = arena_format(c->arena, "\"%s\"", v->name->bytes);
        return c->unseen_rows ? NULL : base_out_of_memory();
    }
    if (s == (cert_gathers(c, claim) ? ROWS : SAME)) return NULL;
    return cert_refuse(c, "\"%s\" is %s, and ranks' \"%s\" is claimed to be %s", v->name->bytes,
                       s == ROWS ? "a rank's rows" : "no rows of a rank", claim->var,
                       s == ROWS ? "added up" : "gathered");
}

/* Rows behind rows of another value are another order of the batch's. */
static void note_order(reading *r) {
    size_t nrows = 0;
    bool mixes = false, found = false;
    FOR_EACH_ARG(r->op, false, u) {
        if (!use_var(r->op->program, u)->block) continue;
        nrows += r->states[u->var_id] == ROWS;
        found = found || r->mixed[u->var_id];
    }
    if (op_is(r->op, "concat") && nrows > 1)
        mixes = is_first(weft_op_attr_int(r->op, "axis", 0), use_var(r->op->program, op_args(r->op, false))->ndim);
    FOR_EACH_ARG(r->op, true, u) {
        if (use_var(r->op->program, u)->block) r->mixed[u->var_id] = found || mixes;
    }
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

static const char *words_of(row_state s) {
    return s == SUM ? "the sum" : "the mean";
}

static weft_status check_loss(reading *r, const weft_var *v, bool is_differentiated) {
    cert_checker *c = r->c;
    row_state s = state_of(r, v), claimed = strcmp(c->ranks->text, "sum") == 0 ? SUM : MEAN;
    bool is_mean = s == MEAN;
    if (s == ROWS && !is_differentiated) return NULL; /* rows of ranks are put together */
    if (s == ROWS) s = SUM;                           /* of the gradients of all rows */
    if (s == SAME) s = MEAN;
    if (s == UNKNOWN && !c->underived)
        c->underived = arena_format(c->arena, "\"%s\" (%s)", v->name->bytes,
                                    cert_op_text(c, c->old_ops[r->unknown[v->id]], r->unknown[v->id]));
    if (s == UNKNOWN) return c->underived ? NULL : base_out_of_memory();
    bool lacks_weight = c->weight && !is_differentiated && is_mean && !c->is_weighed_loss[v->id];
    if (lacks_weight)
        return cert_refuse(c, "the loss \"%s\" is a mean of a rank's rows without their weight", v->name->bytes);
    if (s == claimed) return NULL;
    return cert_refuse(c, "the loss \"%s\" is %s of what ranks compute of their rows, claimed to be %s", v->name->bytes,
                       words_of(s), words_of(claimed));
}

/* What a seed is the gradient of. */
static const weft_var *seeded(const cert_checker *c, const weft_op *op) {
    int role = weft_op_role(op);
    const weft_var *out = op_is(op, "fill_constant") ? weft_op_output(op, "Out", 0) : NULL;
    if (!out || !(role & WEFT_ROLE_LOSS) || !(role & WEFT_ROLE_BACKWARD) || out->name->nbytes <= 5) return NULL;
    const char *tail = out->name->bytes + out->name->nbytes - 5;
    return strcmp(tail, "@GRAD") == 0 ? block_find_text(c->before.p->blocks[0], out->name->bytes, out->name->nbytes - 5)
                                      : NULL;
}

/* What is weighed without a reduce is a mean. */
static weft_status check_weighed(reading *r) {
    cert_checker *c = r->c;
    for (size_t i = 0; i < c->before.p->nall_vars && !c->message; i++) {
        const weft_var *v = program_var(c->before.p, i);
        row_state s = c->is_weighed_loss[i] ? state_of(r, v) : MEAN;
        if (s == MEAN || (s == UNKNOWN && c->underived)) continue;
        TRY(cert_refuse(c, "\"%s\" is weighed by a rank's rows, and is no mean of them", v->name->bytes));
    }
    return NULL;
}

static weft_status check_losses(reading *r) {
    cert_checker *c = r->c;
    for (uint32_t k = 0; k < c->nold && !c->message; k++) {
        const weft_op *op = c->old_ops[k];
        int role = weft_op_role(op);
        const weft_var *loss = seeded(c, op);
        if (loss) TRY(check_loss(r, loss, true));
        if (!(role & WEFT_ROLE_LOSS) || (role & WEFT_ROLE_BACKWARD) || (role & WEFT_ROLE_NOT_SPECIFIED)) continue;
        FOR_EACH_ARG(op, true, u) {
            const weft_var *v = use_var(op->program, u);
            if (v->block && !v->persistable) TRY(check_loss(r, v, false));
        }
    }
    return c->message ? NULL : check_weighed(r);
}

weft_status cert_check_losses(cert_checker *c) {
    size_t nvars = c->before.p->nall_vars + 1;
    reading r = {.c = c, .states = ARENA_ARRAY(c->arena, uint8_t, nvars)};
    if (!c->ranks) return NULL;
    if (!r.states || !(r.unknown = ARENA_ARRAY(c->arena, uint32_t, nvars)) ||
        !(r.mixed = ARENA_ARRAY(c->arena, bool, nvars)))
        return base_out_of_memory();
    for (size_t i = 0; i + 1 < nvars; i++) r.states[i] = c->is_split_feed[i] ? ROWS : SAME;
    for (uint32_t k = 0; k < c->nold; k++) {
        r.op = c->old_ops[k];
        for (size_t i = c->first_gather[k]; i && !c->message; i = c->next_gather[i - 1])
            TRY(check_gathered(&r, &c->doc.claims[i - 1]));
        note_order(&r);
        follow(&r, k);
    }
    return check_losses(&r);
}
