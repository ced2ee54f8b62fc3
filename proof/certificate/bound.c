/* bound.c: a step that no buckets end earlier: which gradients of a kind ever go together, and in whatever order a lane
 * sends them. What it follows from is said with it: that the step has all of compute; what compute and collectives lose
 * beside one another (slowed.c); what a lane's gradients take, by lines below their costs (least.c); or, of a few
 * gradients, all sets in all orders (sets.c). Early needs and copies lengthen a step, and are left out. */
#include <math.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)

static const char *const names[] = {
    [CERT_BY_COMPUTE] = "compute", [CERT_BY_SLOWED] = "slowed", [CERT_BY_LINES] = "lines", [CERT_BY_SETS] = "sets"};
enum { NAMES = sizeof names / sizeof *names };

/* --- as it is said ------------------------------------------------------------------------------------------------ */

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

weft_status cert_bound_read(cert_checker *c, const json_t *from, cert_plan *to) {
    const char *by = "";
    const json_t *lines = json_object_get(from, "lines"), *list;
    json_int_t lane = 0;
    int as_one = 0;
    size_t n = 0, k;
    if (json_unpack((json_t *)from, "{s:s,s?I,s?I,s?b}", "by", &by, "lane", &lane, "tail_ns", &to->bound_tail, "as_one",
                    &as_one) != 0)
        return BAD(c, "it does not say what its bound follows from");
    while (n < NAMES && strcmp(names[n], by) != 0) n++;
    if (n == NAMES || lane < 0 || lane >= CERT_LANES || json_array_size(lines) > to->nkinds)
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

/* --- whether it holds --------------------------------------------------------------------------------------------- */

weft_status cert_bound_check(cert_checker *c, const cert_plan *plan, json_int_t compute) {
    json_int_t step = compute;
    bool ends = false;
    if (plan->bound <= compute) return NULL;
    if (compute >= INT64_C(1) << 42) return BAD(c, "its bound is of a step that takes too long");
    if (plan->bound_by == CERT_BY_SETS) {
        TRY(cert_sets_end_by(c, plan, plan->bound - 1, &ends));
        return ends ? BAD(c, "some buckets end the step before %lld ns", plan->bound) : NULL;
    }
    if (plan->bound_by == CERT_BY_LINES) TRY(cert_step_by_lines(c, plan, &step));
    if (plan->bound_by == CERT_BY_SLOWED) TRY(cert_step_slowed(c, plan, compute, &step));
    return c->message || step >= plan->bound
               ? NULL
               : BAD(c, "some buckets may end the step before %lld ns: the bound follows up to %lld", plan->bound,
                     step);
}
