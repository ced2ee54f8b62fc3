/* claims.c: claims against the two programs: each must hold, and what changed must be claimed.
 *
 * Ops have numbers that last over passes, so a claim of an early pass may be about an op that a later one removed: then
 * only that removal is asked for. */
#include "proof/certificate/certificate.h"

/* The op after of that number, NULL if it is no more. */
static weft_op *op_after(const cert_checker *c, int64_t number) {
    uint32_t at = cert_is_number(c, number) ? c->new_position[number] : CERT_NONE;
    return at == CERT_NONE ? NULL : c->new_ops[at];
}

static bool is_scale_type(const char *type) {
    return cert_rule_of_type(type) == CERT_SCALE;
}

/* --- claims of what is there -------------------------------------------------------------------------------------- */

/* An op that a claim speaks of is there, or a later pass removed it. Sets *out_op to NULL for the second. */
static weft_status claimed_op(cert_checker *c, const cert_claim *claim, int64_t number, weft_op **out_op) {
    *out_op = op_after(c, number);
    if (*out_op) return NULL;
    bool later = cert_is_number(c, number) && c->removed_by[number] != CERT_NONE && c->removed_by[number] > claim->pass;
    return later ? NULL
                 : cert_refuse(c, "pass %s speaks of op %lld, which it did not leave in the program",
                               c->doc.passes[claim->pass].name, (long long)number);
}

/* Both pass over what is not the op's: no claims of two passes are mixed. */
typedef struct group {
    const cert_claim *claims; /* count of them, one after another, of one kind and op */
    size_t count;
} group;

static group group_at(const cert_checker *c, size_t first) {
    group g = {&c->doc.claims[first], 1};
    while (first + g.count < c->doc.nclaims && g.claims[g.count].kind == g.claims->kind &&
           g.claims[g.count].op == g.claims->op && g.claims[g.count].pass == g.claims->pass)
        g.count++;
    return g;
}

static weft_status check_slices(cert_checker *c, group g, bool *sliced) {
    weft_op *op;
    TRY(claimed_op(c, g.claims, g.claims->op, &op));
    if (!op || c->message) return NULL;
    const slot *out = op_is(op, "coalesce_tensor") ? op_find_slot(op, true, "Output") : NULL;
    const weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    uint32_t at = c->new_position[g.claims->op];
    if (!out || !fused || out->nargs != g.count)
        return cert_refuse(c, "%s: %zu slices are claimed, it makes %zu", cert_op_text(c, op, at), g.count,
                           (size_t)(out ? out->nargs : 0));
    cert_cursor cursor = {.at = 0};
    for (size_t i = 0; i < g.count; i++) {
        const cert_claim *claim = &g.claims[i];
        int64_t offset, nbytes;
        if (strcmp(claim->buffer, fused->name->bytes) != 0 ||
            strcmp(claim->var, slot_var(op, out, i)->name->bytes) != 0)
            return cert_refuse(c, "%s: claimed slice %zu is \"%s\" in \"%s\", found \"%s\" in \"%s\"",
                               cert_op_text(c, op, at), i, claim->var, claim->buffer, slot_var(op, out, i)->name->bytes,
                               fused->name->bytes);
        if (!cert_slice(op, &cursor, &offset, &nbytes) || offset != claim->offset || nbytes != claim->nbytes)
            return cert_refuse(c, "%s: \"%s\" is claimed to be bytes %lld to %lld of \"%s\", found %lld to %lld",
                               cert_op_text(c, op, at), claim->var, (long long)claim->offset,
                               (long long)(claim->offset + claim->nbytes), claim->buffer, (long long)offset,
                               (long long)(offset + nbytes));
    }
    sliced[at] = true;
    return NULL;
}

/* What the merged reduce of `op` joins, argument by argument: the members of its buffer or its own. */
static size_t merged_count(const cert_checker *c, const weft_op *op, const cert_bucket **out_bucket) {
    const slot *x = cert_x(op);
    const weft_var *v = x && x->nargs ? slot_var(op, x, 0) : NULL;
    *out_bucket = v ? c->after.bucket[c->after.name_of[v->id]] : NULL;
    return *out_bucket ? (*out_bucket)->count : x ? x->nargs : 0;
}

static const char *merged_name(const weft_op *op, const cert_bucket *b, size_t i) {
    if (b && !b->members[i]) return "";
    return b ? b->members[i]->name->bytes : slot_var(op, cert_out(op), i)->name->bytes;
}

static cert_value merged_value(const cert_checker *c, uint32_t at, const cert_bucket *b, size_t i) {
    const cert_value *in = c->new_inputs[at];
    if (!b) return in[i];
    return i < in[0].count ? (cert_value){&in[0].parts[i], 1} : (cert_value){NULL, 0};
}

/* The value that the member's own reduce joined; count 0: not known (it was inserted, and its reduce claimed not). */
static cert_value member_value(const cert_checker *c, const cert_claim *claim, size_t index) {
    cert_value none = {NULL, 0};
    if ((size_t)claim->other >= c->nold) return c->joined[claim->other];
    const slot *x = cert_x(c->old_ops[claim->other]);
    return x && index < x->nargs && c->old_inputs[claim->other] ? c->old_inputs[claim->other][index] : none;
}

static bool same_origin(cert_value a, cert_value b) {
    return a.count == 1 && b.count == 1 && a.parts->base == b.parts->base;
}

static weft_status check_member(cert_checker *c, const cert_claim *claim, size_t index, const weft_op *op,
                                const cert_bucket *b, size_t i) {
    uint32_t at = c->new_position[claim->op];
    if (!cert_is_number(c, claim->other) || !cert_is_join_type(cert_type_of(c, claim->other)))
        return cert_refuse(c, "%s: \"%s\" is claimed to come from op %lld, which is no all-reduce",
                           cert_op_text(c, op, at), claim->var, (long long)claim->other);
    if (strcmp(claim->to, merged_name(op, b, i)) != 0)
        return cert_refuse(c, "%s: member %zu is claimed to be \"%s\", found \"%s\"", cert_op_text(c, op, at), i,
                           claim->to, merged_name(op, b, i));
    cert_value was = member_value(c, claim, index), is = merged_value(c, at, b, i);
    if (was.count == 1 && !same_origin(was, is))
        return cert_refuse(c, "%s: member \"%s\" is claimed to be what op %lld reduced, %s; found %s",
                           cert_op_text(c, op, at), claim->to, (long long)claim->other, cert_value_text(c, was),
                           cert_value_text(c, is));
    if (was.count == 1 && (size_t)claim->other < c->nold && cert_ring_of(c->old_ops[claim->other]) != cert_ring_of(op))
        return cert_refuse(c, "%s: member \"%s\" was reduced over ring %lld, here over ring %lld",
                           cert_op_text(c, op, at), claim->to, (long long)cert_ring_of(c->old_ops[claim->other]),
                           (long long)cert_ring_of(op));
    return NULL;
}

static weft_status check_members(cert_checker *c, group g, bool *merged) {
    weft_op *op;
    const cert_bucket *b;
    TRY(claimed_op(c, g.claims, g.claims->op, &op));
    if (!op || c->message) return NULL;
    uint32_t at = c->new_position[g.claims->op];
    if (cert_rule_of(op) != CERT_JOIN)
        return cert_refuse(c, "%s is claimed to be an all-reduce of several", cert_op_text(c, op, at));
    size_t count = merged_count(c, op, &b);
    if (count != g.count)
        return cert_refuse(c, "%s reduces %zu values, %zu are claimed", cert_op_text(c, op, at), count, g.count);
    for (size_t i = 0, index = 0; i < g.count && !c->message; i++) {
        index = i && g.claims[i].other == g.claims[i - 1].other ? index + 1 : 0;
        TRY(check_member(c, &g.claims[i], index, op, b, i));
    }
    merged[at] = true;
    return NULL;
}

/* --- factors ------------------------------------------------------------------------------------------------------ */

static double factor_before(const cert_checker *c, int64_t number) {
    return (size_t)number < c->nold && cert_rule_of(c->old_ops[number]) == CERT_SCALE
               ? cert_scale_of(c->old_ops[number])
               : 0;
}

static bool has_seed_claim(const cert_checker *c, const cert_claim *claim) {
    if (claim->other < 0 || (uint64_t)claim->other >= c->nold) return false;
    return c->seed[claim->other] != 0;
}

static weft_status check_factor(cert_checker *c, const cert_claim *claim) {
    bool to_seed = strcmp(claim->text, "seed") == 0;
    bool gone = cert_is_number(c, claim->op) && c->removed_by[claim->op] == claim->pass;
    if (!gone && (to_seed || claim->op != claim->other))
        return cert_refuse(c, "factor %g of \"%s\": pass %s did not remove op %lld", claim->factor, claim->var,
                           c->doc.passes[claim->pass].name, (long long)claim->op);
    if (!is_scale_type(cert_type_of(c, claim->op)))
        return cert_refuse(c, "factor %g of \"%s\" is claimed to be op %lld's, which is no scale", claim->factor,
                           claim->var, (long long)claim->op);
    double was = factor_before(c, claim->op);
    if (was == 0 && c->ranks && strcmp(c->ranks->text, "mean") == 0) was = 1.0 / (double)c->ranks->count;
    if (was != 0 && cert_snap(was) != cert_snap(claim->factor))
        return cert_refuse(c, "the factor of \"%s\" is claimed to be %g, found %g", claim->var, claim->factor, was);
    if (to_seed && !has_seed_claim(c, claim))
        return cert_refuse(c, "factor %g of \"%s\" is claimed to go to op %lld, which is no seed with a factor",
                           claim->factor, claim->var, (long long)claim->other);
    return NULL;
}

/* Of a bucket's members each gives the bucket's scale the product of its own. */
static weft_status check_bucket_factor(cert_checker *c, size_t first, size_t count) {
    const cert_claim *claims = &c->doc.claims[first];
    double product = 1;
    weft_op *scale;
    for (size_t i = 0; i < count; i++) product *= claims[i].factor;
    TRY(claimed_op(c, claims, claims->other, &scale));
    if (!scale || c->message) return NULL;
    if (cert_rule_of(scale) == CERT_SCALE && cert_snap(cert_scale_of(scale)) == cert_snap(product)) return NULL;
    return cert_refuse(c, "%s: \"%s\" gives it the factor %g, found %g",
                       cert_op_text(c, scale, c->new_position[claims->other]), claims->var, product,
                       cert_scale_of(scale));
}

static size_t same_member(const cert_checker *c, size_t first) {
    const cert_claim *a = &c->doc.claims[first];
    size_t count = 1;
    while (first + count < c->doc.nclaims && a[count].kind == CERT_FACTOR && a[count].other == a->other &&
           a[count].pass == a->pass && strcmp(a[count].var, a->var) == 0)
        count++;
    return count;
}

static weft_status check_factors(cert_checker *c, size_t first, size_t count, bool *accounted, size_t *nmembers) {
    for (size_t i = first; i < first + count && !c->message; i++) {
        TRY(check_factor(c, &c->doc.claims[i]));
        if (cert_is_number(c, c->doc.claims[i].op)) accounted[c->doc.claims[i].op] = true;
    }
    if (c->message || strcmp(c->doc.claims[first].text, "bucket") != 0) return NULL;
    if (cert_is_number(c, c->doc.claims[first].other)) nmembers[c->doc.claims[first].other]++;
    return check_bucket_factor(c, first, count);
}

/* --- streams and waits -------------------------------------------------------------------------------------------- */

static weft_status check_stream(cert_checker *c, const cert_claim *claim, bool *streamed) {
    weft_op *op;
    TRY(claimed_op(c, claim, claim->op, &op));
    if (!op || c->message) return NULL;
    uint32_t at = c->new_position[claim->op];
    streamed[at] = true;
    if (strcmp(weft_op_stream(op), claim->text) == 0) return NULL;
    return cert_refuse(c, "%s is claimed to be on stream \"%s\", found \"%s\"", cert_op_text(c, op, at), claim->text,
                       weft_op_stream(op));
}

static weft_status check_wait(cert_checker *c, const cert_claim *claim, bool *waits) {
    weft_op *op;
    TRY(claimed_op(c, claim, claim->op, &op));
    if (!op || c->message) return NULL;
    uint32_t at = c->new_position[claim->op], of = c->wait_of[at];
    waits[at] = true;
    bool later = cert_is_number(c, claim->other) && c->removed_by[claim->other] != CERT_NONE &&
                 c->removed_by[claim->other] > claim->pass;
    if (op_is(op, "wait_tensor") && of != CERT_NONE && (later || op_after(c, claim->other) == c->new_ops[of]))
        return NULL;
    return cert_refuse(c, "%s is claimed to wait for what op %lld left pending", cert_op_text(c, op, at),
                       (long long)claim->other);
}

/* An op that gave what another gives; whether an all-reduce did, the walk over the program after has shown. */
static weft_status check_same(cert_checker *c, const cert_claim *claim, bool *accounted) {
    accounted[claim->op] = true;
    uint32_t other = (size_t)claim->op < c->nold ? c->same_as[claim->op] : CERT_NONE;
    if (other == CERT_NONE || cert_gives_same(c, (uint32_t)claim->op, other)) return NULL;
    return cert_refuse(c, "%s is claimed to give what op %u gives, which it does not",
                       cert_op_text(c, c->old_ops[claim->op], (uint32_t)claim->op), other);
}

/* --- what changed must be claimed --------------------------------------------------------------------------------- */

typedef struct covered {
    bool *merged, *sliced, *streamed, *waits; /* by position after */
    bool *accounted;                          /* by number: its factor, or its reduce */
    size_t *nmembers;                         /* by number: of how many values it takes the factors */
} covered;

static weft_status check_removed(cert_checker *c, const covered *has) {
    for (size_t n = 0; n < c->nnumbers && !c->message; n++) {
        if (c->removed_by[n] == CERT_NONE || has->accounted[n]) continue;
        const char *type = cert_type_of(c, (int64_t)n);
        if (is_scale_type(type) || cert_is_join_type(type))
            TRY(cert_refuse(c, "pass %s removed the %s of number %zu, and no claim says where it went",
                            c->doc.passes[c->removed_by[n]].name, type, n));
    }
    return NULL;
}

/* The scale of a bucket takes a factor from each of its members; a bucket that was there before needs no claim. */
static bool lacks_factors(const cert_checker *c, const covered *has, const weft_op *op, int64_t number) {
    const weft_var *x = slot_var(op, cert_x(op), 0);
    const cert_bucket *b = c->after.bucket[c->after.name_of[x->id]];
    if (!b || b->count == has->nmembers[number]) return false;
    const slot *old = (size_t)number < c->nold ? cert_x(c->old_ops[number]) : NULL;
    return !old || !c->before.bucket[c->before.name_of[slot_args(c->old_ops[number], old)[0].var_id]];
}

/* How many values a collective joined before; 0: it was not there. */
static size_t joined_before(const cert_checker *c, int64_t number) {
    if ((size_t)number >= c->nold || !c->old_inputs[number]) return 0;
    const slot *x = cert_x(c->old_ops[number]);
    return x && x->nargs == 1 ? c->old_inputs[number][0].count : x ? x->nargs : 0;
}

static weft_status check_op_claimed(cert_checker *c, const covered *has, uint32_t at) {
    const weft_op *op = c->new_ops[at];
    int64_t n = c->doc.order.items[at];
    bool is_new = (size_t)n >= c->nold;
    const cert_bucket *b;
    const char *stream_before = is_new ? "" : weft_op_stream(c->old_ops[n]), *what = NULL;
    if (cert_rule_of(op) == CERT_JOIN) {
        size_t count = merged_count(c, op, &b);
        if (count > 1 && count != joined_before(c, n) && !has->merged[at]) what = "reduces several values together";
    }
    if (cert_rule_of(op) == CERT_SCALE && lacks_factors(c, has, op, n))
        what = "takes the factors of a bucket's members";
    if (op_is(op, "coalesce_tensor") && is_new && !has->sliced[at]) what = "makes a bucket";
    if (op_is(op, "wait_tensor") && is_new && !has->waits[at]) what = "waits";
    if (!op_is(op, "nop") && strcmp(weft_op_stream(op), stream_before) != 0 && !is_new && !has->streamed[at])
        what = "is on another stream";
    return what ? cert_refuse(c, "%s %s, and no claim says so", cert_op_text(c, op, at), what) : NULL;
}

static weft_status check_covered(cert_checker *c, const covered *has) {
    TRY(check_removed(c, has));
    for (uint32_t at = 0; at < c->nnew && !c->message; at++) TRY(check_op_claimed(c, has, at));
    return NULL;
}

static weft_status check_claim(cert_checker *c, size_t i, covered *has, size_t *out_count) {
    const cert_claim *claim = &c->doc.claims[i];
    group g = group_at(c, i);
    *out_count = 1;
    switch (claim->kind) {
    case CERT_SLICE: *out_count = g.count; return check_slices(c, g, has->sliced);
    case CERT_MEMBER:
        *out_count = g.count;
        for (size_t k = 0; k < g.count; k++)
            if (cert_is_number(c, g.claims[k].other)) has->accounted[g.claims[k].other] = true;
        return check_members(c, g, has->merged);
    case CERT_FACTOR:
        *out_count = same_member(c, i);
        return check_factors(c, i, *out_count, has->accounted, has->nmembers);
    case CERT_STREAM: return check_stream(c, claim, has->streamed);
    case CERT_WAIT: return check_wait(c, claim, has->waits);
    case CERT_SAME: return check_same(c, claim, has->accounted);
    case CERT_GATHER: return cert_check_gather(c, claim);
    default: return NULL;
    }
}

weft_status cert_check_claims(cert_checker *c) {
    covered has = {.merged = ARENA_ARRAY(c->arena, bool, c->nnew + 1),
                   .sliced = ARENA_ARRAY(c->arena, bool, c->nnew + 1),
                   .streamed = ARENA_ARRAY(c->arena, bool, c->nnew + 1),
                   .waits = ARENA_ARRAY(c->arena, bool, c->nnew + 1),
                   .accounted = ARENA_ARRAY(c->arena, bool, c->nnumbers + 1),
                   .nmembers = ARENA_ARRAY(c->arena, size_t, c->nnumbers + 1)};
    if (!has.nmembers || !has.merged || !has.sliced || !has.streamed || !has.waits || !has.accounted)
        return base_out_of_memory();
    for (size_t i = 0, count; i < c->doc.nclaims && !c->message; i += count) TRY(check_claim(c, i, &has, &count));
    return c->message ? NULL : check_covered(c, &has);
}
