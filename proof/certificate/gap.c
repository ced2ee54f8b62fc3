/* gap.c: why a plan ends the step later than its bound: which of what the bound leaves out the plan has. What each
 * costs is told where playing without it shows that. */
#include "proof/certificate/certificate.h"

static json_int_t sum_of(const json_int_t *times, size_t n) {
    json_int_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += times[i];
    return sum;
}

/* How much earlier the same buckets end if nothing slows anything down. */
static json_int_t cost_of_slowing(const cert_plan *plan, cert_clock *clock) {
    cert_plan without = *plan;
    without.compute_factor = without.collective_factor = 1;
    cert_clock_play(clock, &without);
    return plan->step - clock->step;
}

/* A result is needed before the last gradient is ready. */
static bool has_early_needs(const cert_plan *plan) {
    json_int_t last = 0;
    for (size_t i = 0; i < plan->ngradients; i++)
        if (plan->gradients[i].after > last) last = plan->gradients[i].after;
    for (size_t i = 0; i < plan->ngradients; i++)
        if (plan->gradients[i].needed < last) return true;
    return false;
}

static size_t count_lanes(const cert_plan *plan) {
    size_t n = 0;
    for (size_t k = 0; k < plan->nkinds; k++)
        if (plan->kinds[k].lane >= n) n = plan->kinds[k].lane + 1;
    return n;
}

static bool is_in_lane(const cert_plan *plan, const cert_gradient *g) {
    return plan->kinds[g->kind].lane == plan->bound_lane;
}

/* A bound by lines asks of some gradients that they end in time for the quickest of what needs them. */
static bool has_tails(const cert_plan *plan) {
    for (size_t i = 0; i < plan->ngradients && plan->bound_by == CERT_BY_LINES; i++)
        if (is_in_lane(plan, &plan->gradients[i]) && plan->gradients[i].tail != plan->bound_tail) return true;
    return false;
}

/* Kinds of the lane share buckets in the bound, or some are left out. */
static bool is_of_some(const cert_plan *plan) {
    size_t nkinds = 0;
    for (size_t k = 0; k < plan->nkinds && plan->bound_by == CERT_BY_LINES; k++) {
        if (plan->kinds[k].lane == plan->bound_lane && !plan->kinds[k].counts) return true;
        nkinds += plan->kinds[k].counts;
    }
    return nkinds > 1 && plan->bound_as_one;
}

/* What the plan's buckets of the lane take above the lines, where they can be told. */
static json_int_t above_lines(const cert_plan *plan) {
    json_int_t above = 0;
    for (size_t i = 0; i < plan->nbuckets && plan->bound_by == CERT_BY_LINES; i++) {
        const cert_bucket_said *b = &plan->buckets[i];
        const cert_bucket_kind *k = &plan->kinds[b->kind];
        double line = 0;
        if (!k->counts || !k->nlines || b->count < 2) continue;
        for (size_t p = 0; p < k->nlines; p++)
            line += (double)k->lines[p].latency / CERT_PARTS + k->lines[p].slope * (double)b->nbytes;
        above += cert_prices_ns(k->costs, k->ncosts, b->nbytes) - (json_int_t)line;
    }
    return above;
}

static void put_reason(buffer *out, const char *words) {
    buffer_text(out, out->nbytes ? ", " : "");
    buffer_text(out, words);
}

static void put_reasons(const cert_plan *plan, cert_clock *clock, buffer *out) {
    json_int_t above = above_lines(plan),
               copies = sum_of(plan->played, plan->nplayed) - sum_of(plan->compute, plan->ncompute);
    if (plan->compute_factor > 1 || plan->collective_factor > 1) {
        json_int_t slowing = cost_of_slowing(plan, clock);
        put_reason(out, "compute and collectives slow one another down");
        if (slowing > 0)
            buffer_format(out, " (%.6f ms)", 1e-6 * (double)slowing);
        else
            buffer_text(out, " (these buckets lose nothing by it)");
    }
    if (copies > 0) {
        put_reason(out, "members are copied");
        buffer_format(out, " (%.6f ms)", 1e-6 * (double)copies);
    }
    if (has_early_needs(plan)) put_reason(out, "results are needed before the last gradient is ready");
    if (has_tails(plan)) put_reason(out, "results are needed at different times");
    if (is_of_some(plan)) put_reason(out, "kinds of a stream are not bounded together");
    if (above > plan->bound / 1000) {
        put_reason(out, "collectives cost more than the bound's lines say");
        buffer_format(out, " (%.6f ms)", 1e-6 * (double)above);
    }
    if (!out->nbytes) put_reason(out, "places in the program or a limit keep gradients apart");
}

weft_status cert_tell_gap(cert_checker *c, const cert_plan *plan, cert_clock *clock) {
    buffer words;
    weft_status status = NULL;
    buffer_init(&words, &c->context->allocator);
    if (plan->gap > plan->bound / 100) put_reasons(plan, clock, &words);
    c->gap = words.nbytes ? arena_format(c->arena, "%.*s", (int)words.nbytes, words.bytes) : NULL;
    if (words.failed || (words.nbytes && !c->gap)) status = base_out_of_memory();
    buffer_fini(&words);
    c->nlanes = count_lanes(plan);
    return status;
}
