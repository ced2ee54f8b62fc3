/* claims_before.c: what must be known of claims before the programs are followed. */
#include <math.h>

#include "proof/certificate/certificate.h"

static weft_status bad_claim(cert_checker *c, const cert_claim *claim, const char *why) {
    return cert_refuse(c, "pass %s: %s", c->doc.passes[claim->pass].name, why);
}

static const weft_var *var_before(const cert_checker *c, const char *name_bytes) {
    return block_find_text(c->before.p->blocks[0], name_bytes, strlen(name_bytes));
}

static weft_status prepare_ranks(cert_checker *c, const cert_claim *claim) {
    if (c->ranks) return bad_claim(c, claim, "a program is made one of several ranks' twice");
    const ring *r = program_find_ring(c->after.p, claim->ring);
    bool is_ring = r && claim->count >= 1 && r->nranks == claim->count;
    for (int i = 0; is_ring && i < r->nranks; i++) is_ring = r->ranks[i] == i;
    if (!is_ring)
        return cert_refuse(c, "ring %lld is not said to be the ranks 0 to %lld", (long long)claim->ring,
                           (long long)claim->count - 1);
    if (strcmp(claim->text, "mean") != 0 && strcmp(claim->text, "sum") != 0)
        return bad_claim(c, claim, "losses are neither averaged nor summed");
    c->ranks = claim;
    return NULL;
}

/* A feed that is split has a part of the rows after. */
static weft_status prepare_feed(cert_checker *c, const cert_claim *claim) {
    const weft_var *v = var_before(c, claim->var);
    const weft_var *now = block_find_text(c->after.p->blocks[0], claim->var, strlen(claim->var));
    bool rows = strcmp(claim->text, "rows") == 0;
    if (!v || !now || v->persistable || !c->ranks)
        return cert_refuse(c, "\"%s\" is claimed to be fed, but is no feed", claim->var);
    bool fits = v->ndim == now->ndim;
    for (size_t i = 0; fits && i < v->ndim; i++) {
        int64_t part = now->dims[i];
        if (rows && i == 0 && part >= 0 && __builtin_mul_overflow(part, c->ranks->count, &part)) fits = false;
        fits = fits && part == v->dims[i];
    }
    if (!fits || (rows && v->ndim == 0))
        return cert_refuse(c, "feed \"%s\" is claimed to be %s, which its shape is not", claim->var,
                           rows ? "split by rows" : "whole on every rank");
    c->is_feed[v->id] = true;
    c->is_split_feed[v->id] = rows;
    c->bases[v->id].varies = rows;
    return NULL;
}

/* What data_norm adds to its sums: counts of a rank's rows, however losses combine. */
static bool counts_rows(const weft_op *op, const char *var) {
    static const char *const slots[] = {"BatchSize@GRAD", "BatchSum@GRAD", "BatchSquareSum@GRAD"};
    for (size_t i = 0; op_is(op, "data_norm_grad") && i < sizeof slots / sizeof *slots; i++) {
        const weft_var *out = weft_op_output(op, slots[i], 0);
        if (out && strcmp(out->name->bytes, var) == 0) return weft_op_attr_int(op, "slot_dim", -1) < 1;
    }
    return false;
}

static weft_status prepare_reduce(cert_checker *c, const cert_claim *claim) {
    const weft_var *v = var_before(c, claim->var);
    if (!c->ranks) return bad_claim(c, claim, "values of ranks are joined, but no claim says which ranks there are");
    if (!v || claim->other < 0 || (uint64_t)claim->other >= c->nold || !cert_is_number(c, claim->op) ||
        !cert_is_join_type(cert_type_of(c, claim->op)) || c->inserted_by[claim->op] != claim->pass)
        return cert_refuse(c, "the reduce of \"%s\" is not one that pass %s inserted", claim->var,
                           c->doc.passes[claim->pass].name);
    bool mean = strcmp(c->ranks->text, "mean") == 0 && !counts_rows(c->old_ops[claim->other], claim->var);
    double factor = mean ? 1.0 / (double)c->ranks->count : 1.0;
    if (cert_snap(claim->factor) != cert_snap(factor))
        return cert_refuse(c, "the ranks' \"%s\" are claimed to be joined times %g: expected %g", claim->var,
                           claim->factor, factor);
    if (cert_is_weighed(c, claim) == (c->weight && mean)) return NULL;
    return cert_refuse(c, "the ranks' \"%s\" are claimed to be joined %s the weight of their rows", claim->var,
                       mean ? "without" : "with");
}

static weft_status prepare_seed(cert_checker *c, const cert_claim *claim) {
    const weft_op *op = claim->op >= 0 && (uint64_t)claim->op < c->nold ? c->old_ops[claim->op] : NULL;
    const weft_var *out = op && op_is(op, "fill_constant") ? weft_op_output(op, "Out", 0) : NULL;
    if (!out || strcmp(out->name->bytes, claim->var) != 0 || !isfinite(claim->factor) || claim->factor == 0)
        return cert_refuse(c, "op %lld is claimed to be the seed \"%s\", which it is not", (long long)claim->op,
                           claim->var);
    double *product = &c->seed[claim->op];
    *product = cert_snap((*product != 0 ? *product : 1) * claim->factor);
    return NULL;
}

static weft_status prepare_dense(cert_checker *c, const cert_claim *claim) {
    static const char *const types[] = {"lookup_table", "lookup_table_grad", "lookup_table_v2", "lookup_table_v2_grad"};
    bool is_lookup = false, may_be = claim->op >= 0 && (uint64_t)claim->op < c->nold && c->ranks;
    for (size_t i = 0; may_be && i < sizeof types / sizeof *types; i++)
        is_lookup = is_lookup || strcmp(cert_type_of(c, claim->op), types[i]) == 0;
    if (!is_lookup) return bad_claim(c, claim, "an op that is no look-up is claimed to make dense gradients now");
    c->dense[claim->op] = true;
    return NULL;
}

static const weft_attr *shape_of_fill(const weft_op *op) {
    const weft_attr *dims = op && op_is(op, "fill_constant") && !op_nargs(op, false) ? op_find_attr(op, "shape") : NULL;
    bool is_list = dims && (dims->type == ATTR_LONGS || dims->type == ATTR_INTS) && dims->count;
    return is_list ? dims : NULL;
}

/* One number for each of a rank's rows, where it was for each of the batch: its part. */
static weft_status prepare_fill(cert_checker *c, const cert_claim *claim) {
    bool is_old = claim->op >= 0 && (uint64_t)claim->op < c->nold && c->ranks;
    uint32_t at = is_old ? c->new_position[claim->op] : CERT_NONE;
    const weft_attr *was = is_old ? shape_of_fill(c->old_ops[claim->op]) : NULL;
    const weft_attr *is = at != CERT_NONE ? shape_of_fill(c->new_ops[at]) : NULL;
    const weft_var *out = was ? weft_op_output(c->old_ops[claim->op], "Out", 0) : NULL;
    int64_t rows;
    bool fits = is && out && strcmp(out->name->bytes, claim->var) == 0 && was->type == is->type &&
                was->count == is->count && (weft_op_role(c->old_ops[claim->op]) & WEFT_ROLE_BACKWARD) == 0;
    size_t d = 0;
    while (fits && d < was->count && was->u.ints[d] == is->u.ints[d]) d++;
    fits = fits && d < was->count && !__builtin_mul_overflow(is->u.ints[d], c->ranks->count, &rows) &&
           rows == was->u.ints[d];
    for (size_t i = d + 1; fits && i < was->count; i++) fits = was->u.ints[i] == is->u.ints[i];
    if (!fits)
        return cert_refuse(c, "\"%s\" is claimed to be filled in for a rank's rows, which it is not", claim->var);
    c->of_rows[claim->op] = (uint8_t)(1 + (d > 0));
    return NULL;
}

/* Of ops that earlier passes inserted, only all-reduces are followed. */
static weft_status prepare_same(cert_checker *c, const cert_claim *claim) {
    if (!cert_is_number(c, claim->op) || !cert_is_number(c, claim->other) || c->removed_by[claim->op] != claim->pass)
        return bad_claim(c, claim, "an op is claimed to give what another gives, and was not removed");
    bool are_old = (size_t)claim->op < c->nold && (size_t)claim->other < c->nold;
    if (are_old && claim->other < claim->op) {
        c->same_as[claim->op] = (uint32_t)claim->other;
        return NULL;
    }
    if (!are_old && cert_is_join_type(cert_type_of(c, claim->op)) && cert_is_join_type(cert_type_of(c, claim->other)))
        return NULL;
    if (cert_is_gather_type(cert_type_of(c, claim->op)) && cert_is_gather_type(cert_type_of(c, claim->other)))
        return NULL;
    return bad_claim(c, claim, "an op is claimed to give what no op before it gives");
}

weft_status cert_prepare_claims(cert_checker *c) {
    TRY(cert_number_ops(c));
    for (size_t i = 0; i < c->doc.nclaims && !c->message; i++) {
        const cert_claim *claim = &c->doc.claims[i];
        switch (claim->kind) {
        case CERT_RANKS: TRY(prepare_ranks(c, claim)); break;
        case CERT_FEED: TRY(prepare_feed(c, claim)); break;
        case CERT_REDUCE: TRY(prepare_reduce(c, claim)); break;
        case CERT_SEED: TRY(prepare_seed(c, claim)); break;
        case CERT_DENSE: TRY(prepare_dense(c, claim)); break;
        case CERT_SAME: TRY(prepare_same(c, claim)); break;
        case CERT_FILL: TRY(prepare_fill(c, claim)); break;
        case CERT_GATHER: TRY(cert_prepare_gather(c, i)); break;
        case CERT_WEIGHT: TRY(cert_prepare_weight(c, claim)); break;
        case CERT_WEIGH: TRY(cert_prepare_weigh(c, claim)); break;
        default: break;
        }
    }
    return NULL;
}
