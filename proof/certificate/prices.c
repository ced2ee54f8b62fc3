/* prices.c: what a bucket plan says that collectives and scales take by their bytes. The forms are those of
 * docs/costs.md: messages over links, points that were measured, ways of NCCL of which the least counts. */
#include <math.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
enum { MOST_PRICES = 16, MOST_WAYS = 16 };
static const json_int_t most_ns = 10000000000000;

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void read_way(const json_t *from, cert_way *to) {
    const json_t *factors = json_object_get(from, "factors");
    *to = (cert_way){.latency_us = json_number_value(json_object_get(from, "latency_us")),
                     .bandwidth = json_number_value(json_object_get(from, "bandwidth")),
                     .parts = json_number_value(json_object_get(from, "parts")),
                     .plateau = json_number_value(json_object_get(from, "plateau")),
                     .plateau_latency_us = json_number_value(json_object_get(from, "plateau_latency_us"))};
    to->nfactors = json_array_size(factors) < CERT_FACTORS ? json_array_size(factors) : CERT_FACTORS;
    for (size_t k = 0; k < to->nfactors; k++) to->factors[k] = json_number_value(json_array_get(factors, k));
}

static weft_status read_ways(cert_checker *c, const json_t *list, cert_price *to) {
    to->nways = json_array_size(list);
    if (!to->nways || to->nways > MOST_WAYS) return BAD(c, "%zu ways: expected 1 to %d", to->nways, MOST_WAYS);
    if (!(to->ways = ARENA_ARRAY(c->arena, cert_way, to->nways))) return base_out_of_memory();
    for (size_t w = 0; w < to->nways; w++) {
        read_way(json_array_get(list, w), &to->ways[w]);
        if (!(to->ways[w].latency_us >= 0 && to->ways[w].bandwidth > 0)) return BAD(c, "way %zu takes no time", w);
    }
    return NULL;
}

static weft_status read_price(cert_checker *c, size_t number, const json_t *from, cert_price *to) {
    const json_t *pairs = json_object_get(from, "measured"), *ways = json_object_get(from, "ways");
    to->measured = pairs != NULL;
    if (ways) return read_ways(c, ways, to);
    if (!pairs && json_unpack((json_t *)from, "{s:F,s:F,s:F,s:o}", "times", &to->times, "parts", &to->parts,
                              "op_seconds", &to->op_seconds, "links", &pairs) != 0)
        return BAD(c, "cost %zu says too little", number);
    to->npairs = json_array_size(pairs) < CERT_PAIRS ? json_array_size(pairs) : CERT_PAIRS;
    for (size_t k = 0; k < 2 * to->npairs; k++)
        to->pairs[k / 2][k % 2] = json_number_value(json_array_get(json_array_get(pairs, k / 2), k % 2));
    return NULL;
}

weft_status cert_prices_read(cert_checker *c, const json_t *list, const cert_price **out, size_t *out_n) {
    size_t n = json_array_size(list);
    cert_price *prices = ARENA_ARRAY(c->arena, cert_price, n + 1);
    if (!prices) return base_out_of_memory();
    if (n > MOST_PRICES) return BAD(c, "there are more than %d costs", MOST_PRICES);
    for (size_t i = 0; i < n && !c->message; i++) TRY(read_price(c, i, json_array_get(list, i), &prices[i]));
    *out = prices;
    *out_n = n;
    return NULL;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* Factors are of 64 bytes and each power of two above, on a line between; behind the last: 1. */
static double factor_at(const cert_way *w, double nbytes) {
    double at = nbytes > 64 ? log2(nbytes / 64) : 0;
    if (!w->nfactors || at >= (double)(w->nfactors - 1)) return 1;
    size_t below = (size_t)at;
    double part = at - (double)below;
    return w->factors[below] * (1 - part) + w->factors[below + 1] * part;
}

static double seconds_of_ways(const cert_price *p, double nbytes) {
    double best = INFINITY;
    for (const cert_way *w = p->ways; w < p->ways + p->nways; w++) {
        bool on_plateau = w->parts > 0 && nbytes / w->parts >= w->plateau;
        double bandwidth = w->nfactors ? w->bandwidth * factor_at(w, nbytes) : w->bandwidth;
        best = fmin(best, (on_plateau ? w->plateau_latency_us : w->latency_us) + nbytes / (1000 * bandwidth));
    }
    return 1e-6 * best;
}

/* Measured: logs on a line between pairs, before them seconds, behind the rate. Else messages of the slowest link. */
static double seconds_of(const cert_price *c, double nbytes) {
    const double(*at)[2] = c->pairs, (*end)[2] = at + c->npairs;
    double longest = 0;
    if (c->nways) return seconds_of_ways(c, nbytes);
    for (; !c->measured && at < end; at++) longest = fmax(longest, (*at)[0] + nbytes / c->parts / (*at)[1]);
    if (!c->measured) return c->times * longest + c->op_seconds;
    if (at == end || nbytes <= (*at)[0]) return (*at)[1];
    while (at + 1 < end && nbytes >= at[1][0]) at++;
    if (at + 1 == end) return (*at)[1] * (nbytes / (*at)[0]);
    return (*at)[1] * pow(at[1][1] / (*at)[1], log(nbytes / (*at)[0]) / log(at[1][0] / (*at)[0]));
}

json_int_t cert_price_ns(const cert_price *prices, size_t index, json_int_t nbytes) {
    double ns = floor(seconds_of(&prices[index], (double)nbytes) * 1e9 + 0.5);
    return ns >= 0 && ns < 1e15 ? (json_int_t)ns : most_ns;
}

json_int_t cert_prices_ns(const cert_price *prices, size_t n, json_int_t nbytes) {
    json_int_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += cert_price_ns(prices, i, nbytes);
    return sum;
}
