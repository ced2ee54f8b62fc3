/* bucket_lines.c: lines below costs, and what items weigh by them.
 *
 * Of a link the line is known. Other costs are asked for at some sizes: their lower hull has an edge at each size, or
 * where that has no latency a line from the origin touches it. The line is lowered until it is shown to be below: costs
 * do not fall with bytes, so from b on it is below as far as it goes below the cost of b. A checker shows it again. */
#include <math.h>
#include <stdlib.h>

#include "passes/bucket_bound.h"

enum { SAMPLES = 128, MOST_STEPS = 1 << 18 /* a checker goes four times as far */ };
static const double exact = 1 - 4e-12; /* of doubles that were rounded a few times */

typedef struct point {
    double nbytes, ns;
} point;

/* Below `ns` at every size up to the largest, in nanoseconds: of a double's line, or none where that falls below 0. */
static bucket_line make_line(double ns, double slope, double most) {
    bool fits = ns >= 0 && slope >= 0 && ns + slope * most < (double)BUCKET_MOST_NS;
    return fits ? (bucket_line){(int64_t)(ns * BUCKET_PARTS), slope} : (bucket_line){0, 0};
}

/* --- links -------------------------------------------------------------------------------------------------------- */

/* The highest one at that size; less half a nanosecond, by which a price may be rounded down. */
static bucket_line line_of_links(const plan_curve *c, double least, double most, double at) {
    double highest = -1, ns = 0, slope = 0;
    for (size_t k = 0; k < c->nlinks; k++) {
        double own = 1e9 * (c->times * c->links[k].seconds + c->op_seconds);
        double byte = 1e9 * c->times / c->parts / c->links[k].bytes;
        if (own + byte * at <= highest) continue;
        highest = own + byte * at;
        ns = own * exact - 0.5;
        slope = byte * exact;
    }
    if (ns < 0) slope += ns / least, ns = 0;
    return make_line(ns, slope, most);
}

/* --- other costs -------------------------------------------------------------------------------------------------- */

static int by_nbytes(const void *a, const void *b) {
    const point *x = a, *y = b;
    return (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes);
}

/* Sizes at equal ratios and at equal distances. */
static size_t sample(const plan_curve *c, double least, double most, point *out) {
    size_t n = 0;
    for (int i = 0; i <= SAMPLES; i++) {
        double part = (double)i / SAMPLES;
        out[n++].nbytes = floor(least * pow(most / least, part));
        out[n++].nbytes = floor(least + (most - least) * part);
    }
    qsort(out, n, sizeof *out, by_nbytes);
    for (size_t i = 0; i < n; i++) out[i].ns = (double)plan_curve_ns(c, out[i].nbytes);
    return n;
}

/* Whether b lies below the line from a to c, or on it. */
static bool is_below(point a, point b, point c) {
    return (b.ns - a.ns) * (c.nbytes - a.nbytes) <= (c.ns - a.ns) * (b.nbytes - a.nbytes);
}

/* The lower hull, in place; how many points it has. */
static size_t lower_hull(point *p, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        while (kept && p[kept - 1].nbytes >= p[i].nbytes) kept--;
        while (kept > 1 && !is_below(p[kept - 2], p[kept - 1], p[i])) kept--;
        p[kept++] = p[i];
    }
    return kept;
}

/* Whether the line is shown to be below from `least` to `most` bytes. A nanosecond is left for a price that doubles
 * round down where another size is rounded up. */
static bool is_shown(const plan_curve *c, bucket_line line, double least, double most) {
    double latency = (double)line.latency / BUCKET_PARTS, slope = line.slope / exact;
    double b = least;
    for (int step = 0; b <= most; step++) {
        double room = (double)plan_curve_ns(c, b) - 1 - latency;
        double reach = slope > 0 ? floor(room / slope) : room >= 0 ? most : 0;
        if (reach < b || step == MOST_STEPS) return false;
        b = reach + 1;
    }
    return true;
}

/* In nanoseconds. */
typedef struct edge {
    double latency, slope;
} edge;

/* The hull's at that size; of 0 bytes, and where it has no latency, the one from the origin on. */
static edge edge_at(const point *hull, size_t n, double at) {
    size_t k = 1;
    while (k + 1 < n && hull[k].nbytes < at) k++;
    edge e = {hull[0].ns, 0};
    if (n > 1) e.slope = (hull[k].ns - hull[k - 1].ns) / (hull[k].nbytes - hull[k - 1].nbytes);
    if (n > 1) e.latency = hull[k].ns - e.slope * hull[k].nbytes;
    if (e.latency >= 0 && at > 0) return e;
    e = (edge){0, INFINITY};
    for (size_t i = 0; i < n; i++) e.slope = fmin(e.slope, hull[i].ns / hull[i].nbytes);
    return e;
}

/* Lower by a part of its slope; the latency goes first. Some nanoseconds are for rounding. */
static bucket_line lowered(edge e, double part, double least, double most) {
    double latency = e.latency - 2 - part * e.slope * most;
    if (latency >= 0) return make_line(latency, e.slope, most);
    double slope = e.slope * (1 - part) + fmin(e.latency - 2, 0) / least;
    return make_line(0, fmax(slope, 0), most);
}

/* Asked for from the smallest item on, which weighs what it takes alone. */
static weft_status line_of_samples(const plan_curve *c, double smallest, double least, double most, double at,
                                   arena *scratch, bucket_line *out) {
    point *p = ARENA_ARRAY(scratch, point, 2 * SAMPLES + 2);
    if (!p) return base_out_of_memory();
    size_t n = lower_hull(p, sample(c, smallest, most, p));
    edge e = edge_at(p, n, at);
    *out = (bucket_line){0, 0};
    for (double part = 1.0 / 8192; part < 1; part *= 2) {
        bucket_line line = lowered(e, part, least, most);
        if (!is_shown(c, line, least, most)) continue;
        *out = line;
        break;
    }
    return NULL;
}

static weft_status find_line(const plan_curve *c, double smallest, double least, double most, double at, arena *scratch,
                             bucket_line *out) {
    if (c->table || c->nccl.machine || c->is_split) return line_of_samples(c, smallest, least, most, at, scratch, out);
    *out = line_of_links(c, least, most, at);
    return NULL;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

static int64_t alone_of(int64_t ns) {
    return (ns < BUCKET_MOST_NS ? ns : BUCKET_MOST_NS) * BUCKET_PARTS;
}

/* The latency goes no further than what the quickest item takes alone. */
static void weigh_all(bucket_weighed *w, const bucket_item *const *items, const int64_t *alone_ns, size_t n) {
    double slope = 0;
    w->latency = w->excess = 0;
    for (size_t k = 0; k < w->nlines; k++) w->latency += w->lines[k].latency;
    for (size_t k = 0; k < w->nlines; k++) slope += w->lines[k].slope;
    for (size_t i = 0; i < n; i++) {
        int64_t by_bytes = (int64_t)(slope * (double)items[i]->padded * BUCKET_PARTS);
        int64_t left = alone_of(alone_ns[i]) - w->latency;
        if (by_bytes - left > w->excess) w->excess = by_bytes - left;
        w->weights[i] = w->lines && by_bytes < left ? by_bytes : left;
    }
}

void bucket_weigh_lower(bucket_weighed *w, int64_t by, const bucket_item *const *items, const int64_t *alone_ns,
                        size_t n) {
    for (size_t k = 0; k < w->nlines && by > 0; k++) {
        int64_t take = by < w->lines[k].latency ? by : w->lines[k].latency;
        w->lines[k].latency -= take;
        by -= take;
    }
    weigh_all(w, items, alone_ns, n);
}

weft_status bucket_weigh(const bucket_kind *kind, size_t ncurves, const bucket_item *const *items,
                         const int64_t *alone_ns, size_t n, size_t at, arena *scratch, bucket_weighed *out) {
    size_t total = 0, least[2] = {SIZE_MAX, SIZE_MAX};
    int64_t quickest = INT64_MAX, latency = 0;
    *out = (bucket_weighed){.weights = ARENA_ARRAY(scratch, int64_t, n + 1)};
    if (!out->weights) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        size_t nbytes = items[i]->padded;
        total += nbytes;
        if (nbytes < least[0])
            least[1] = least[0], least[0] = nbytes;
        else if (nbytes < least[1])
            least[1] = nbytes;
        if (alone_of(alone_ns[i]) < quickest) quickest = alone_of(alone_ns[i]);
    }
    if (n > 1 && ncurves) {
        out->nlines = ncurves;
        if (!(out->lines = ARENA_ARRAY(scratch, bucket_line, ncurves))) return base_out_of_memory();
    }
    for (size_t k = 0; k < out->nlines; k++) {
        TRY(find_line(&kind->curves[k], (double)(least[0] ? least[0] : 1), (double)(least[0] + least[1]), (double)total,
                      (double)(at < total ? at : total), scratch, &out->lines[k]));
        latency += out->lines[k].latency;
    }
    bucket_weigh_lower(out, latency - quickest, items, alone_ns, n);
    return NULL;
}
