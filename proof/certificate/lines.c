/* lines.c: lines below what buckets cost: any bucket of a kind takes a latency and the weights of its gradients, at
 * least. A gradient weighs what the line says of its bytes, but no more than what it takes alone leaves over the
 * latency. So the line counts for buckets of two gradients or more: from the bytes of the two smallest to those of all.
 *
 * A link's line is known. Of other costs it is shown that they do not fall as bytes grow. Then the line is below from b
 * on as far as it goes below the cost of b, and that is asked for again behind. */
#include <math.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
enum { MOST_STEPS = 1 << 20 };
static const double rounding = 1e-12; /* of doubles that were rounded some times */

/* --- costs do not fall -------------------------------------------------------------------------------------------- */

/* Between two factors the bandwidth grows less than bytes do. */
static bool way_rises(const cert_way *w) {
    bool rises = !(w->parts > 0) || w->plateau_latency_us >= w->latency_us;
    for (size_t k = 0; k < w->nfactors && rises; k++) {
        double a = w->factors[k], b = k + 1 < w->nfactors ? w->factors[k + 1] : 1;
        rises = a > 0 && b > 0 && b - a < 0.6 * fmin(a, b);
    }
    return rises && (!w->nfactors || w->factors[w->nfactors - 1] <= 1);
}

static bool rises(const cert_price *p) {
    bool so = true;
    for (size_t k = 0; k < p->nways && so; k++) so = way_rises(&p->ways[k]);
    for (size_t k = 0; k < p->npairs && p->measured && so; k++) {
        const double *at = p->pairs[k], *before = k ? p->pairs[k - 1] : NULL;
        so = at[0] > 0 && at[1] > 0 && isfinite(at[0]) && isfinite(at[1]);
        so = so && (!before || (at[0] > before[0] && at[1] >= before[1]));
    }
    return so && (p->nways || (p->measured && p->npairs));
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* Below one link's own at both ends; a price may be rounded down by half a nanosecond. */
static bool is_below_links(const cert_price *p, double latency, double slope, double least, double most) {
    for (size_t k = 0; k < p->npairs; k++) {
        double own = 1e9 * (p->times * p->pairs[k][0] + p->op_seconds),
               byte = 1e9 * p->times / p->parts / p->pairs[k][1];
        if (own >= 0 && byte >= 0 && isfinite(byte) &&
            latency + slope * least <= (own + byte * least) * (1 - rounding) - 0.5 &&
            latency + slope * most <= (own + byte * most) * (1 - rounding) - 0.5)
            return true;
    }
    return latency <= 0 && slope <= 0;
}

/* A nanosecond is left for doubles that are rounded apart. */
static bool is_below_rising(const cert_price *p, double latency, double slope, json_int_t least, json_int_t most) {
    json_int_t b = least;
    if (!rises(p)) return false;
    for (int step = 0; step < MOST_STEPS && b <= most; step++) {
        double room = (double)cert_price_ns(p, 0, b) - 1 - latency;
        if (!(room >= slope * (double)b)) return false;
        double reach = slope > 0 ? floor(room / slope) : (double)most;
        b = reach >= (double)most ? most + 1 : (json_int_t)reach + 1;
    }
    return b > most;
}

static bool is_below(const cert_price *p, cert_line line, json_int_t least, json_int_t most) {
    double latency = (double)line.latency / CERT_PARTS, slope = line.slope * (1 + rounding);
    if (!(latency + slope * (double)most < (double)CERT_MOST_NS)) return false;
    if (p->measured || p->nways) return (latency <= 0 && slope <= 0) || is_below_rising(p, latency, slope, least, most);
    return is_below_links(p, latency, slope, (double)least, (double)most);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

typedef struct extent {
    json_int_t least[2], sum; /* padded bytes: of the two smallest, and of all */
    size_t count;
} extent;

static bool find_extent(const cert_plan *plan, size_t kind, extent *out) {
    *out = (extent){{INT64_MAX, INT64_MAX}, 0, 0};
    for (size_t i = 0; i < plan->ngradients; i++) {
        json_int_t nbytes = plan->gradients[i].padded, *least = out->least;
        if ((size_t)plan->gradients[i].kind != kind) continue;
        out->count++;
        if (nbytes < least[0])
            least[1] = least[0], least[0] = nbytes;
        else if (nbytes < least[1])
            least[1] = nbytes;
        if (__builtin_add_overflow(out->sum, nbytes, &out->sum)) return false;
    }
    return out->sum < INT64_C(1) << 52;
}

static json_int_t alone_of(const cert_bucket_kind *k, const cert_gradient *g, size_t nprices) {
    json_int_t ns = nprices == k->ncosts ? g->alone : cert_prices_ns(k->costs, nprices, g->nbytes);
    return (ns < CERT_MOST_NS ? ns : CERT_MOST_NS) * CERT_PARTS;
}

/* All weights and latencies together fit into 64 bits by far. */
static bool weigh(const cert_plan *plan, size_t kind, size_t nprices, json_int_t latency, double slope,
                  json_int_t *weights) {
    const cert_bucket_kind *k = &plan->kinds[kind];
    json_int_t sum = latency;
    for (size_t i = 0; i < plan->ngradients; i++) {
        const cert_gradient *g = &plan->gradients[i];
        if ((size_t)g->kind != kind) continue;
        json_int_t left = alone_of(k, g, nprices) - latency;
        json_int_t by_bytes = k->nlines ? (json_int_t)(slope * (double)g->padded * CERT_PARTS) : left;
        weights[i] = by_bytes < left ? by_bytes : left;
        if (left < 0 || __builtin_add_overflow(sum, weights[i], &sum) || sum > INT64_MAX >> 8) return false;
    }
    return true;
}

weft_status cert_weigh(cert_checker *c, const cert_plan *plan, size_t kind, size_t nprices, json_int_t *latency,
                       json_int_t *weights) {
    const cert_bucket_kind *k = &plan->kinds[kind];
    extent e;
    double slope = 0;
    bool fits = find_extent(plan, kind, &e) && k->nlines == (e.count > 1 ? nprices : 0);
    *latency = 0;
    for (size_t i = 0; i < k->nlines && fits; i++) {
        fits = is_below(&k->costs[i], k->lines[i], e.least[0] + e.least[1], e.sum);
        *latency += k->lines[i].latency;
        slope += k->lines[i].slope;
    }
    fits = fits && weigh(plan, kind, nprices, *latency, slope, weights);
    return fits ? NULL : BAD(c, "a line of the bound is not below what buckets of kind %zu cost", kind);
}
