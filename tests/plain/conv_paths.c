/* conv_paths.c: every way of computing a convolution, its gradients, pooling and products against a naive reference,
 * over odd extents, strides, paddings, dilations and groups; and on 3 threads to the bit what one thread gives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/devices/cpu/pool.h"
#include "tests/support/kernel_run.h"

typedef struct shape2d {
    int64_t n, in, h, w, out, kh, kw, stride, pad, dilation, groups;
    bool last;        /* NHWC */
    double tolerance; /* 0: 1e-5 */
} shape2d;

static const shape2d shapes[] = {
    {2, 1, 28, 28, 6, 5, 5, 1, 2, 1, 1, false, 0},      /* few channels: straight from a copy */
    {3, 6, 14, 14, 16, 5, 5, 1, 0, 1, 1, false, 0},     /* rows shorter than a vector */
    {2, 3, 17, 33, 20, 3, 3, 1, 1, 1, 1, false, 0},     /* rows of two vectors and one window */
    {1, 3, 19, 23, 15, 3, 4, 2, 1, 1, 1, false, 0},     /* the copy's columns apart by parity */
    {2, 2, 12, 13, 5, 2, 3, 3, 2, 2, 1, false, 0},      /* by three, windows that reach beyond the border */
    {2, 33, 9, 11, 31, 3, 3, 1, 1, 1, 1, false, 0},     /* panels, more than one block of depth */
    {5, 40, 4, 4, 45, 3, 3, 1, 1, 1, 1, false, 0},      /* panels over several images, dx added back */
    {2, 30, 9, 7, 61, 3, 3, 2, 1, 1, 1, false, 0},      /* panels with strides */
    {2, 32, 8, 8, 33, 1, 1, 2, 0, 1, 1, false, 0},      /* single taps apart */
    {2, 17, 6, 6, 9, 1, 1, 1, 0, 1, 1, false, 0},       /* the image is the matrix */
    {2, 8, 10, 10, 8, 3, 3, 1, 1, 1, 8, false, 0},      /* depthwise */
    {2, 12, 9, 9, 8, 3, 3, 1, 2, 2, 4, false, 0},       /* groups, dilated */
    {1, 64, 5, 5, 64, 3, 3, 1, 1, 1, 2, false, 0},      /* groups in panels */
    {2, 5, 8, 7, 6, 3, 3, 2, 1, 1, 1, true, 0},         /* channels last */
    {1, 2, 40, 40, 3, 7, 7, 1, 3, 1, 1, false, 0},      /* 49 taps */
    {16, 1, 12, 12, 6, 5, 5, 1, 2, 1, 1, false, 0},     /* an image in each lane */
    {30, 3, 9, 11, 17, 3, 2, 2, 1, 2, 1, false, 0},     /* two images missing, strides and dilations */
    {16, 4, 6, 7, 6, 3, 3, 1, 0, 1, 2, false, 0},       /* groups in lanes */
    {4, 3, 9, 17, 300, 3, 3, 2, 1, 1, 1, false, 0},     /* dx over more than one block of depth */
    {2, 100, 7, 9, 20, 1, 1, 2, 0, 1, 1, false, 0},     /* single taps apart, many channels */
    {2, 35, 17, 19, 37, 3, 3, 1, 1, 1, 1, false, 1e-4}, /* by tiles, cut off at the border */
    {3, 36, 16, 16, 40, 3, 3, 1, 1, 1, 1, false, 1e-4}, /* by tiles side by side */
    {4, 33, 8, 12, 36, 3, 3, 1, 1, 1, 1, false, 1e-4},  /* by tiles, three in a row */
    {6, 32, 16, 16, 33, 3, 3, 1, 1, 1, 1, false, 1e-4}, /* by tiles in two turns */
    {1, 64, 24, 22, 64, 3, 3, 1, 2, 1, 2, false, 1e-4}, /* by tiles, two groups */
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static int npassed, nfailed;

static void require(weft_status status) {
    if (!status) return;
    printf("%s\n", weft_status_message(status));
    exit(1);
}

static void set_longs(kernel_test *t, const char *n, int64_t a, int64_t b) {
    require(weft_op_set_attr_longs(t->op, n, 2, (int64_t[]){a, b}));
}

static int64_t extent(int64_t in, int64_t k, const shape2d *s) {
    return (in + 2 * s->pad - s->dilation * (k - 1) - 1) / s->stride + 1;
}

/* --- the reference ------------------------------------------------------------------------------------------------ */

typedef struct problem {
    shape2d s;
    int64_t oh, ow;
    size_t nx, nw, ny;
    float *x, *w, *dy;
    double *y, *dx, *dw;
} problem;

static size_t at(const shape2d *s, int64_t channels, int64_t h, int64_t w, int64_t n, int64_t c, int64_t y, int64_t x) {
    return (size_t)(s->last ? ((n * h + y) * w + x) * channels + c : ((n * channels + c) * h + y) * w + x);
}

static void add_window(problem *p, int64_t n, int64_t o, int64_t y, int64_t x) {
    const shape2d *s = &p->s;
    int64_t per = s->in / s->groups, first = o / (s->out / s->groups) * per;
    size_t to = at(s, s->out, p->oh, p->ow, n, o, y, x);
    for (int64_t c = 0; c < per; c++)
        for (int64_t i = 0; i < s->kh; i++)
            for (int64_t j = 0; j < s->kw; j++) {
                int64_t row = y * s->stride - s->pad + i * s->dilation,
                        column = x * s->stride - s->pad + j * s->dilation;
                if (row < 0 || row >= s->h || column < 0 || column >= s->w) continue;
                size_t from = at(s, s->in, s->h, s->w, n, first + c, row, column);
                size_t tap = (size_t)(((o * per + c) * s->kh + i) * s->kw + j);
                p->y[to] += (double)p->x[from] * (double)p->w[tap];
                p->dx[from] += (double)p->dy[to] * (double)p->w[tap];
                p->dw[tap] += (double)p->dy[to] * (double)p->x[from];
            }
}

static problem make_problem(const shape2d *s) {
    problem p = {.s = *s, .oh = extent(s->h, s->kh, s), .ow = extent(s->w, s->kw, s)};
    p.nx = (size_t)(s->n * s->in * s->h * s->w);
    p.nw = (size_t)(s->out * s->in / s->groups * s->kh * s->kw);
    p.ny = (size_t)(s->n * s->out * p.oh * p.ow);
    p.x = kernel_noise(p.nx, 1), p.w = kernel_noise(p.nw, 2), p.dy = kernel_noise(p.ny, 3);
    p.y = calloc(p.ny, sizeof *p.y), p.dx = calloc(p.nx, sizeof *p.dx), p.dw = calloc(p.nw, sizeof *p.dw);
    if (!p.y || !p.dx || !p.dw) exit(1);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t o = 0; o < s->out; o++)
            for (int64_t y = 0; y < p.oh; y++)
                for (int64_t x = 0; x < p.ow; x++) add_window(&p, n, o, y, x);
    return p;
}

static void free_problem(problem *p) {
    free(p->x), free(p->w), free(p->dy), free(p->y), free(p->dx), free(p->dw);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static void reshape(tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
    t->ndim = 4;
    t->dims[0] = a, t->dims[1] = b, t->dims[2] = c, t->dims[3] = d;
    t->numel = a * b * c * d;
}

static void put_images(const shape2d *s, tensor *t, int64_t channels, int64_t h, int64_t w) {
    if (s->last)
        reshape(t, s->n, h, w, channels);
    else
        reshape(t, s->n, channels, h, w);
}

static void set_attrs(kernel_test *t, const shape2d *s) {
    set_longs(t, "strides", s->stride, s->stride);
    set_longs(t, "paddings", s->pad, s->pad);
    set_longs(t, "dilations", s->dilation, s->dilation);
    require(weft_op_set_attr_int(t->op, "groups", s->groups));
    require(weft_op_set_attr_string(t->op, "data_format", s->last ? "NHWC" : "NCHW"));
}

/* y, or dx and dw, on `nthreads` threads. */
static void convolve(const problem *p, bool gradient, int nthreads, pool_slot *place, float *y, float *dx, float *dw) {
    const shape2d *s = &p->s;
    kernel_test t;
    kernel_test_init(&t, gradient ? "conv2d_grad" : "conv2d");
    set_attrs(&t, s);
    t.nthreads = nthreads;
    t.slot = place;
    put_images(s, kernel_test_in(&t, "Input", WEFT_FP32, p->x, 0, -1, -1), s->in, s->h, s->w);
    reshape(kernel_test_in(&t, "Filter", WEFT_FP32, p->w, 0, -1, -1), s->out, s->in / s->groups, s->kh, s->kw);
    if (gradient) {
        put_images(s, kernel_test_in(&t, "Output@GRAD", WEFT_FP32, p->dy, 0, -1, -1), s->out, p->oh, p->ow);
        put_images(s, kernel_test_out(&t, "Input@GRAD", WEFT_FP32, dx, 0, -1, -1), s->in, s->h, s->w);
        reshape(kernel_test_out(&t, "Filter@GRAD", WEFT_FP32, dw, 0, -1, -1), s->out, s->in / s->groups, s->kh, s->kw);
    } else {
        put_images(s, kernel_test_out(&t, "Output", WEFT_FP32, y, 0, -1, -1), s->out, p->oh, p->ow);
    }
    require(kernel_test_run(&t));
    kernel_test_fini(&t);
}

static void check(const char *what, int number, size_t count, const float *got, const float *threaded,
                  const double *want) {
    double tolerance = number >= 0 && shapes[number].tolerance > 0 ? shapes[number].tolerance : 1e-5;
    size_t bad = 0;
    while (bad < count && fabs((double)got[bad] - want[bad]) <= tolerance * (1 + fabs(want[bad]))) bad++;
    if (bad == count && memcmp(got, threaded, count * sizeof *got) == 0) {
        npassed++;
        return;
    }
    nfailed++;
    if (bad < count)
        printf("FAIL shape %d, %s: element %zu is %g, not %g\n", number, what, bad, (double)got[bad], want[bad]);
    else
        printf("FAIL shape %d, %s: 3 threads give other bits\n", number, what);
}

static void try_shape(int number, pool_slot *place) {
    problem p = make_problem(&shapes[number]);
    float *y = kernel_noise(p.ny, 4), *y3 = kernel_noise(p.ny, 5), *dx = kernel_noise(p.nx, 6),
          *dx3 = kernel_noise(p.nx, 7);
    float *dw = kernel_noise(p.nw, 8), *dw3 = kernel_noise(p.nw, 9);
    convolve(&p, false, 1, NULL, y, NULL, NULL);
    convolve(&p, false, 3, place, y3, NULL, NULL);
    convolve(&p, true, 1, NULL, NULL, dx, dw);
    convolve(&p, true, 3, place, NULL, dx3, dw3);
    check("y", number, p.ny, y, y3, p.y);
    check("dx", number, p.nx, dx, dx3, p.dx);
    check("dw", number, p.nw, dw, dw3, p.dw);
    free(y), free(y3), free(dx), free(dx3), free(dw), free(dw3);
    free_problem(&p);
}

/* --- the largest of 2 x 2 ----------------------------------------------------------------------------------------- */

/* Windows side by side, with ties: the first largest gets the gradient. */
static void try_pool(int h, int w, pool_slot *place) {
    enum { CHANNELS = 5, MOST_X = CHANNELS * 7 * 35, MOST_Y = CHANNELS * 3 * 17 };
    int oh = h / 2, ow = w / 2, nx = CHANNELS * h * w, ny = CHANNELS * oh * ow;
    float *x = kernel_noise((size_t)nx, 11), *dy = kernel_noise((size_t)ny, 12);
    double want[MOST_X] = {0}, want_y[MOST_Y];
    float y[2][MOST_Y], dx[2][MOST_X];
    for (int i = 0; i < nx; i++) x[i] = roundf(x[i] * 4) / 4;
    for (int o = 0; o < ny; o++) {
        int first = o / (oh * ow) * h * w + o / ow % oh * 2 * w + o % ow * 2, best = first;
        for (int k = 1; k < 4; k++)
            if (x[first + k / 2 * w + k % 2] > x[best]) best = first + k / 2 * w + k % 2;
        want_y[o] = (double)x[best];
        want[best] += (double)dy[o];
    }
    memset(dx, 0xff, sizeof dx);
    for (int i = 0; i < 4; i++) {
        kernel_test t;
        kernel_test_init(&t, i < 2 ? "pool2d" : "pool2d_grad");
        t.nthreads = i % 2 ? 3 : 1;
        t.slot = i % 2 ? place : NULL;
        require(weft_op_set_attr_string(t.op, "pooling_type", "max"));
        set_longs(&t, "ksize", 2, 2);
        set_longs(&t, "strides", 2, 2);
        set_longs(&t, "paddings", 0, 0);
        reshape(kernel_test_in(&t, "X", WEFT_FP32, x, 0, -1, -1), 1, CHANNELS, h, w);
        if (i >= 2) {
            reshape(kernel_test_in(&t, "Out", WEFT_FP32, y[0], 0, -1, -1), 1, CHANNELS, oh, ow);
            reshape(kernel_test_in(&t, "Out@GRAD", WEFT_FP32, dy, 0, -1, -1), 1, CHANNELS, oh, ow);
            reshape(kernel_test_out(&t, "X@GRAD", WEFT_FP32, dx[i % 2], 0, -1, -1), 1, CHANNELS, h, w);
        } else {
            reshape(kernel_test_out(&t, "Out", WEFT_FP32, y[i % 2], 0, -1, -1), 1, CHANNELS, oh, ow);
        }
        require(kernel_test_run(&t));
        kernel_test_fini(&t);
    }
    check("pool2d", -1, (size_t)ny, y[0], y[1], want_y);
    check("pool2d_grad", -1, (size_t)nx, dx[0], dx[1], want);
    free(x), free(dy);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Small ones by panels, large ones in pieces. */
static void try_product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, pool_slot *place) {
    size_t count = (size_t)(m * n);
    float *a = kernel_noise((size_t)(m * k), 21), *b = kernel_noise((size_t)(k * n), 22), *c = kernel_noise(count, 23),
          *c3 = kernel_noise(count, 24);
    double *want = calloc(count, sizeof *want);
    if (!want) exit(1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < k; d++)
                want[i * n + j] += (double)a[ta ? d * m + i : i * k + d] * (double)b[tb ? j * k + d : d * n + j];
    kernel_call call = {.nthreads = 3, .slot = place};
    gemm_f32(NULL, ta, tb, m, n, k, 1, a, ta ? m : k, b, tb ? k : n, 0, c, n);
    gemm_f32(&call, ta, tb, m, n, k, 1, a, ta ? m : k, b, tb ? k : n, 0, c3, n);
    check("product", -2, count, c, c3, want);
    free(a), free(b), free(c), free(c3), free(want);
}

int main(void) {
    weft_allocator allocator = base_libc_allocator();
    thread_pool *pool;
    require(thread_pool_create(&allocator, NULL, 2, 1, false, &pool));
    for (int i = 0; i < NSHAPES; i++) try_shape(i, thread_pool_slot(pool, 0));
    try_pool(7, 35, thread_pool_slot(pool, 0)); /* a row and a column are left over */
    try_pool(6, 28, thread_pool_slot(pool, 0));
    for (int i = 0; i < 4; i++) {
        try_product(29, 37, 41, i & 1, i & 2, thread_pool_slot(pool, 0));
        try_product(130, 211, 300, i & 1, i & 2, thread_pool_slot(pool, 0));
    }
    thread_pool_destroy(pool);
    printf("%d passed, %d failed\n", npassed, nfailed);
    return nfailed > 0;
}
