/* gemm_plain.h: C = alpha op(A) op(B) + beta C by packed panels; a template, included once for each REAL.
 *
 * After Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008): a panel of B and a strip of A
 * are packed into contiguous memory, transposed on the way if need be. A small tile of C stays in registers over the
 * whole inner extent of the panel. Panels live on the stack: kernels do not allocate. The order of addition depends
 * only on k. */

typedef REAL NAME(vector) __attribute__((vector_size(32))); /* GCC's and clang's; any target */

/* Rows, columns of the register tile; rows, columns and depth of what is packed. */
enum {
    NAME(lanes) = 32 / sizeof(REAL),
    NAME(mr) = 6,
    NAME(nr) = 2 * NAME(lanes),
    NAME(mc) = 72,
    NAME(nc) = 64,
    NAME(kc) = 192
};

/* op(A)[row .. row + rows)[depth .. depth + count) as strips of mr rows, zero-filled. */
static void NAME(pack_a)(bool transposed, const REAL *a, int64_t lda, int64_t row, int64_t rows, int64_t depth,
                         int64_t count, REAL *out) {
    for (int64_t strip = 0; strip < rows; strip += NAME(mr))
        for (int64_t k = 0; k < count; k++)
            for (int64_t i = strip; i < strip + NAME(mr); i++)
                *out++ = i >= rows ? 0 : transposed ? a[(depth + k) * lda + row + i] : a[(row + i) * lda + depth + k];
}

/* op(B)[depth .. depth + count)[column .. column + columns) as strips of nr columns, zero-filled. */
static void NAME(pack_b)(bool transposed, const REAL *b, int64_t ldb, int64_t depth, int64_t count, int64_t column,
                         int64_t columns, REAL *out) {
    for (int64_t strip = 0; strip < columns; strip += NAME(nr))
        for (int64_t k = 0; k < count; k++)
            for (int64_t j = strip; j < strip + NAME(nr); j++)
                *out++ = j >= columns ? 0
                         : transposed ? b[(column + j) * ldb + depth + k]
                                      : b[(depth + k) * ldb + column + j];
}

/* tile = packed strip of A times packed strip of B. */
static void NAME(multiply_tile)(int64_t count, const REAL *a, const REAL *b, REAL tile[NAME(mr)][NAME(nr)]) {
    NAME(vector) sum[NAME(mr)][2] = {{{0}}};
    for (int64_t k = 0; k < count; k++, a += NAME(mr), b += NAME(nr)) {
        NAME(vector) left, right;
        memcpy(&left, b, sizeof left);
        memcpy(&right, b + NAME(lanes), sizeof right);
        for (int i = 0; i < NAME(mr); i++) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
    }
    memcpy(tile, sum, sizeof sum);
}

/* Every tile of one packed block, added to C. */
static void NAME(multiply_block)(int64_t rows, int64_t columns, int64_t count, REAL alpha, const REAL *packed_a,
                                 const REAL *packed_b, REAL *c, int64_t ldc) {
    REAL tile[NAME(mr)][NAME(nr)];
    for (int64_t j = 0; j < columns; j += NAME(nr))
        for (int64_t i = 0; i < rows; i += NAME(mr)) {
            NAME(multiply_tile)(count, packed_a + i * count, packed_b + j * count, tile);
            for (int64_t y = 0; y < NAME(mr) && i + y < rows; y++)
                for (int64_t x = 0; x < NAME(nr) && j + x < columns; x++)
                    c[(i + y) * ldc + j + x] += alpha * tile[y][x];
        }
}

static void NAME(scale_c)(int64_t m, int64_t n, REAL beta, REAL *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

static void NAME(gemm_plain)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t lda,
                             const REAL *b, int64_t ldb, REAL beta, REAL *c, int64_t ldc) {
    REAL packed_a[NAME(mc) * NAME(kc)], packed_b[NAME(nc) * NAME(kc)];
    NAME(scale_c)(m, n, beta, c, ldc);
    for (int64_t depth = 0; depth < k; depth += NAME(kc)) {
        int64_t count = k - depth < NAME(kc) ? k - depth : NAME(kc);
        for (int64_t column = 0; column < n; column += NAME(nc)) {
            int64_t columns = n - column < NAME(nc) ? n - column : NAME(nc);
            NAME(pack_b)(tb, b, ldb, depth, count, column, columns, packed_b);
            for (int64_t row = 0; row < m; row += NAME(mc)) {
                int64_t rows = m - row < NAME(mc) ? m - row : NAME(mc);
                NAME(pack_a)(ta, a, lda, row, rows, depth, count, packed_a);
                NAME(multiply_block)(rows, columns, count, alpha, packed_a, packed_b, c + row * ldc + column, ldc);
            }
        }
    }
}
