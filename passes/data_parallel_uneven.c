/* data_parallel_uneven.c: uneven: pad. Ranks have different numbers of rows where these do not divide a batch: the
 * first have one more.
 *
 * A rank has b rows of the batch's B. The gradient of the batch's mean is the sum of b / B times that of a rank's mean.
 * So each gradient is multiplied by n b / B before the ranks' are averaged. B is the sum of b over ranks, once a step;
 * where parts are equal the weight is 1 and changes no bit. Losses that are sums need no weights. What is read of a
 * rank's mean loss is weighted too, so that the mean over ranks is the batch's. */
#include "passes/certificate.h"
#include "passes/data_parallel.h"

/* --- what does not go with it ------------------------------------------------------------------------------------- */

static weft_status refuse_gathers(dp_plan *plan) {
    char place[160];
    const weft_op *op = plan->nmetrics ? plan->metrics[0] : NULL;
    for (size_t i = 0; i < plan->nlookups && !op; i++)
        if (plan->lookups[i].by_rank) op = plan->lookups[i].op;
    if (!op) return NULL;
    return weft_pass_refuse(plan->pass,
                            "uneven: pad: %s gets the rows of all ranks, which are gathered only where they "
                            "are equally many",
                            op_place(op, place, sizeof place));
}

/* --- the weight --------------------------------------------------------------------------------------------------- */

static weft_status add_number(dp_plan *plan, const char *stem, weft_dtype dtype, size_t ndim, weft_var **out) {
    const name *unique;
    TRY(program_unique_name(plan->program, stem, &unique));
    TRY(weft_block_add_var(plan->block, unique->bytes, dtype, ndim, (const int64_t[]){1}, out));
    return dp_place(plan, *out, -1);
}

/* An op of one input and one output before `before`. */
static weft_status insert(dp_plan *plan, weft_op *before, const char *type, const char *in_slot, weft_var *in,
                          weft_var *to, weft_op **out) {
    TRY(weft_op_create(plan->program, type, out));
    TRY(weft_op_add_input(*out, in_slot, in));
    TRY(weft_op_add_output(*out, "Out", to));
    TRY(weft_op_set_attr_int(*out, "op_role", WEFT_ROLE_FORWARD));
    weft_block_insert_before(plan->block, before, *out);
    return NULL;
}

static weft_status insert_cast(dp_plan *plan, weft_op *before, weft_var *in, weft_var *to, weft_op **out) {
    TRY(insert(plan, before, "cast", "X", in, to, out));
    TRY(weft_op_set_attr_int(*out, "in_dtype", in->dtype));
    return weft_op_set_attr_int(*out, "out_dtype", to->dtype);
}

/* n times a rank's rows, as a number. */
static weft_status insert_rows(dp_plan *plan, weft_op *before, weft_var *fed, weft_var **out) {
    weft_var *extents, *count;
    weft_op *op;
    int64_t ndim = (int64_t)fed->ndim, one[] = {1}, zero[] = {0};
    const name *unique;
    TRY(program_unique_name(plan->program, "dp_extents", &unique));
    TRY(weft_block_add_var(plan->block, unique->bytes, WEFT_INT32, 1, &ndim, &extents));
    TRY(dp_place(plan, extents, -1));
    TRY(add_number(plan, "dp_count", WEFT_INT32, 0, &count));
    TRY(add_number(plan, "dp_rows", WEFT_FP32, 0, out));
    TRY(insert(plan, before, "shape", "Input", fed, extents, &op));
    TRY(insert(plan, before, "slice", "Input", extents, count, &op));
    TRY(weft_op_set_attr_ints(op, "axes", 1, zero));
    TRY(weft_op_set_attr_ints(op, "starts", 1, zero));
    TRY(weft_op_set_attr_ints(op, "ends", 1, one));
    TRY(weft_op_set_attr_ints(op, "decrease_axis", 1, zero));
    return insert_cast(plan, before, count, *out, &op);
}

static weft_op *first_reader(const weft_var *v) {
    weft_op *first = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output && op->block->idx == 0 && (!first || op->order < first->order)) first = op;
    }
    return first;
}

static weft_status insert_weight(dp_plan *plan, weft_op *before, weft_var *fed) {
    weft_var *rows, *all, *scaled;
    weft_op *op;
    TRY(insert_rows(plan, before, fed, &rows));
    TRY(add_number(plan, "dp_batch", WEFT_FP32, 0, &all));
    TRY(add_number(plan, "dp_rows_by_ranks", WEFT_FP32, 0, &scaled));
    TRY(add_number(plan, "dp_weight", WEFT_FP32, 0, &plan->weight));
    TRY(dp_make_collective(plan, rows, all, false, &op));
    TRY(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_FORWARD));
    weft_block_insert_before(plan->block, before, op);
    TRY(insert(plan, before, "scale", "X", rows, scaled, &op));
    TRY(weft_op_set_attr_float(op, "scale", (double)plan->nranks));
    TRY(weft_op_set_attr_float(op, "bias", 0.0));
    TRY(weft_op_set_attr_bool(op, "bias_after_scale", true));
    TRY(insert(plan, before, "elementwise_div", "X", scaled, plan->weight, &op));
    TRY(weft_op_add_input(op, "Y", all));
    return pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_WEIGHT, .op = op, .var = fed});
}

weft_status dp_begin_weights(dp_plan *plan) {
    if (!plan->pads) return NULL;
    TRY(refuse_gathers(plan));
    TRY(weft_pass_did(plan->pass, "batches that %lld ranks do not divide: the first ranks get a row more",
                      (long long)plan->nranks));
    if (plan->combine == DP_SUM) return NULL;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        weft_op *reader = plan->feeds[i].split ? first_reader(plan->feeds[i].var) : NULL;
        if (reader) return insert_weight(plan, reader, plan->feeds[i].var);
    }
    return NULL;
}

/* --- what it weighs ----------------------------------------------------------------------------------------------- */

/* The weight in the element type of `like`, before `before`. */
static weft_status weight_like(dp_plan *plan, const weft_var *like, weft_op *before, weft_var **out) {
    weft_op *op;
    *out = plan->weight;
    if (like->dtype == plan->weight->dtype) return NULL;
    TRY(add_number(plan, "dp_weight", (weft_dtype)like->dtype, 0, out));
    return insert_cast(plan, before, plan->weight, *out, &op);
}

weft_status dp_weigh(dp_plan *plan, weft_var *var, weft_op **after) {
    weft_var *weight;
    weft_op *op;
    if (!plan->weight) return NULL;
    TRY(weft_op_create(plan->program, "elementwise_mul", &op));
    weft_block_insert_after((*after)->block, *after, op);
    TRY(weight_like(plan, var, op, &weight));
    TRY(weft_op_add_input(op, "X", var));
    TRY(weft_op_add_input(op, "Y", weight));
    TRY(weft_op_add_output(op, "Out", var));
    TRY(weft_op_set_attr_int(op, "axis", -1));
    TRY(weft_op_set_attr_int(op, "op_role", weft_op_role(*after) & WEFT_ROLE_BACKWARD));
    TRY(pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_WEIGH, .op = op, .other = *after, .var = var}));
    *after = op;
    return weft_op_set_attr_string(op, "op_namescope", "/auto_parallel/data_parallel");
}

static weft_op *last_user(const weft_var *v) {
    weft_op *last = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (op->block->idx == 0 && !op_is(op, "fetch") && (!last || op->order > last->order)) last = op;
    }
    return last;
}

weft_status dp_weigh_means(dp_plan *plan) {
    for (size_t i = 0; i < plan->nmeans && plan->weight; i++) {
        weft_op *last = last_user(plan->means[i]);
        if (!last) continue;
        TRY(dp_weigh(plan, plan->means[i], &last));
        TRY(weft_pass_did(plan->pass, "%s is what a rank's rows add to the batch's mean", plan->means[i]->name->bytes));
    }
    return NULL;
}
