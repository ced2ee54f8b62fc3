/* aten_upsample_real.h: the loops of aten_upsample.c; a template (executor/kernels/each_real.h). */

/* Two elements along an axis, and the weight of each; of the nearest, one. */
typedef struct NAME(place) {
    int64_t first, second;
    REAL weight[2];
} NAME(place);

static NAME(place) NAME(nearest)(const resize_axis *a, int64_t i) {
    REAL scale = a->scale > 0 ? (REAL)a->scale : (REAL)a->from / (REAL)a->to;
    int64_t at = a->to == a->from ? i : a->to == 2 * a->from ? i / 2 : (int64_t)floor((double)((REAL)i * scale));
    if (at > a->from - 1) at = a->from - 1;
    return (NAME(place)){at, at, {1, 0}};
}

static NAME(place) NAME(between)(const resize_axis *a, bool align_corners, int64_t i) {
    REAL at;
    if (a->to == a->from) return (NAME(place)){i, i, {1, 0}};
    if (align_corners) {
        REAL scale = a->to > 1 ? (REAL)(a->from - 1) / (REAL)(a->to - 1) : 0;
        at = scale * (REAL)i;
    } else {
        REAL scale = a->scale > 0 ? (REAL)a->scale : (REAL)a->from / (REAL)a->to;
        at = scale * ((REAL)i + (REAL)0.5) - (REAL)0.5;
        if (at < 0) at = 0;
    }
    int64_t first = (int64_t)at < a->from - 1 ? (int64_t)at : a->from - 1;
    REAL rest = at - (REAL)first;
    rest = rest < 0 ? 0 : rest > 1 ? 1 : rest;
    return (NAME(place)){first, first + (first < a->from - 1), {1 - rest, rest}};
}

static NAME(place) NAME(place_of)(const upsample_state *s, int d, int64_t i) {
    return s->bilinear ? NAME(between)(&s->axis[d], s->align_corners, i) : NAME(nearest)(&s->axis[d], i);
}

static void NAME(resize)(const upsample_state *s, const REAL *x, REAL *y) {
    int64_t height = s->axis[0].to, width = s->axis[1].to, row = s->axis[1].from, plane = s->axis[0].from * row;
    for (int64_t h = 0; h < height; h++)
        for (int64_t w = 0; w < width; w++) {
            NAME(place) a = NAME(place_of)(s, 0, h), b = NAME(place_of)(s, 1, w);
            for (int64_t p = 0; p < s->planes; p++) {
                const REAL *top = x + p * plane + a.first * row, *bottom = x + p * plane + a.second * row;
                REAL *to = &y[(p * height + h) * width + w];
                *to = s->bilinear ? a.weight[0] * (b.weight[0] * top[b.first] + b.weight[1] * top[b.second]) +
                                        a.weight[1] * (b.weight[0] * bottom[b.first] + b.weight[1] * bottom[b.second])
                                  : top[b.first];
            }
        }
}

static void NAME(spread)(const upsample_state *s, REAL *dx, const REAL *dy) {
    int64_t height = s->axis[0].to, width = s->axis[1].to, row = s->axis[1].from, plane = s->axis[0].from * row;
    for (int64_t h = 0; h < height; h++)
        for (int64_t w = 0; w < width; w++) {
            NAME(place) a = NAME(place_of)(s, 0, h), b = NAME(place_of)(s, 1, w);
            for (int64_t p = 0; p < s->planes; p++) {
                REAL *top = dx + p * plane + a.first * row, *bottom = dx + p * plane + a.second * row;
                REAL g = dy[(p * height + h) * width + w];
                top[b.first] += a.weight[0] * b.weight[0] * g;
                if (!s->bilinear) continue;
                top[b.second] += a.weight[0] * b.weight[1] * g;
                bottom[b.first] += a.weight[1] * b.weight[0] * g;
                bottom[b.second] += a.weight[1] * b.weight[1] * g;
            }
        }
}
