/* grid.c: images and volumes looked at through a grid of positions, grids from affine maps, and gradients.
 *
 * A position of -1 is the left or upper edge, 1 the other: of the image (align_corners false), or the middle of its
 * outermost elements (true). Outside are zeros, the nearest element of the border, or the image mirrored. Paddle:
 * phi/kernels/cpu/grid_sample_kernel.cc, affine_grid_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_GRID, IN_OUT_GRAD, OUT = 0, OUT_X_GRAD = 0, OUT_GRID_GRAD };
enum { SPACE = 3, NCORNERS = 1 << SPACE }; /* spatial axes at most, the last one first: x, y, z */
typedef enum border { ZEROS, BORDER, REFLECTION, NBORDERS } border;

typedef struct grid_state {
    int naxes; /* 2: images; 3: volumes */
    int64_t count, channels, extent[SPACE], step[SPACE], size;
    int64_t places; /* in the grid of an image */
    border border;
    bool corners, nearest;
} grid_state;

/* A position in elements, and how it changes with the grid's number. */
typedef struct place {
    double at, slope;
} place;

static bool fits(const tensor *x, const tensor *grid) {
    return (x->ndim == 4 || x->ndim == 5) && grid->ndim == x->ndim && grid->dims[0] == x->dims[0] &&
           grid->dims[grid->ndim - 1] == x->ndim - 2;
}

static void read_extents(grid_state *s, const tensor *x, const tensor *grid) {
    s->naxes = x->ndim - 2;
    s->count = x->dims[0];
    s->channels = x->dims[1];
    s->size = s->places = 1;
    for (int a = 0; a < s->naxes; a++) {
        s->extent[a] = x->dims[x->ndim - 1 - a];
        s->step[a] = s->size;
        s->size *= s->extent[a];
        s->places *= grid->dims[1 + a];
    }
}

static weft_status prepare_common(kernel_prepare *p, const tensor *y) {
    static const char *const borders[NBORDERS] = {"zeros", "border", "reflection"};
    grid_state *s = KERNEL_STATE(p, grid_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *grid = type_in(p, IN_GRID);
    const char *mode = attr_string(p->op, "mode", "bilinear"), *padding = attr_string(p->op, "padding_mode", "zeros");
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, grid, "Grid"));
    TRY(require_present(p, y, "Output"));
    if (!fits(x, grid))
        return kernel_unsupported(p, "expected X [image, channel, row, column] and Grid [image, row, column, 2], or "
                                     "volumes with one dimension more");
    read_extents(s, x, grid);
    TRY(require_like(p, x, y, s->count * s->channels * s->places, "Output"));
    s->corners = attr_bool(p->op, "align_corners", true);
    s->nearest = strcmp(mode, "nearest") == 0;
    if (!s->nearest && strcmp(mode, "bilinear") != 0)
        return kernel_unsupported(p, "mode: expected bilinear or nearest, found %s", mode);
    while (s->border < NBORDERS && strcmp(padding, borders[s->border]) != 0) s->border++;
    return s->border < NBORDERS ? NULL : kernel_unsupported(p, "padding_mode: found %s", padding);
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_OUT_GRAD)));
    TRY(require_like(p, type_in(p, IN_X), type_out(p, OUT_X_GRAD), type_in(p, IN_X)->numel, "X@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, OUT_GRID_GRAD), type_in(p, IN_GRID)->numel, "Grid@GRAD");
}

static place mirrored(place p, double low, double high) {
    double span = high - low;
    if (span <= 0) return (place){0, 0};
    double from = fabs(p.at - low), turns = floor(from / span), rest = from - turns * span;
    double sign = p.at < low ? -1 : 1;
    if (fmod(turns, 2) == 0) return (place){rest + low, p.slope * sign};
    return (place){span - rest + low, -p.slope * sign};
}

static place place_of(const grid_state *s, double number, int64_t extent) {
    double n = (double)extent;
    place p =
        s->corners ? (place){(number + 1) * (n - 1) / 2, (n - 1) / 2} : (place){((number + 1) * n - 1) / 2, n / 2};
    if (s->border == REFLECTION) p = s->corners ? mirrored(p, 0, n - 1) : mirrored(p, -0.5, n - 0.5);
    if (s->border != ZEROS) {
        if (p.at <= 0) p = (place){0, 0};
        if (p.at >= n - 1) p = (place){n - 1, 0};
    }
    return p;
}

/* An element near a position, and its weight. */
typedef struct corner {
    int64_t at;
    double weight, by[SPACE]; /* and how the weight changes with the position */
    bool inside;
} corner;

/* In volumes a position outside is not rounded to the edge, as in Paddle. */
static bool is_beyond(const grid_state *s, double at, int axis) {
    return s->naxes == SPACE && (at < 0 || at > (double)(s->extent[axis] - 1));
}

static corner corner_at(const grid_state *s, const place *places, int which) {
    corner r = {.weight = 1, .inside = true};
    for (int a = 0; a < s->naxes; a++) r.by[a] = 1;
    for (int a = 0; a < s->naxes; a++) {
        bool up = which >> a & 1;
        double low = floor(places[a].at), beyond = places[a].at - low, weight = up ? beyond : 1 - beyond;
        int64_t at = s->nearest ? (int64_t)nearbyint(places[a].at) : (int64_t)low + up;
        if (s->nearest) weight = 1;
        r.weight *= weight;
        for (int b = 0; b < s->naxes; b++) r.by[b] *= b != a ? weight : s->nearest ? 0 : up ? 1 : -1;
        r.inside = r.inside && at >= 0 && at < s->extent[a] && !(s->nearest && is_beyond(s, places[a].at, a));
        r.at += at * s->step[a];
    }
    return r;
}

static int corners_at(const grid_state *s, const tensor *grid, int64_t at, corner out[NCORNERS], double slope[SPACE]) {
    place places[SPACE];
    bool is_there = true;
    for (int a = 0; a < s->naxes; a++) {
        places[a] = place_of(s, tensor_real(grid, s->naxes * at + a), s->extent[a]);
        slope[a] = places[a].slope;
        is_there = is_there && fabs(places[a].at) < 1e15;
    }
    int n = !is_there ? 0 : s->nearest ? 1 : 1 << s->naxes;
    for (int k = 0; k < n; k++) out[k] = corner_at(s, places, k);
    return n;
}

static weft_status run(const kernel_call *c) {
    const grid_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *grid = arg_in(c, IN_GRID);
    for (int64_t i = 0; i < s->count * s->places; i++) {
        corner corners[NCORNERS];
        double slope[SPACE];
        int n = corners_at(s, grid, i, corners, slope);
        for (int64_t ch = 0; ch < s->channels; ch++) {
            int64_t image = i / s->places * s->channels + ch;
            double sum = 0;
            for (int k = 0; k < n; k++)
                if (corners[k].inside) sum += corners[k].weight * tensor_real(x, image * s->size + corners[k].at);
            tensor_set_real(arg_out(c, OUT), image * s->places + i % s->places, sum);
        }
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const grid_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *grid = arg_in(c, IN_GRID), *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dgrid = arg_out(c, OUT_GRID_GRAD);
    tensor_clear(dx);
    for (int64_t i = 0; i < s->count * s->places; i++) {
        corner corners[NCORNERS];
        double slope[SPACE], by[SPACE] = {0};
        int n = corners_at(s, grid, i, corners, slope);
        for (int64_t ch = 0; ch < s->channels; ch++) {
            int64_t image = i / s->places * s->channels + ch;
            double down = tensor_real(g, image * s->places + i % s->places);
            for (int k = 0; k < n; k++) {
                if (!corners[k].inside) continue;
                int64_t at = image * s->size + corners[k].at;
                tensor_add_real(dx, at, corners[k].weight * down);
                for (int a = 0; a < s->naxes; a++) by[a] += corners[k].by[a] * tensor_real(x, at) * down;
            }
        }
        for (int a = 0; a < s->naxes && dgrid; a++) tensor_set_real(dgrid, s->naxes * i + a, by[a] * slope[a]);
    }
    return NULL;
}

const kernel kernel_grid_sampler = {prepare, run};
const kernel kernel_grid_sampler_grad = {prepare_grad, run_grad};

/* --- affine_grid -------------------------------------------------------------------------------------------------- */

typedef struct affine_state {
    int naxes;
    int64_t count, places, extent[SPACE]; /* of an image's grid: x, y, z */
    bool corners;
} affine_state;

static weft_status prepare_affine(kernel_prepare *p, const tensor *theta, const tensor *grid) {
    affine_state *s = KERNEL_STATE(p, affine_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, theta, "Theta"));
    TRY(require_present(p, grid, "Output"));
    TRY(require_same_dtype(p, theta, grid, "Output"));
    int n = grid->ndim - 2;
    if ((n != 2 && n != 3) || grid->dims[n + 1] != n || theta->numel != grid->dims[0] * n * (n + 1))
        return kernel_unsupported(p, "expected Theta [image, 2, 3] and Output [image, row, column, 2], or Theta "
                                     "[image, 3, 4] and Output of volumes");
    *s = (affine_state){.naxes = n, .count = grid->dims[0], .places = 1};
    s->corners = attr_bool(p->op, "align_corners", true);
    for (int a = 0; a < n; a++) {
        s->extent[a] = grid->dims[n - a];
        s->places *= s->extent[a];
    }
    return NULL;
}

static weft_status prepare_affine_grid(kernel_prepare *p) {
    return prepare_affine(p, type_in(p, 0), type_out(p, 0));
}
static weft_status prepare_affine_grid_grad(kernel_prepare *p) {
    return prepare_affine(p, type_out(p, 0), type_in(p, 0));
}

static double step_at(const affine_state *s, int64_t i, int64_t n) {
    if (s->corners) return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
    return (2 * (double)i + 1) / (double)n - 1;
}

/* What a row of Theta is multiplied with at a place: x, y, (z,) 1. */
static void steps_at(const affine_state *s, int64_t i, double out[SPACE + 1]) {
    for (int a = 0; a < s->naxes; i /= s->extent[a++]) out[a] = step_at(s, i % s->extent[a], s->extent[a]);
    out[s->naxes] = 1;
}

static weft_status run_affine_grid(const kernel_call *c) {
    const affine_state *s = c->state;
    const tensor *theta = arg_in(c, 0);
    int n = s->naxes;
    for (int64_t i = 0; i < s->count * s->places; i++) {
        double steps[SPACE + 1];
        steps_at(s, i % s->places, steps);
        for (int k = 0; k < n; k++) {
            int64_t row = (i / s->places * n + k) * (n + 1);
            double sum = 0;
            for (int a = 0; a <= n; a++) sum += tensor_real(theta, row + a) * steps[a];
            tensor_set_real(arg_out(c, 0), n * i + k, sum);
        }
    }
    return NULL;
}

static weft_status run_affine_grid_grad(const kernel_call *c) {
    const affine_state *s = c->state;
    const tensor *g = arg_in(c, 0);
    int n = s->naxes;
    for (int64_t image = 0; image < s->count; image++) {
        double sum[SPACE][SPACE + 1] = {0};
        for (int64_t i = 0; i < s->places; i++) {
            double steps[SPACE + 1];
            steps_at(s, i, steps);
            for (int k = 0; k < n; k++) {
                double down = tensor_real(g, n * (image * s->places + i) + k);
                for (int a = 0; a <= n; a++) sum[k][a] += down * steps[a];
            }
        }
        for (int k = 0; k < n; k++)
            for (int a = 0; a <= n; a++) tensor_set_real(arg_out(c, 0), (image * n + k) * (n + 1) + a, sum[k][a]);
    }
    return NULL;
}

const kernel kernel_affine_grid = {prepare_affine_grid, run_affine_grid};
const kernel kernel_affine_grid_grad = {prepare_affine_grid_grad, run_affine_grid_grad};
