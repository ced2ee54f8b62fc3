/* Kernels that resize volumes and look at them through grids, on fields of which the answers are known. */
#include <criterion/criterion.h>
#include <math.h>

#include "tests/support/kernel_run.h"

static void set_dims(tensor *t, int ndim, const int64_t *dims) {
    t->ndim = ndim;
    t->numel = 1;
    for (int d = 0; d < ndim; d++) t->numel *= t->dims[d] = dims[d];
}
static void in5(kernel_test *t, const char *to, const float *data, const int64_t dims[5]) {
    set_dims(kernel_test_in(t, to, WEFT_FP32, data, 1, -1, -1), 5, dims);
}
static void out5(kernel_test *t, const char *to, float *data, const int64_t dims[5]) {
    set_dims(kernel_test_out(t, to, WEFT_FP32, data, 1, -1, -1), 5, dims);
}

enum { D = 3, H = 4, W = 5, SIZE = D * H * W, PLACES = 8 };
static const int64_t volume_dims[] = {1, 1, D, H, W}, grid_dims[] = {1, 2, 2, 2, 3}, seen_dims[] = {1, 1, 2, 2, 2};

/* A field that is linear in x, y and z, so that it is met exactly between its elements too. */
static float field(float x, float y, float z) {
    return 1 + 2 * x + 3 * y + 5 * z;
}
static void make_field(float *x) {
    for (int i = 0; i < SIZE; i++) x[i] = field((float)(i % W), (float)(i / W % H), (float)(i / W / H));
}

static void grid_op(kernel_test *t, const char *type, const float *x, const float *grid) {
    kernel_test_init(t, type);
    kernel_put_bool(t, "align_corners", true);
    in5(t, "X", x, volume_dims);
    in5(t, "Grid", grid, grid_dims);
}

Test(kernels_volumes, a_grid_meets_a_linear_field) {
    float x[SIZE], out[PLACES], *grid = kernel_noise(PLACES * 3, 1); /* positions well inside */
    kernel_test t;
    make_field(x);
    grid_op(&t, "grid_sampler", x, grid);
    out5(&t, "Output", out, seen_dims);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < PLACES; i++) {
        const float *g = grid + 3 * i;
        float want = field((g[0] + 1) * (W - 1) / 2, (g[1] + 1) * (H - 1) / 2, (g[2] + 1) * (D - 1) / 2);
        cr_expect(fabsf(out[i] - want) < 1e-4f, "place %d: %g, not %g", i, (double)out[i], (double)want);
    }
    kernel_test_fini(&t);
    free(grid);
}

Test(kernels_volumes, gradients_of_a_grid) {
    float x[SIZE], g[PLACES], dx[SIZE], dgrid[PLACES * 3], *grid = kernel_noise(PLACES * 3, 2), sum = 0, want = 0;
    kernel_test t;
    make_field(x);
    for (int i = 0; i < PLACES; i++) want += g[i] = (float)(i + 1);
    grid_op(&t, "grid_sampler_grad", x, grid);
    in5(&t, "Output@GRAD", g, seen_dims);
    out5(&t, "X@GRAD", dx, volume_dims);
    out5(&t, "Grid@GRAD", dgrid, grid_dims);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < SIZE; i++) sum += dx[i];
    cr_expect(fabsf(sum - want) < 1e-3f, "weights of a place add up to 1: %g, not %g", (double)sum, (double)want);
    for (int i = 0; i < PLACES; i++)
        for (int a = 0; a < 3; a++) {
            static const float slope[] = {2.f * (W - 1) / 2, 3.f * (H - 1) / 2, 5.f * (D - 1) / 2};
            cr_expect(fabsf(dgrid[3 * i + a] - slope[a] * g[i]) < 1e-3f, "place %d, axis %d: %g", i, a,
                      (double)dgrid[3 * i + a]);
        }
    kernel_test_fini(&t);
    free(grid);
}

Test(kernels_volumes, nearest_is_zero_outside) {
    float x[SIZE], out[PLACES], grid[PLACES * 3] = {0};
    kernel_test t;
    make_field(x);
    grid[0] = -1.1f; /* rounds to the edge, and is beyond it */
    grid_op(&t, "grid_sampler", x, grid);
    kernel_put_string(&t, "mode", "nearest");
    out5(&t, "Output", out, seen_dims);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(out[0], 0);
    cr_expect_eq(out[1], field(2, 2, 1), "%g", (double)out[1]); /* 1.5 rounds to even */
    kernel_test_fini(&t);
}

/* The identity gives each place its own coordinates; the gradient is the transposed map. */
Test(kernels_volumes, affine_grids_of_volumes) {
    static const float identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    float out[PLACES * 3], dtheta[12], *theta = kernel_noise(12, 3), *g = kernel_noise(PLACES * 3, 4);
    double forward = 0, backward = 0;
    for (int pass = 0; pass < 2; pass++) {
        kernel_test t;
        kernel_test_init(&t, "affine_grid");
        kernel_test_in(&t, "Theta", WEFT_FP32, pass ? theta : identity, 1, 3, 4);
        out5(&t, "Output", out, grid_dims);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        for (int i = 0; i < PLACES * 3 && !pass; i++)
            cr_expect_eq(out[i], (i / 3 >> i % 3 & 1) ? 1 : -1, "place %d, axis %d: %g", i / 3, i % 3, (double)out[i]);
    }
    kernel_test t;
    kernel_test_init(&t, "affine_grid_grad");
    in5(&t, "Output@GRAD", g, grid_dims);
    kernel_test_out(&t, "Theta@GRAD", WEFT_FP32, dtheta, 1, 3, 4);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < PLACES * 3; i++) forward += (double)out[i] * (double)g[i];
    for (int i = 0; i < 12; i++) backward += (double)theta[i] * (double)dtheta[i];
    cr_expect(fabs(forward - backward) < 1e-4, "%g and %g", forward, backward);
    kernel_test_fini(&t);
    free(theta);
    free(g);
}

static void resize(const char *type, const char *layout, const float *x, const int64_t *from, float *y,
                   const int64_t *to) {
    kernel_test t;
    kernel_test_init(&t, type);
    kernel_put_string(&t, "data_layout", layout);
    kernel_put_string(&t, "interp_method", strcmp(type, "nearest_interp_v2") == 0 ? "nearest" : "trilinear");
    kernel_put_bool(&t, "align_corners", false);
    in5(&t, "X", x, from);
    out5(&t, "Out", y, to);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s %s", type, layout);
    kernel_test_fini(&t);
}

Test(kernels_volumes, twice_as_large_by_the_nearest_repeats) {
    static const int64_t large[] = {1, 1, 2 * D, 2 * H, 2 * W};
    float x[SIZE], y[8 * SIZE];
    make_field(x);
    resize("nearest_interp_v2", "NCHW", x, volume_dims, y, large);
    for (int i = 0; i < 8 * SIZE; i++) {
        int e = i % (2 * W) / 2, r = i / (2 * W) % (2 * H) / 2, z = i / (2 * W) / (2 * H) / 2;
        cr_expect_eq(y[i], x[(z * H + r) * W + e], "element %d", i);
    }
}

/* Two channels, before the spatial dimensions and behind them. */
Test(kernels_volumes, channels_last_is_the_same) {
    static const char *const types[] = {"nearest_interp_v2", "trilinear_interp_v2"};
    static const int64_t first[] = {1, 2, D, H, W}, last[] = {1, D, H, W, 2}, to_first[] = {1, 2, 4, 3, 7},
                         to_last[] = {1, 4, 3, 7, 2};
    enum { TO = 4 * 3 * 7 };
    float *x = kernel_noise(2 * SIZE, 5), turned[2 * SIZE], y[2 * TO], z[2 * TO];
    for (int i = 0; i < 2 * SIZE; i++) turned[i % SIZE * 2 + i / SIZE] = x[i];
    for (int k = 0; k < 2; k++) {
        resize(types[k], "NCHW", x, first, y, to_first);
        resize(types[k], "NHWC", turned, last, z, to_last);
        for (int i = 0; i < 2 * TO; i++) cr_expect_eq(y[i], z[i % TO * 2 + i / TO], "%s, element %d", types[k], i);
    }
    free(x);
}
