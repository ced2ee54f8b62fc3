/* shuffle_batch.c: rows in an order that is drawn, in which none is in its own place; a row is the last dimension. Its
 * gradient puts rows back. Paddle draws the order of noise and not of the seed, so that its draws are not repeated.
 * SeedOut is the next number of the engine that Seed begins. Source: phi/kernels/cpu/shuffle_batch_kernel.cc. */
#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"

enum { IN_X, IN_SEED, IN_GRAD = 0, IN_INDEX, OUT_X = 0, OUT_INDEX, OUT_SEED };

typedef struct shuffle_state {
    int64_t rows, seed;
    size_t row_nbytes;
} shuffle_state;

static weft_status prepare_rows(kernel_prepare *p, const tensor *index) {
    shuffle_state *s = KERNEL_STATE(p, shuffle_state);
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT_X);
    if (!s) return base_out_of_memory();
    int64_t width = x->ndim ? x->dims[x->ndim - 1] : 1;
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, x, out, "Out"));
    TRY(require_numel(p, out, x->numel, "Out"));
    s->rows = width ? x->numel / width : 0;
    s->row_nbytes = (size_t)width * weft_dtype_nbytes(x->dtype);
    s->seed = attr_int(p->op, "startup_seed", 0);
    TRY(require_present(p, index, "ShuffleIdx"));
    TRY(require_integers(p, index, "ShuffleIdx"));
    return require_numel(p, index, s->rows, "ShuffleIdx");
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_rows(p, type_out(p, OUT_INDEX)));
    if (type_out(p, OUT_SEED)) TRY(require_integers(p, type_out(p, OUT_SEED), "SeedOut"));
    return NULL;
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_rows(p, type_in(p, IN_INDEX));
}

static bool is_fixed(const tensor *order, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        if (tensor_integer(order, i) == i) return true;
    return false;
}

/* Fisher and Yates, again until no row is in its own place: about three times. One row has no other place. */
static void draw(const kernel_call *c, tensor *order, int64_t rows) {
    random_key key = random_key_of(c, 0);
    uint64_t drawn = 0;
    do {
        for (int64_t i = 0; i < rows; i++) tensor_set_integer(order, i, i);
        for (int64_t i = rows - 1; i > 0; i--) {
            uint32_t bits[4];
            philox(key.seed, key.op_seed, key.step, drawn++, bits);
            int64_t with = (int64_t)(((uint64_t)bits[0] << 32 | bits[1]) % ((uint64_t)i + 1));
            int64_t other = tensor_integer(order, with);
            tensor_set_integer(order, with, tensor_integer(order, i));
            tensor_set_integer(order, i, other);
        }
    } while (rows > 1 && is_fixed(order, rows));
}

/* The first number of std::minstd_rand0. */
static int64_t next_of(int64_t seed) {
    const uint64_t modulus = 2147483647;
    uint64_t from = (uint64_t)seed % modulus;
    return (int64_t)((from ? from : 1) * 16807 % modulus);
}

static weft_status run(const kernel_call *c) {
    const shuffle_state *s = c->state;
    tensor *order = arg_out(c, OUT_INDEX), *seed = arg_out(c, OUT_SEED);
    char *to = arg_out(c, OUT_X)->data;
    const char *from = arg_in(c, IN_X)->data;
    draw(c, order, s->rows);
    for (int64_t i = 0; i < s->rows; i++)
        copy_bytes(to + (size_t)i * s->row_nbytes, from + (size_t)tensor_integer(order, i) * s->row_nbytes,
                   s->row_nbytes);
    if (seed && seed->numel)
        tensor_set_integer(seed, 0, next_of(arg_in(c, IN_SEED) ? tensor_integer(arg_in(c, IN_SEED), 0) : s->seed));
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const shuffle_state *s = c->state;
    char *to = arg_out(c, OUT_X)->data;
    const char *from = arg_in(c, IN_GRAD)->data;
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t row = tensor_integer(arg_in(c, IN_INDEX), i);
        if (row < 0 || row >= s->rows)
            return kernel_failed(c, "ShuffleIdx: expected 0 to %lld, found %lld", (long long)s->rows - 1,
                                 (long long)row);
        copy_bytes(to + (size_t)row * s->row_nbytes, from + (size_t)i * s->row_nbytes, s->row_nbytes);
    }
    return NULL;
}

const kernel kernel_shuffle_batch = {prepare, run};
const kernel kernel_shuffle_batch_grad = {prepare_grad, run_grad};
