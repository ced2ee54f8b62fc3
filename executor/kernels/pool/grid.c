/* grid.c: images looked at through a grid of positions, grids from affine maps, and gradients.
 *
 * A position of -1 is the left or upper edge, 1 the other: of the image (align_corners false), or the middle of its
 * outermost elements (true). Outside are zeros, the nearest element of the border, or the image mirrored. Paddle:
 * phi/kernels/cpu/grid_sample_kernel.cc, affine_grid_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_GRID, IN_OUT_GRAD, OUT = 0, OUT_X_GRAD = 0, OUT_GRID_GRAD };
typedef enum border { ZEROS, BORDER, REFLECTION, NBORDERS } border;

typedef struct grid_state {
    int64_t count, channels, height, width, rows, columns;
    border border;
    bool corners, nearest;
} grid_state;

/* A position in elements, and how it changes with the grid's number. */
typedef struct place {
    double at, slope;
} place;

static weft_status prepare_common(kernel_prepare *p, const tensor *y) {
    static const char *const borders[NBORDERS] = {"zeros", "border", "reflection"};
    grid_state *s = KERNEL_STATE(p, grid_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *grid = type_in(p, IN_GRID);
    const char *mode = attr_string(p->op, "mode", "bilinear"), *padding = attr_string(p->op, "padding_mode", "zeros");
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, grid, "Grid"));
    TRY(require_present(p, y, "Output"));
    if (x->ndim != 4 || grid->ndim != 4 || grid->dims[3] != 2 || grid->dims[0] != x->dims[0])
        return kernel_unsupported(p, "expected X [image, channel, row, column] and Grid [image, row, column, 2]");
    *s = (grid_state){.count = x->dims[0],
                      .channels = x->dims[1],
                      .height = x->dims[2],
                      .width = x->dims[3],
                      .rows = grid->dims[1],
                      .columns = grid->dims[2]};
    TRY(require_like(p, x, y, s->count * s->channels * s->rows * s->columns, "Output"));
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

/* The elements around a position and their weights: [row][column]. */
typedef struct corner {
    int64_t row, column;
    double weight, by_row, by_column; /* and how the weight changes with the position */
    bool inside;
} corner;

static int corners_at(const grid_state *s, const tensor *grid, int64_t at, corner out[4], double slope[2]) {
    place x = place_of(s, tensor_real(grid, 2 * at), s->width),
          y = place_of(s, tensor_real(grid, 2 * at + 1), s->height);
    slope[0] = x.slope, slope[1] = y.slope;
    if (!(fabs(x.at) < 1e15) || !(fabs(y.at) < 1e15)) return 0;
    double left = floor(x.at), top = floor(y.at);
    int n = 0;
    if (s->nearest) {
        out[n++] = (corner){(int64_t)nearbyint(y.at), (int64_t)nearbyint(x.at), 1, 0, 0, false};
    } else {
        for (int r = 0; r < 2; r++)
            for (int k = 0; k < 2; k++) {
                double wy = r ? y.at - top : 1 - (y.at - top), wx = k ? x.at - left : 1 - (x.at - left);
                out[n++] = (corner){(int64_t)top + r, (int64_t)left + k, wy * wx, r ? wx : -wx, k ? wy : -wy, false};
            }
    }
    for (int i = 0; i < n; i++)
        out[i].inside = out[i].row >= 0 && out[i].row < s->height && out[i].column >= 0 && out[i].column < s->width;
    return n;
}

static weft_status run(const kernel_call *c) {
    const grid_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *grid = arg_in(c, IN_GRID);
    int64_t places = s->rows * s->columns, size = s->height * s->width;
    for (int64_t i = 0; i < s->count * places; i++) {
        corner corners[4];
        double slope[2];
        int n = corners_at(s, grid, i, corners, slope);
        for (int64_t ch = 0; ch < s->channels; ch++) {
            int64_t image = i / places * s->channels + ch;
            double sum = 0;
            for (int k = 0; k < n; k++)
                if (corners[k].inside)
                    sum += corners[k].weight *
                           tensor_real(x, image * size + corners[k].row * s->width + corners[k].column);
            tensor_set_real(arg_out(c, OUT), image * places + i % places, sum);
        }
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const grid_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *grid = arg_in(c, IN_GRID), *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dgrid = arg_out(c, OUT_GRID_GRAD);
    int64_t places = s->rows * s->columns, size = s->height * s->width;
    tensor_clear(dx);
    for (int64_t i = 0; i < s->count * places; i++) {
        corner corners[4];
        double slope[2], by_row = 0, by_column = 0;
        int n = corners_at(s, grid, i, corners, slope);
        for (int64_t ch = 0; ch < s->channels; ch++) {
            int64_t image = i / places * s->channels + ch;
            double down = tensor_real(g, image * places + i % places);
            for (int k = 0; k < n; k++) {
                if (!corners[k].inside) continue;
                int64_t at = image * size + corners[k].row * s->width + corners[k].column;
                if (dx) tensor_set_real(dx, at, tensor_real(dx, at) + corners[k].weight * down);
                by_row += corners[k].by_row * tensor_real(x, at) * down;
                by_column += corners[k].by_column * tensor_real(x, at) * down;
            }
        }
        if (!dgrid) continue;
        tensor_set_real(dgrid, 2 * i, by_column * slope[0]);
        tensor_set_real(dgrid, 2 * i + 1, by_row * slope[1]);
    }
    return NULL;
}

const kernel kernel_grid_sampler = {prepare, run};
const kernel kernel_grid_sampler_grad = {prepare_grad, run_grad};

/* --- affine_grid -------------------------------------------------------------------------------------------------- */

typedef struct affine_state {
    int64_t count, rows, columns;
    bool corners;
} affine_state;

static weft_status prepare_affine(kernel_prepare *p, const tensor *theta, const tensor *grid) {
    affine_state *s = KERNEL_STATE(p, affine_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, theta, "Theta"));
    TRY(require_present(p, grid, "Output"));
    TRY(require_same_dtype(p, theta, grid, "Output"));
    if (grid->ndim != 4 || grid->dims[3] != 2 || theta->numel != grid->dims[0] * 6)
        return kernel_unsupported(p, "expected Theta [image, 2, 3] and Output [image, row, column, 2]");
    *s = (affine_state){grid->dims[0], grid->dims[1], grid->dims[2], attr_bool(p->op, "align_corners", true)};
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

static weft_status run_affine_grid(const kernel_call *c) {
    const affine_state *s = c->state;
    const tensor *theta = arg_in(c, 0);
    for (int64_t i = 0; i < s->count * s->rows * s->columns; i++) {
        int64_t image = i / (s->rows * s->columns);
        double x = step_at(s, i % s->columns, s->columns), y = step_at(s, i / s->columns % s->rows, s->rows);
        for (int k = 0; k < 2; k++) {
            int64_t row = image * 6 + k * 3;
            tensor_set_real(arg_out(c, 0), 2 * i + k,
                            tensor_real(theta, row) * x + tensor_real(theta, row + 1) * y +
                                tensor_real(theta, row + 2));
        }
    }
    return NULL;
}

static weft_status run_affine_grid_grad(const kernel_call *c) {
    const affine_state *s = c->state;
    const tensor *g = arg_in(c, 0);
    int64_t places = s->rows * s->columns;
    for (int64_t image = 0; image < s->count; image++) {
        double sum[6] = {0};
        for (int64_t i = image * places; i < (image + 1) * places; i++)
            for (int k = 0; k < 2; k++) {
                double down = tensor_real(g, 2 * i + k);
                sum[3 * k] += down * step_at(s, i % s->columns, s->columns);
                sum[3 * k + 1] += down * step_at(s, i / s->columns % s->rows, s->rows);
                sum[3 * k + 2] += down;
            }
        for (int k = 0; k < 6; k++) tensor_set_real(arg_out(c, 0), image * 6 + k, sum[k]);
    }
    return NULL;
}

const kernel kernel_affine_grid = {prepare_affine_grid, run_affine_grid};
const kernel kernel_affine_grid_grad = {prepare_affine_grid_grad, run_affine_grid_grad};
