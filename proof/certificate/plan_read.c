/* plan_read.c: the bucket plan of a certificate as structs. Types and ranges are looked at here; whether it is of the
 * program is for plan_members.c, and whether it is true for buckets.c. */
#include <math.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
enum { MOST_KINDS = 64 };
static const json_int_t most_ns = 10000000000000, most_nbytes = INT64_C(1) << 50, most_alignment = 1 << 20;

static weft_status read_kind(cert_checker *c, json_t *from, json_int_t *nlanes, cert_bucket_kind *to) {
    json_t *costs;
    json_int_t lane, ncollectives = -1;
    if (json_unpack(from, "{s:I,s?I,s:o}", "lane", &lane, "collectives", &ncollectives, "costs", &costs) != 0)
        return BAD(c, "a kind says too little");
    if (lane < 0 || lane > *nlanes || lane == CERT_LANES)
        return BAD(c, "lanes are not numbered as they come: %lld", lane);
    if (lane == *nlanes) ++*nlanes;
    TRY(cert_prices_read(c, costs, &to->costs, &to->ncosts));
    to->lane = (size_t)lane;
    to->ncollectives = ncollectives < 0 ? to->ncosts : (size_t)ncollectives;
    return to->ncollectives <= to->ncosts ? NULL : BAD(c, "a kind has more collectives than costs");
}

static weft_status read_kinds(cert_checker *c, const json_t *list, cert_plan *to) {
    json_int_t nlanes = 0;
    to->nkinds = json_array_size(list);
    if (!(to->kinds = ARENA_ARRAY(c->arena, cert_bucket_kind, to->nkinds + 1))) return base_out_of_memory();
    if (to->nkinds > MOST_KINDS) return BAD(c, "there are more than %d kinds", MOST_KINDS);
    for (size_t k = 0; k < to->nkinds && !c->message; k++)
        TRY(read_kind(c, json_array_get(list, k), &nlanes, &to->kinds[k]));
    return NULL;
}

static weft_status read_times(cert_checker *c, const json_t *list, json_int_t **out, size_t *out_n) {
    *out_n = json_array_size(list);
    if (!(*out = ARENA_ARRAY(c->arena, json_int_t, *out_n + 1))) return base_out_of_memory();
    for (size_t i = 0; i < *out_n; i++) {
        json_int_t ns = (*out)[i] = json_integer_value(json_array_get(list, i));
        if (ns < 0 || ns > most_ns) return BAD(c, "instruction %zu takes %lld ns", i, ns);
    }
    return NULL;
}

static weft_status read_gradients(cert_checker *c, const json_t *list, cert_plan *to) {
    to->ngradients = json_array_size(list);
    if (!(to->gradients = ARENA_ARRAY(c->arena, cert_gradient, to->ngradients + 1))) return base_out_of_memory();
    for (size_t i = 0; i < to->ngradients; i++) {
        cert_gradient *g = &to->gradients[i];
        if (json_unpack(json_array_get(list, i), "{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "var", &g->var, "nbytes",
                        &g->nbytes, "kind", &g->kind, "alone_ns", &g->alone, "after", &g->after, "ready_ns", &g->ready,
                        "needed", &g->needed, "tail_ns", &g->tail) != 0 ||
            g->kind < 0 || (size_t)g->kind >= to->nkinds || g->nbytes < 0 || g->nbytes > most_nbytes || g->alone < 0 ||
            g->after < 0 || g->needed < 0 || (size_t)g->after > to->ncompute || (size_t)g->needed > to->ncompute)
            return BAD(c, "gradient %zu says too little", i);
        g->padded = (g->nbytes + to->alignment - 1) / to->alignment * to->alignment;
    }
    return NULL;
}

static json_int_t sum_of(const json_int_t *times, json_int_t first, json_int_t end) {
    json_int_t sum = 0;
    for (json_int_t i = first; i < end; i++) sum += times[i];
    return sum;
}

/* Between which instructions of compute a bucket runs in the program that was made. */
static bool has_place(json_t *from, const cert_plan *plan, cert_bucket_said *b) {
    json_int_t ready, tail, n = (json_int_t)plan->nplayed;
    return json_unpack(from, "{s:I,s:I,s:I,s:I}", "after", &b->after, "ready_ns", &ready, "needed", &b->needed,
                       "tail_ns", &tail) == 0 &&
           b->after >= 0 && b->needed >= 0 && b->after <= n && b->needed <= n &&
           ready == sum_of(plan->played, 0, b->after) && tail == sum_of(plan->played, b->needed, n);
}

static weft_status read_buckets(cert_checker *c, const json_t *list, bool made, cert_plan *to) {
    to->nbuckets = json_array_size(list);
    if (!(to->buckets = ARENA_ARRAY(c->arena, cert_bucket_said, to->nbuckets + 1))) return base_out_of_memory();
    for (size_t k = 0; k < to->nbuckets; k++) {
        cert_bucket_said *b = &to->buckets[k];
        json_t *from = json_array_get(list, k);
        if (json_unpack(from, "{s:I,s:I,s:I,s:I,s:I}", "kind", &b->kind, "count", &b->count, "nbytes", &b->nbytes,
                        "start_ns", &b->start, "end_ns", &b->end) != 0 ||
            b->kind < 0 || (size_t)b->kind >= to->nkinds || b->count < 1 ||
            (b->count > 1 && !to->kinds[b->kind].ncosts))
            return BAD(c, "bucket %zu is of no gradients", k);
        if (made && !has_place(from, to, b)) return BAD(c, "bucket %zu has no place in the program that was made", k);
    }
    return NULL;
}

static weft_status read_slowed(cert_checker *c, const json_t *from, cert_plan *to) {
    to->compute_factor = to->collective_factor = 1;
    if (!from) return NULL;
    if (json_unpack((json_t *)from, "{s:F,s:F}", "compute", &to->compute_factor, "collective",
                    &to->collective_factor) != 0 ||
        !(to->compute_factor >= 1 && to->collective_factor >= 1))
        return BAD(c, "factors of what is slowed down: expected 1 or more");
    return NULL;
}

/* What a bound follows from. */
static const char *const names[] = {
    [CERT_BY_COMPUTE] = "compute", [CERT_BY_SLOWED] = "slowed", [CERT_BY_LINES] = "lines", [CERT_BY_SETS] = "sets"};
enum { NAMES = sizeof names / sizeof *names };

static weft_status read_lines(cert_checker *c, const json_t *list, cert_bucket_kind *to) {
    cert_line *lines = ARENA_ARRAY(c->arena, cert_line, json_array_size(list) + 1);
    if (!lines) return base_out_of_memory();
    to->counts = true;
    to->lines = lines;
    to->nlines = json_array_size(list);
    for (size_t i = 0; i < to->nlines; i++)
        if (json_unpack(json_array_get(list, i), "[I,F]", &lines[i].latency, &lines[i].slope) != 0 ||
            lines[i].latency < 0 || !(lines[i].slope >= 0) || !isfinite(lines[i].slope))
            return BAD(c, "line %zu of the bound is none", i);
    return NULL;
}

static weft_status read_bound(cert_checker *c, const json_t *from, cert_plan *to) {
    const char *by = "";
    const json_t *lines = json_object_get(from, "lines"), *list;
    json_int_t lane = 0;
    int as_one = 0;
    size_t n = 0, k;
    if (json_unpack((json_t *)from, "{s:s,s?I,s?I,s?b}", "by", &by, "lane", &lane, "tail_ns", &to->bound_tail, "as_one",
                    &as_one) != 0)
        return BAD(c, "it does not say what its bound follows from");
    while (n < NAMES && strcmp(names[n], by) != 0) n++;
    if (n == NAMES || lane < 0 || lane >= CERT_LANES || to->bound_tail < 0 || json_array_size(lines) > to->nkinds)
        return BAD(c, "its bound follows from nothing that is known");
    to->bound_by = (cert_bound_by)n;
    to->bound_lane = (size_t)lane;
    to->bound_as_one = as_one;
    json_array_foreach(lines, k, list) {
        if (json_is_null(list)) continue;
        if (to->kinds[k].lane != to->bound_lane) return BAD(c, "its bound is of kinds of several lanes");
        TRY(read_lines(c, list, &to->kinds[k]));
    }
    return NULL;
}

weft_status cert_plan_read(cert_checker *c, size_t pass, cert_plan *to) {
    const json_t *from = c->doc.passes[pass].plan, *made = json_object_get(from, "made");
    *to = (cert_plan){.made = made != NULL};
    if (json_unpack((json_t *)from, "{s:I,s:I,s:I,s:I,s:I,s:I}", "step_ns", &to->step, "compute_ns", &to->compute_ns,
                    "exposed_ns", &to->exposed, "bound_ns", &to->bound, "gap_ns", &to->gap, "alignment",
                    &to->alignment) != 0 ||
        to->alignment < 1 || to->alignment > most_alignment)
        return BAD(c, "it does not say when the step ends");
    TRY(read_kinds(c, json_object_get(from, "kinds"), to));
    TRY(read_times(c, json_object_get(from, "compute"), &to->compute, &to->ncompute));
    to->played = to->compute;
    to->nplayed = to->ncompute;
    if (made) TRY(read_times(c, made, &to->played, &to->nplayed));
    if (c->message) return NULL;
    TRY(read_gradients(c, json_object_get(from, "gradients"), to));
    if (!c->message) TRY(read_buckets(c, json_object_get(from, "buckets"), made, to));
    if (!c->message) TRY(read_slowed(c, json_object_get(from, "slowed"), to));
    if (!c->message) TRY(read_bound(c, json_object_get(from, "bound"), to));
    return NULL;
}
