/* aten_upsample_real.h: the loops of aten_upsample.c; a template (executor/kernels/each_real.h). */

/* Elements along an axis, and the weight of each. */
typedef struct NAME(place) {
    int ntaps;
    int64_t at[TAPS];
    REAL weight[TAPS];
} NAME(place);

static NAME(place) NAME(nearest)(const resize_axis *a, bool exact, int64_t i) {
    REAL scale = a->scale > 0 ? (REAL)a->scale : (REAL)a->from / (REAL)a->to;
    int64_t at;
    if (exact)
        at = (int64_t)floor((double)(((REAL)i + (REAL)0.5) * scale));
    else
        at = a->to == a->from ? i : a->to == 2 * a->from ? i / 2 : (int64_t)floor((double)((REAL)i * scale));
    if (at > a->from - 1) at = a->from - 1;
    return (NAME(place)){1, {at}, {1}};
}

/* Where element i of the large image lies in the small one. */
static REAL NAME(position)(const resize_axis *a, bool align_corners, int64_t i) {
    if (align_corners) return (a->to > 1 ? (REAL)(a->from - 1) / (REAL)(a->to - 1) : 0) * (REAL)i;
    REAL scale = a->scale > 0 ? (REAL)a->scale : (REAL)a->from / (REAL)a->to;
    return scale * ((REAL)i + (REAL)0.5) - (REAL)0.5;
}

static NAME(place) NAME(between)(const resize_axis *a, bool align_corners, int64_t i) {
    if (a->to == a->from) return (NAME(place)){1, {i}, {1}};
    REAL at = NAME(position)(a, align_corners, i);
    if (at < 0) at = 0;
    int64_t first = (int64_t)at < a->from - 1 ? (int64_t)at : a->from - 1;
    REAL rest = at - (REAL)first;
    rest = rest < 0 ? 0 : rest > 1 ? 1 : rest;
    return (NAME(place)){2, {first, first + (first < a->from - 1)}, {1 - rest, rest}};
}

/* Keys' curve with a = -0.75, of a distance below 1, and from 1 to 2. */
static REAL NAME(near)(REAL x) {
    return ((REAL)1.25 * x - (REAL)2.25) * x * x + 1;
}
static REAL NAME(far)(REAL x) {
    return (((REAL)-0.75 * x + (REAL)3.75) * x - 6) * x + 3;
}

static NAME(place) NAME(curve)(const resize_axis *a, bool align_corners, int64_t i) {
    if (a->to == a->from) return (NAME(place)){1, {i}, {1}};
    REAL at = NAME(position)(a, align_corners, i);
    int64_t first = (int64_t)floor((double)at);
    REAL rest = at - (REAL)first;
    NAME(place) p = {TAPS, {0}, {NAME(far)(rest + 1), NAME(near)(rest), NAME(near)(1 - rest), NAME(far)(2 - rest)}};
    for (int k = 0; k < TAPS; k++) {
        int64_t tap = first - 1 + k;
        p.at[k] = tap < 0 ? 0 : tap > a->from - 1 ? a->from - 1 : tap;
    }
    return p;
}

static NAME(place) NAME(place_of)(const upsample_state *s, int d, int64_t i) {
    switch (s->mode) {
    case LINEAR: return NAME(between)(&s->axis[d], s->align_corners, i);
    case CUBIC: return NAME(curve)(&s->axis[d], s->align_corners, i);
    default: return NAME(nearest)(&s->axis[d], s->mode == NEAREST_EXACT, i);
    }
}

/* The places of element `at` of the large image, an axis each. */
static void NAME(places_of)(const upsample_state *s, int64_t at, NAME(place) places[SPATIAL]) {
    for (int d = SPATIAL - 1; d >= 0; d--) {
        places[d] = NAME(place_of)(s, d, at % s->axis[d].to);
        at /= s->axis[d].to;
    }
}

/* Sums of sums, the innermost ones along the last axis. */
static REAL NAME(sum_of)(const upsample_state *s, const NAME(place) places[SPATIAL], const REAL *x) {
    const NAME(place) *a = &places[0], *b = &places[1], *c = &places[2];
    REAL sum = 0;
    for (int i = 0; i < a->ntaps; i++) {
        REAL plane = 0;
        for (int j = 0; j < b->ntaps; j++) {
            const REAL *from = x + (a->at[i] * s->axis[1].from + b->at[j]) * s->axis[2].from;
            REAL row = c->weight[0] * from[c->at[0]];
            for (int k = 1; k < c->ntaps; k++) row += c->weight[k] * from[c->at[k]];
            plane = j ? plane + b->weight[j] * row : b->weight[j] * row;
        }
        sum = i ? sum + a->weight[i] * plane : a->weight[i] * plane;
    }
    return sum;
}

static void NAME(resize)(const upsample_state *s, const REAL *x, REAL *y) {
    NAME(place) places[SPATIAL];
    for (int64_t i = 0; i < s->to_numel; i++) {
        NAME(places_of)(s, i, places);
        for (int64_t p = 0; p < s->planes; p++) y[p * s->to_numel + i] = NAME(sum_of)(s, places, x + p * s->from_numel);
    }
}

static void NAME(spread_to)(const upsample_state *s, const NAME(place) places[SPATIAL], REAL *dx, REAL g) {
    const NAME(place) *a = &places[0], *b = &places[1], *c = &places[2];
    for (int i = 0; i < a->ntaps; i++)
        for (int j = 0; j < b->ntaps; j++) {
            REAL *to = dx + (a->at[i] * s->axis[1].from + b->at[j]) * s->axis[2].from;
            for (int k = 0; k < c->ntaps; k++) to[c->at[k]] += a->weight[i] * b->weight[j] * c->weight[k] * g;
        }
}

static void NAME(spread)(const upsample_state *s, REAL *dx, const REAL *dy) {
    NAME(place) places[SPATIAL];
    for (int64_t i = 0; i < s->to_numel; i++) {
        NAME(places_of)(s, i, places);
        for (int64_t p = 0; p < s->planes; p++)
            NAME(spread_to)(s, places, dx + p * s->from_numel, dy[p * s->to_numel + i]);
    }
}
