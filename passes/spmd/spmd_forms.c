/* spmd_forms.c: ops that have another form in which one more of their factors may be sharded.
 *
 * A softmax with cross entropy over sharded classes becomes Paddle's c_softmax_with_cross_entropy, which sends three
 * numbers a row. It takes it that all ranks have as many classes: the last ones are filled up with logits that count
 * for nothing. A lookup in a table whose rows are sharded becomes c_embedding: rows that other ranks have are zeros, so
 * that the sum over ranks is the row. A batch_norm of a sharded batch becomes c_batch_norm, which sends two sums a
 * channel, and as many of its gradient. */
#include <float.h>

#include "passes/spmd/spmd.h"

typedef struct form_row {
    const char *type, *special; /* the op, and its other form */
    spmd_form form;
    bool of_output; /* the argument that has the factor: output 0, else an input: */
    size_t input;
    bool first_dim; /* the factor is that of dimension 0, else of the last */
} form_row;

static const form_row forms[] = {
    {"softmax_with_cross_entropy", "c_softmax_with_cross_entropy", FORM_CLASSES, false, 0, false},
    {"softmax_with_cross_entropy_grad", "c_softmax_with_cross_entropy_grad", FORM_CLASSES, true, 0, false},
    {"lookup_table_v2", "c_embedding", FORM_ROWS, false, 0, true},
    {"lookup_table_v2_grad", "c_embedding_grad", FORM_ROWS, true, 0, true},
    {"batch_norm", "c_batch_norm", FORM_BATCH, false, 0, true},
    {"batch_norm_grad", "c_batch_norm_grad", FORM_BATCH, false, 0, true},
    {"aten_batch_norm", "c_aten_batch_norm", FORM_BATCH, false, 0, true},
    {"aten_batch_norm_backward", "c_aten_batch_norm_backward", FORM_BATCH, false, 0, true},
    {"aten_addmm", NULL, FORM_SHARES, false, 1, false},
    {"aten_baddbmm", NULL, FORM_SHARES, false, 1, false},
    {"aten_nll_loss_forward", NULL, FORM_MEAN, false, 1, true},
};

/* Of an op in either form. */
static const form_row *form_of(const weft_op *op) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (op_is(op, forms[i].type) || (forms[i].special && op_is(op, forms[i].special))) return &forms[i];
    return NULL;
}

/* The argument that has the factor. */
static const axes_arg *arg_of(const axes_rule *rule, const form_row *row) {
    return row->of_output ? &rule->out[0] : &rule->in[row->input];
}

static bool has_form(const weft_op *op, const form_row *row, const axes_arg *x) {
    if (row->form == FORM_SHARES || row->form == FORM_BATCH) return true;
    if (row->form == FORM_MEAN) return attr_int(op, "reduction", 1) == 1 && x->ndim == 1;
    if (row->form == FORM_ROWS) return attr_int(op, "padding_idx", -1) < 0 && !attr_bool(op, "is_sparse", false);
    int64_t axis = attr_int(op, "axis", -1);
    return (axis == -1 || axis == x->ndim - 1) && !attr_bool(op, "soft_label", false) &&
           attr_bool(op, "use_softmax", true);
}

void spmd_find_form(const weft_op *op, bool own_statistics, spmd_kind *kind) {
    const form_row *row = form_of(op);
    axes_rule *r = &kind->rule;
    if (!row || !op_is(op, row->type) || r->nin <= row->input || !r->nout) return;
    const axes_arg *x = arg_of(r, row);
    if (x->ndim < 1 || !has_form(op, row, x)) return;
    int lead = spmd_lead(r, x, row->first_dim ? 0 : x->ndim - 1);
    if (lead < 0 || !r->factors[lead].why) return;
    r->factors[lead].why = NULL;
    kind->form = row->form == FORM_BATCH && own_statistics ? FORM_OWN : row->form;
    kind->special = kind->form == FORM_OWN ? SIZE_MAX : (size_t)lead;
    kind->is_own = kind->form == FORM_OWN; /* gradients are partial sums of ranks' rows, as those of any op */
    if (kind->is_own) return;
    /* what ranks send makes the loss the same on all of them */
    if (row->form == FORM_MEAN) r->out[0].reduce = AXES_NONE;
    if (row->form == FORM_MEAN || row->form == FORM_BATCH || (row->form == FORM_CLASSES && !row->of_output))
        for (size_t o = row->form != FORM_BATCH; o < r->nout; o++) r->out[o].reduce = AXES_NONE;
}

uint32_t spmd_form_ring(const spmd_op *op) {
    return op->choice->is_special && op->kind->form == FORM_BATCH ? placed_dim_axes(&op->choice->in[0], 0) : 0;
}

/* How the argument lies that has the factor; *out_dim: the dimension of it. */
static const axes_placed *special_arg(const spmd_op *op, const axes_placed *in, const axes_placed *out, int *out_dim) {
    const form_row *row = form_of(op->op);
    *out_dim = row->first_dim ? 0 : arg_of(&op->kind->rule, row)->ndim - 1;
    return row->of_output ? &out[0] : &in[row->input];
}

/* The mesh axes that shard the factor. */
static uint32_t special_axes(const spmd_op *op, const axes_placed *in, const axes_placed *out) {
    int d;
    const axes_placed *p = special_arg(op, in, out, &d);
    return placed_dim_axes(p, d);
}

/* Sums in double: of elements, then of squares; of a gradient both at once. */
static double sent_of_batch(const spmd_plan *plan, const spmd_op *op, const axes_placed *in) {
    const axes_arg *x = &op->kind->rule.in[0];
    bool last = x->ndim == 2 || strcmp(attr_string(op->op, "data_layout", "NCHW"), "NHWC") == 0;
    double w = (double)spmd_extent(&plan->mesh, placed_dim_axes(&in[0], 0));
    return 2 * (w - 1) / w * (double)(2 * x->extents[last ? x->ndim - 1 : 1] + 1) * sizeof(double);
}

double spmd_form_sent(const spmd_plan *plan, const spmd_op *op, const axes_placed *in, const axes_placed *out) {
    if (op->kind->form == FORM_BATCH) return sent_of_batch(plan, op, in);
    if ((op->kind->form != FORM_CLASSES && op->kind->form != FORM_MEAN) || op->kind->rule.nout < 2) return 0;
    uint32_t axes = special_axes(op, in, out);
    const spmd_var *loss = op->out[1];
    if (!axes || !loss) return 0;
    double w = (double)spmd_extent(&plan->mesh, axes);
    return (op->kind->form == FORM_MEAN ? 4 : 6) * (w - 1) / w *
           (double)placed_nbytes(&plan->mesh, &out[1], &loss->whole);
}

/* Ranks have classes in the order of their ring; parts of several axes are equal. */
bool spmd_form_fits(const spmd_plan *plan, const spmd_op *op, const axes_placed *in, const axes_placed *out) {
    int d;
    if (op->kind->form != FORM_CLASSES) return true;
    const axes_placed *p = special_arg(op, in, out, &d);
    for (int i = 1; i < p->naxes[d]; i++)
        if (p->axes[d][i] < p->axes[d][i - 1]) return false;
    if (p->naxes[d] < 2) return true;
    return op->kind->rule.factors[op->kind->special].size % spmd_extent(&plan->mesh, placed_dim_axes(p, d)) == 0;
}

static weft_status copy_attr(const weft_op *from, weft_op *to, const char *attr) {
    const weft_attr *have = op_find_attr(from, attr);
    weft_attr *made;
    if (!have) return NULL;
    TRY(op_set_attr(to, attr, &made));
    const name *kept = made->name;
    *made = *have;
    made->name = kept;
    return NULL;
}

static weft_status add_args(const weft_op *from, weft_op *to, bool output) {
    for (size_t i = 0; i < op_nslots(from, output); i++) {
        const slot *s = op_slot(from, output, i);
        for (size_t k = 0; k < s->nargs; k++)
            TRY(output ? weft_op_add_output(to, s->name->bytes, slot_var(from, s, k))
                       : weft_op_add_input(to, s->name->bytes, slot_var(from, s, k)));
    }
    return NULL;
}

/* The arguments of the new op, in the order of the rule: both forms have the same slots. */
static weft_status find_places(spmd_plan *plan, spmd_op *op) {
    const op_schema *schema = op_schema_of(op->op);
    uint32_t *at = ARENA_ARRAY(&plan->memory, uint32_t, op->kind->rule.nin + op->kind->rule.nout + 1);
    if (!at) return base_out_of_memory();
    op->at = at;
    for (size_t i = 0; i < schema->ninputs + schema->noutputs; i++) {
        bool output = i >= schema->ninputs;
        const slot_schema *named = output ? &schema->outputs[i - schema->ninputs] : &schema->inputs[i];
        const slot *s = op_find_slot(op->op, output, named->name);
        for (size_t k = 0; s && k < s->nargs; k++) *at++ = (uint32_t)(&slot_args(op->op, s)[k] - op->op->args);
    }
    return NULL;
}

bool spmd_form_adds(const spmd_op *op, size_t i) {
    return op->kind->form == FORM_SHARES && i == 0;
}

/* The sum over ranks of an output, which the op leaves in another var. `into` NULL: a new one. */
static weft_status sum_output(spmd_emitter *e, spmd_op *op, size_t o, uint32_t axes, weft_var *into, weft_var **out) {
    const spmd_var *v = op->out[o];
    axes_placed parts = {.naxes = {0}}, sum = parts;
    spmd_path path;
    weft_var *part;
    for (int a = 0; a < AXES_MESH; a++)
        if (axes >> a & 1) parts.partial[a] = 1 + WEFT_REDUCE_SUM;
    TRY(spmd_new_var(e->plan, v, &parts, &part));
    spmd_set_arg(op, op->kind->rule.nin + o, part);
    if (!spmd_find_path(&e->plan->mesh, &v->whole, &parts, &sum, &path)) return base_out_of_memory();
    return spmd_emit_path(e, v, part, &path, into, out);
}

/* Sums of losses and of weights, over ranks; then the one by the other. */
static weft_status take_mean(spmd_emitter *e, spmd_op *op, uint32_t axes) {
    enum { SUM = 2 }; /* ATen's reduction */
    weft_var *losses, *weights;
    weft_op *divide;
    e->before = op->op->next;
    TRY(weft_op_set_attr_int(op->op, "reduction", SUM));
    TRY(sum_output(e, op, 0, axes, NULL, &losses));
    TRY(sum_output(e, op, 1, axes, op->out[1]->var, &weights));
    TRY(weft_op_create(e->plan->program, "elementwise_div", &divide));
    TRY(weft_op_add_input(divide, "X", losses));
    TRY(weft_op_add_input(divide, "Y", weights));
    TRY(weft_op_add_output(divide, "Out", op->out[0]->var));
    weft_block_insert_before(op->op->block, e->before, divide);
    return NULL;
}

uint32_t spmd_form_axes(const spmd_op *op) {
    bool has_places = op->kind->form == FORM_CLASSES || op->kind->form == FORM_ROWS;
    return op->choice->is_special && has_places ? special_axes(op, op->choice->in, op->choice->out) : 0;
}

/* The last dimension, where it is that of classes; -1: it is not. */
static int class_dim(const spmd_op *op, const axes_arg *x) {
    bool has = x->ndim > 0 && spmd_lead(&op->kind->rule, x, x->ndim - 1) == (int)op->kind->special;
    return has ? x->ndim - 1 : -1;
}

weft_status spmd_form_fit(spmd_emitter *e, spmd_op *op) {
    const axes_rule *r = &op->kind->rule;
    if (!op->choice->is_special || op->kind->form != FORM_CLASSES) return NULL;
    double number = form_of(op->op)->of_output ? 0 : -(double)FLT_MAX;
    for (size_t i = 0; i < r->nin; i++)
        if (class_dim(op, &r->in[i]) >= 0) TRY(spmd_emit_fitted_input(e, op, i, class_dim(op, &r->in[i]), number));
    for (size_t o = 0; o < r->nout; o++)
        if (class_dim(op, &r->out[o]) >= 0) TRY(spmd_emit_fitted_output(e, op, o, class_dim(op, &r->out[o])));
    return NULL;
}

weft_status spmd_form_place(spmd_emitter *e, const spmd_op *op, weft_op *made) {
    const spmd_mesh *m = &e->plan->mesh;
    const form_row *row = form_of(made);
    const axes_arg *x = arg_of(&op->kind->rule, row);
    const axes_placed *p = row->of_output ? &op->choice->out[0] : &op->choice->in[row->input];
    int64_t at = spmd_part(m, spmd_form_axes(op)), first[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
    if (op->kind->form == FORM_CLASSES) return spmd_put(e, made, "rank", ATTR_INT, 1, &at);
    axes_part(&m->axes, p, x->ndim, x->extents, m->at, first, extent);
    return spmd_put(e, made, "start_index", ATTR_LONG, 1, &first[0]);
}

weft_status spmd_take_form(spmd_emitter *e, spmd_op *op) {
    spmd_plan *plan = e->plan;
    static const char *const kept[] = {"op_role",   "op_role_var",  "op_namescope",
                                       "op_device", "op_callstack", "ignore_index"};
    const form_row *row = form_of(op->op);
    uint32_t axes = special_axes(op, op->choice->in, op->choice->out);
    if (row->form == FORM_MEAN) return take_mean(e, op, axes);
    if (!row->special) return NULL;
    weft_op *made;
    TRY(weft_op_create(plan->program, row->special, &made));
    TRY(add_args(op->op, made, false));
    TRY(add_args(op->op, made, true));
    if (row->form == FORM_BATCH) op_share_attrs(made, op->op);
    for (size_t i = 0; row->form != FORM_BATCH && i < sizeof kept / sizeof *kept; i++)
        if (row->form == FORM_CLASSES || strcmp(kept[i], "ignore_index") != 0) TRY(copy_attr(op->op, made, kept[i]));
    if (row->form == FORM_CLASSES) {
        int64_t id;
        TRY(spmd_ring(plan, axes, &id));
        TRY(weft_op_set_attr_int(made, "ring_id", id));
        TRY(weft_op_set_attr_int(made, "nranks", spmd_extent(&plan->mesh, axes)));
    } else if (row->form == FORM_BATCH) {
        int64_t id;
        TRY(spmd_ring(plan, spmd_form_ring(op), &id));
        TRY(weft_op_set_attr_int(made, "ring_id", id));
    }
    if (spmd_form_axes(op)) TRY(spmd_form_place(e, op, made));
    weft_block_insert_before(op->op->block, op->op, made);
    weft_op_remove(op->op);
    op->op = made;
    return find_places(plan, op);
}
