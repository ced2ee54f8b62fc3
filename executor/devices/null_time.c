/* null_time.c: how long an instruction takes on the null device: a model, so that plans can be compared.
 *
 * An instruction takes what its flops or its bytes take (ops/cost.h), whichever is longer, and what launching it takes.
 * A collective takes the messages of a ring: each of n members sends the next one an n-th of the largest side n - 1
 * times, for an all-reduce twice (reduce-scatter and all-gather: Patarasuk and Yuan 2009). Nothing contends: streams do
 * not slow one another down, nor do rings. */
#include <math.h>

#include "executor/devices/null.h"

/* 31 years: some of them together are still far from what 64 bits hold. */
static const int64_t most_ns = INT64_C(1000000000) * 1000000000;

int64_t null_ns(double seconds) {
    double ns = floor(seconds * 1e9 + 0.5);
    return ns < (double)most_ns ? (int64_t)ns : most_ns;
}

int64_t null_later(int64_t at_ns, int64_t by_ns) {
    return at_ns < INT64_MAX - most_ns - by_ns ? at_ns + by_ns : INT64_MAX - most_ns;
}

static weft_status set_rate(double *rate, double given, double fallback, const char *what) {
    if (!(given >= 0))
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "null device: %s: expected a number that is not "
                                  "negative, found %g",
                                  what, given);
    *rate = given > 0 ? given : fallback;
    return NULL;
}

weft_status null_set_rates(null_device *d, const weft_rates *given) {
    weft_rates *r = &d->rates;
    TRY(set_rate(&r->flops, given->flops, 1e14, "flops a second"));
    TRY(set_rate(&r->bytes, given->bytes, 2e12, "bytes a second"));
    TRY(set_rate(&r->op_seconds, given->op_seconds, 2e-6, "seconds an op"));
    TRY(set_rate(&r->link_bytes, given->link_bytes, 5e10, "bytes a second of a link"));
    return set_rate(&r->link_seconds, given->link_seconds, 5e-6, "seconds a message");
}

static double sum_nbytes(const weft_plan *plan, const int32_t *values, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= 0) sum += (double)plan->values[values[i]].nbytes;
    return sum;
}

static double collective_seconds(const weft_rates *r, const weft_plan *plan, const plan_instr *i, int nranks) {
    double in = sum_nbytes(plan, i->in, i->in_first[i->schema->ninputs]);
    double out = sum_nbytes(plan, i->out, i->out_first[i->schema->noutputs]);
    const char *type = i->schema->type;
    double rounds = strstr(type, "allreduce") || strstr(type, "all_reduce") ? 2 : 1;
    double message = (in > out ? in : out) / nranks;
    return rounds * (nranks - 1) * (r->link_seconds + message / r->link_bytes);
}

/* All members' lists are as long: they agree on the ring. */
static int ring_size(const weft_executor *x, const weft_plan *plan, const plan_instr *i) {
    const ring *declared = i->ring_id >= 0 ? program_find_ring(plan->program, i->ring_id) : NULL;
    return i->ring_id < 0 ? 1 : declared ? declared->nranks : x->nranks;
}

weft_status null_find_times(weft_executor *x, null_plan *p) {
    const weft_rates *r = &x->null->rates;
    arena scratch;
    arena_init(&scratch, &x->context->allocator);
    weft_status status = NULL;
    p->ns = ARENA_ARRAY(&x->arena, int64_t, p->plan->ninstrs + 1);
    if (!p->ns) status = base_out_of_memory();
    for (size_t k = 0; !status && k < p->plan->ninstrs; k++) {
        const plan_instr *i = &p->plan->instrs[k];
        op_cost cost;
        TRY_DONE(profile_cost_of(p->plan, i, &scratch, &cost));
        double computing = cost.flops / r->flops, moving = cost.bytes / r->bytes;
        double seconds = computing > moving ? computing : moving;
        int nranks = ring_size(x, p->plan, i);
        if (nranks > 1) seconds = collective_seconds(r, p->plan, i, nranks);
        p->ns[k] = null_ns(seconds + r->op_seconds);
    }
done:
    arena_fini(&scratch);
    return status;
}
