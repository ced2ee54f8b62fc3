/* gathers.c: ops that get the rows of all ranks where the program before gives them those of the batch.
 *
 * In the program before, each claim puts a join before the op: slot `text` of it reads what all ranks have of `var`, one
 * after another, times `factor`. After, an inserted op must make just that value. A look-up's backward op gets ids and
 * outer gradients so: pairs of all ranks. Its gradients count as ranks' losses combine, so theirs is the factor of a mean;
 * everything else is taken as it is. Where all ranks look up the same ids, outer gradients are added up instead. That
 * a rank has neighbouring rows of the batch is derived in losses.c. */
#include "proof/certificate/certificate.h"

static const char ids_slot[] = "Ids", grad_slot[] = "Out@GRAD";

static bool is_number(const cert_checker *c, int64_t number) {
    return number >= 0 && (uint64_t)number < c->nnumbers;
}

static bool is_lookup_gradient(const weft_op *op) {
    return op_is(op, "lookup_table_v2_grad") || op_is(op, "lookup_table_grad");
}

/* Whether `claim` is of the outer gradients of a look-up. */
static bool is_of_gradients(const cert_checker *c, const cert_claim *claim) {
    return is_lookup_gradient(c->old_ops[claim->other]) && strcmp(claim->text, grad_slot) == 0;
}

bool cert_gathers(const cert_checker *c, const cert_claim *claim) {
    return cert_is_gather_type(c->inserted_type[claim->op]);
}

static const weft_var *read_in(const weft_op *op, const char *slot_text) {
    const slot *s = op_find_slot(op, false, slot_text);
    return s && s->nargs == 1 ? slot_var(op, s, 0) : NULL;
}

const weft_var *cert_rows_of_gather(const cert_checker *c, const cert_claim *claim) {
    return read_in(c->old_ops[claim->other], is_of_gradients(c, claim) ? ids_slot : claim->text);
}

/* --- what is claimed ---------------------------------------------------------------------------------------------- */

/* An op that pass `claim->pass` inserted, which gathers; or adds up, which only gradients of one row for all do. */
static bool is_inserted(const cert_checker *c, const cert_claim *claim) {
    if (!is_number(c, claim->op) || (size_t)claim->op < c->nold || c->inserted_by[claim->op] != claim->pass) return false;
    const char *type = c->inserted_type[claim->op];
    return cert_is_gather_type(type) || (is_of_gradients(c, claim) && cert_rule_of_type(type) == CERT_JOIN);
}

static bool is_old_input(const cert_checker *c, const cert_claim *claim) {
    bool is_old = claim->other >= 0 && (uint64_t)claim->other < c->nold;
    const weft_var *v = is_old ? read_in(c->old_ops[claim->other], claim->text) : NULL;
    return v && v->block && v->block->idx == 0 && strcmp(v->name->bytes, claim->var) == 0;
}

/* Outer gradients of any other op are those of no row. */
static double expected_factor(const cert_checker *c, const cert_claim *claim) {
    bool mean = strcmp(c->ranks->text, "mean") == 0;
    return is_of_gradients(c, claim) && mean ? 1.0 / (double)c->ranks->count : 1.0;
}

weft_status cert_prepare_gather(cert_checker *c, size_t index) {
    const cert_claim *claim = &c->doc.claims[index];
    const char *pass = c->doc.passes[claim->pass].name;
    if (!c->ranks) return cert_refuse(c, "pass %s: rows are gathered, but no claim says which ranks there are", pass);
    if (!is_old_input(c, claim) || !is_inserted(c, claim) || !cert_rows_of_gather(c, claim))
        return cert_refuse(c, "the rows \"%s\" of all ranks are claimed to come from an op that pass %s did not insert",
                           claim->var, pass);
    bool other_gradient = strstr(claim->text, "@GRAD") && !is_of_gradients(c, claim);
    if (other_gradient || cert_snap(claim->factor) != cert_snap(expected_factor(c, claim)))
        return cert_refuse(c, "the rows \"%s\" of all ranks are claimed to count %g times in slot \"%s\"%s", claim->var,
                           claim->factor, claim->text, other_gradient ? " of an op that is no look-up" : "");
    c->gather_of[claim->op] = index + 1;
    c->next_gather[index] = c->first_gather[claim->other];
    c->first_gather[claim->other] = index + 1;
    return NULL;
}

/* --- both programs ------------------------------------------------------------------------------------------------ */

weft_status cert_apply_gathers(cert_checker *c, const weft_op *op, uint32_t k, cert_value *inputs) {
    for (size_t i = c->first_gather[k]; i; i = c->next_gather[i - 1]) {
        const cert_claim *claim = &c->doc.claims[i - 1];
        const slot *s = op_find_slot(op, false, claim->text);
        cert_value *value = &inputs[slot_args(op, s) - op_args(op, false)];
        int how = cert_gathers(c, claim) ? CERT_ROWS_OF_ALL : WEFT_REDUCE_SUM;
        TRY(cert_join_value(c, *value, c->ranks->ring, how, claim->factor, value));
    }
    return NULL;
}

weft_status cert_follow_gather(cert_checker *c, weft_op *op, uint32_t at) {
    const slot *x = cert_x(op), *out = cert_out(op);
    bool fits = x && out && x->nargs == 1 && out->nargs == 1 && slot_var(op, x, 0) != slot_var(op, out, 0) &&
                cert_ring_of(op) == c->ranks->ring && weft_op_attr_int(op, "nranks", 0) == c->ranks->count &&
                !weft_op_attr_bool(op, "async_op", false) && !cert_runs_block(op);
    if (!fits) return cert_refuse(c, "%s does not gather what all ranks have", cert_op_text(c, op, at));
    weft_var *from = slot_var(op, x, 0), *to = slot_var(op, out, 0);
    cert_value *value = ARENA_NEW(c->arena, cert_value), joined;
    if (!value) return base_out_of_memory();
    cert_touch(&c->after, from);
    cert_touch(&c->after, to);
    TRY(cert_read_var(&c->after, from, value));
    c->new_inputs[at] = value;
    TRY(cert_join_value(c, *value, c->ranks->ring, CERT_ROWS_OF_ALL, 1, &joined));
    return cert_write_var(&c->after, to, joined, CERT_NONE);
}

/* What is the same on all ranks would be there several times. */
weft_status cert_check_gather(cert_checker *c, const cert_claim *claim) {
    uint32_t at = c->new_position[claim->op];
    if (at == CERT_NONE) return NULL; /* a later pass removed it: values tell */
    const cert_value *value = c->new_inputs[at];
    bool is_own = value && value->count == 1 && !value->parts->chain && c->bases[value->parts->base].varies;
    if (is_own) return NULL;
    return cert_refuse(c, "%s gathers \"%s\", which is no rank's own", cert_op_text(c, c->new_ops[at], at), claim->var);
}
