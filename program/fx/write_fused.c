/* write_fused.c: ops that micro_pipeline_tp put side by side as one, as the node of torch that does what all do:
 * symm_mem.fused_all_gather_matmul, symm_mem.fused_matmul_reduce_scatter. Their attrs say which result is which
 * (passes/micro_pipeline/micro_fused.c); ops that were parted or changed since are written one by one. */
#include <inttypes.h>

#include "program/fused_run.h"
#include "program/fx/fx.h"

enum { MOST_RESULTS = 64 };

typedef struct fused {
    const weft_op *first, *last, *collective;
    const weft_op *products[MOST_RESULTS];
    weft_var *results[MOST_RESULTS]; /* of a gather: the whole, or NULL, then the products */
    size_t nproducts, nresults;
    bool gathers;
} fused;

static weft_var *value_of(const weft_op *op) {
    const slot *s = op_nargs(op, true) == 1 ? op_slot(op, true, 0) : op_find_slot(op, true, "Out");
    for (size_t i = 0; i < op_nslots(op, true) && (!s || !s->nargs); i++) s = op_slot(op, true, i);
    return s && s->nargs ? slot_var(op, s, 0) : NULL;
}

static bool take_op(fused *f, const weft_op *op) {
    int64_t number = weft_op_attr_int(op, "micro_pipeline_out", -1);
    if (op_find_attr(op, "nranks") && op_find_attr(op, "ring_id")) f->collective = op;
    if (op_is(op, "matmul_v2")) {
        if (f->nproducts == MOST_RESULTS) return false;
        f->products[f->nproducts++] = op;
    }
    if (number < 0) return true;
    if (number >= MOST_RESULTS) return false;
    f->results[number] = value_of(op);
    if ((size_t)number + 1 > f->nresults) f->nresults = (size_t)number + 1;
    return true;
}

/* All that the first op says is there. */
static bool find(const weft_op *op, fused *f) {
    *f = (fused){.first = op, .gathers = strncmp(fused_run_plan(op), "fused_all_gather_matmul ", 24) == 0};
    for (size_t n = fused_run_nops(op); n > 0; op = op->next, n--) {
        if (!take_op(f, op)) return false;
        f->last = op;
    }
    if (!f->collective || !f->nproducts) return false;
    for (size_t i = f->gathers; i < f->nresults; i++)
        if (!f->results[i]) return false;
    return f->nresults == (f->gathers ? f->nproducts + 1 : 1);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void begin_node(fx_writer *w, const name *n, const char *target) {
    w->line.nbytes = 0;
    buffer_text(&w->line, "{\"name\":");
    fx_put_name(&w->line, n);
    buffer_format(&w->line, ",\"op\":\"call\",\"target\":\"%s\",\"args\":[", target);
}

static weft_status end_node(fx_writer *w) {
    buffer_text(&w->line, "}");
    TRY(buffer_status(&w->line));
    fx_put_entry(&w->nodes, &w->line);
    return NULL;
}

static void put_group(fx_writer *w, const fused *f) {
    const ring *r = program_find_ring(w->program, weft_op_attr_int(f->collective, "ring_id", 0));
    buffer_format(&w->line, "%" PRId64 ",", weft_op_attr_int(f->first, "micro_pipeline_dim", 0));
    fx_put_name(&w->line, w->groups[r - w->program->rings]);
}

/* What the operand was before a matrix was made of it. */
static weft_var *left_operand(const fused *f) {
    weft_var *x = weft_op_input(f->products[0], "X", 0);
    for (const weft_op *op = f->first; op != f->products[0]; op = op->next)
        if (value_of(op) == x && op_nargs(op, false) == 1) return use_var(op->program, op_args(op, false));
    return x;
}

static weft_status put_types(fx_writer *w, const fused *f, bool as_dtype) {
    for (size_t i = 0; i < f->nresults; i++) {
        buffer_text(&w->line, i == 0 ? "[" : i == 1 ? ",[" : ",");
        if (!f->results[i])
            buffer_text(&w->line, "null");
        else if (as_dtype)
            fx_put_dtype(&w->line, f->results[i]);
        else
            TRY(fx_put_shape(&w->line, w->program, f->results[i]));
    }
    buffer_text(&w->line, "]]");
    return NULL;
}

static weft_status put_getitem(fx_writer *w, const name *own, const name *of, size_t index) {
    begin_node(w, own, "getitem");
    buffer_text(&w->line, "{\"ref\":");
    fx_put_name(&w->line, of);
    buffer_format(&w->line, "},%zu],\"kwargs\":{},\"shape\":", index);
    return NULL;
}

static weft_status put_result(fx_writer *w, weft_var *v, const name *of, size_t index) {
    const name *n;
    TRY(fx_take_name(w, v->name->bytes, v->name->nbytes, true, &n));
    TRY(put_getitem(w, n, of, index));
    TRY(fx_put_shape(&w->line, w->program, v));
    buffer_text(&w->line, ",\"dtype\":");
    fx_put_dtype(&w->line, v);
    w->current[v->id] = (fx_current){.name = n};
    return end_node(w);
}

static weft_status put_products(fx_writer *w, const fused *f, const name *node) {
    static const char stem[] = "fused_all_gather_matmul_products";
    const name *n;
    TRY(fx_take_name(w, stem, sizeof stem - 1, true, &n));
    TRY(put_getitem(w, n, node, 1));
    for (int as_dtype = 0; as_dtype < 2; as_dtype++) {
        buffer_text(&w->line, as_dtype ? ",\"dtype\":" : "");
        for (size_t i = 1; i < f->nresults; i++) {
            buffer_text(&w->line, i == 1 ? "[" : ",");
            if (as_dtype)
                fx_put_dtype(&w->line, f->results[i]);
            else
                TRY(fx_put_shape(&w->line, w->program, f->results[i]));
        }
        buffer_text(&w->line, "]");
    }
    TRY(end_node(w));
    for (size_t i = 1; i < f->nresults; i++) TRY(put_result(w, f->results[i], n, i - 1));
    return NULL;
}

static weft_status put_gather(fx_writer *w, const fused *f) {
    static const char stem[] = "fused_all_gather_matmul";
    const name *n;
    TRY(fx_take_name(w, stem, sizeof stem - 1, true, &n));
    begin_node(w, n, "symm_mem.fused_all_gather_matmul.default");
    TRY(fx_put_ref(w, &w->line, f->collective, use_var(w->program, op_args(f->collective, false))));
    for (size_t i = 0; i < f->nproducts; i++) {
        buffer_text(&w->line, i ? "," : ",[");
        TRY(fx_put_ref(w, &w->line, f->products[i], weft_op_input(f->products[i], "Y", 0)));
    }
    buffer_text(&w->line, "],");
    put_group(w, f);
    buffer_text(&w->line, f->results[0] ? "],\"kwargs\":{}" : "],\"kwargs\":{\"return_A\":false}");
    buffer_text(&w->line, ",\"shape\":");
    TRY(put_types(w, f, false));
    buffer_text(&w->line, ",\"dtype\":");
    TRY(put_types(w, f, true));
    TRY(end_node(w));
    if (f->results[0]) TRY(put_result(w, f->results[0], n, 0));
    return put_products(w, f, n);
}

static weft_status put_scatter(fx_writer *w, const fused *f) {
    weft_var *v = f->results[0];
    const char *reduce = fx_reduce_name(weft_op_attr_int(f->collective, "reduce_type", 0));
    const name *n;
    TRY(fx_take_name(w, v->name->bytes, v->name->nbytes, true, &n));
    begin_node(w, n, "symm_mem.fused_matmul_reduce_scatter.default");
    TRY(fx_put_ref(w, &w->line, f->products[0], left_operand(f)));
    buffer_text(&w->line, ",");
    TRY(fx_put_ref(w, &w->line, f->products[0], weft_op_input(f->products[0], "Y", 0)));
    buffer_format(&w->line, ",\"%s\",", reduce ? reduce : "sum");
    put_group(w, f);
    buffer_text(&w->line, "],\"kwargs\":{},\"shape\":");
    TRY(fx_put_shape(&w->line, w->program, v));
    buffer_text(&w->line, ",\"dtype\":");
    fx_put_dtype(&w->line, v);
    TRY(end_node(w));
    w->current[v->id] = (fx_current){.name = n};
    return NULL;
}

weft_status fx_write_fused(fx_writer *w, const weft_op *op, const weft_op **out_last) {
    fused f;
    *out_last = NULL;
    if (!op_find_attr(op, "micro_pipeline_nops") || !find(op, &f)) return NULL;
    if (!program_find_ring(w->program, weft_op_attr_int(f.collective, "ring_id", 0))) return NULL;
    *out_last = f.last;
    return f.gathers ? put_gather(w, &f) : put_scatter(w, &f);
}
