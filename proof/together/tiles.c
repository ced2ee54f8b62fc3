/* tiles.c: a matrix whose rows come from several others, as blocks of rows. In a block each row is some columns of the
 * same matrices, as where ranks' columns are gathered, or one rank's are cut out.
 *
 * Only offsets are looked at: elements that lie `width` apart from row to row are a column of a matrix of that width,
 * whatever the extents of what they are taken from. */
#include "proof/together/together.h"

/* Elements of one row that lie one after another in one term. */
typedef struct run {
    uint32_t of; /* without its extents */
    int64_t from, count;
} run;

typedef struct row {
    run runs[MOST_TILES];
    size_t nruns;
    int64_t left; /* elements behind the row that go on where its last run ends */
} row;

/* The elements from `at` on to the end of its piece, but no more than `most`; false: nothing is known of them. */
static bool find_run(const terms *t, uint32_t matrix, int64_t at, int64_t most, run *out, int64_t *out_left) {
    const head *h = term_head(t, matrix);
    int64_t from = at, end = term_numel(t, matrix);
    uint32_t of = matrix;
    if (h->kind == HEAD_FLAT) {
        size_t low = 0, high = h->nints / 2;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (h->ints[2 * middle] <= at)
                low = middle;
            else
                high = middle;
        }
        if (!h->nints || h->ints[2 * low] > at || term_args(t, matrix)[low].factor != FACTOR_ONE) return false;
        from = at - h->ints[2 * low];
        end = h->ints[2 * low + 1];
        of = term_without_shape(t, term_args(t, matrix)[low].term);
    }
    if (from < 0 || from >= end) return false;
    int64_t there = end - from;
    const head *piece = term_head(t, of);
    if (piece->kind == HEAD_PART && piece->ints[0] >= 0) {
        from += piece->ints[0];
        of = term_without_shape(t, term_args(t, of)[0].term);
    }
    *out = (run){of, from, there < most ? there : most};
    *out_left = there - out->count;
    return true;
}

static bool read_row(const terms *t, uint32_t matrix, int64_t width, int64_t index, row *out) {
    out->nruns = 0;
    for (int64_t at = 0; at < width; at += out->runs[out->nruns++].count)
        if (out->nruns == MOST_TILES ||
            !find_run(t, matrix, index * width + at, width - at, &out->runs[out->nruns], &out->left))
            return false;
    return true;
}

/* How far each run of `next` lies behind that of `first`, all in the same terms; false: they are other columns. */
static bool find_widths(const terms *t, const row *first, const row *next, int64_t *out) {
    if (next->nruns != first->nruns) return false;
    for (size_t i = 0; i < first->nruns; i++) {
        const run *a = &first->runs[i], *b = &next->runs[i];
        out[i] = b->from - a->from;
        if (a->of != b->of || a->count != b->count || out[i] < a->count) return false;
        if (a->from % out[i] + a->count > out[i] || term_numel(t, a->of) % out[i]) return false;
    }
    return true;
}

/* Rows [index, index + the number that is returned) are the columns of `first`; one row alone is of anything. */
static int64_t count_rows(const terms *t, uint32_t matrix, int64_t width, int64_t index, int64_t most, const row *first,
                          int64_t *widths) {
    row last = *first, next;
    int64_t again[MOST_TILES], n = 1;
    for (; n < most && read_row(t, matrix, width, index + n, &next); n++, last = next) {
        if (!find_widths(t, &last, &next, n == 1 ? widths : again)) break;
        if (n > 1 && memcmp(again, widths, first->nruns * sizeof *widths) != 0) break;
    }
    return n;
}

weft_status tiles_find(terms *t, value matrix, int64_t width, int64_t index, int64_t most, tile_block *out) {
    uint32_t of = term_without_shape(t, matrix.term);
    row first;
    int64_t widths[MOST_TILES];
    *out = (tile_block){.rows = 0};
    if (matrix.factor != FACTOR_ONE || !read_row(t, of, width, index, &first)) return NULL;
    int64_t whole = first.nruns == 1 ? 1 + first.left / width : 1;
    out->rows = whole > 1 ? whole : count_rows(t, of, width, index, most, &first, widths);
    if (out->rows > most) out->rows = most;
    out->ntiles = first.nruns;
    for (size_t i = 0; i < first.nruns; i++) {
        const run *x = &first.runs[i];
        bool is_cut = whole == 1 && out->rows > 1;
        tile *to = &out->tiles[i];
        *to = (tile){.count = x->count, .width = is_cut ? widths[i] : x->count};
        to->first = is_cut ? x->from % to->width : 0;
        TRY(term_part(t, value_of(x->of), x->from - to->first, out->rows * to->width, &to->of));
        TRY(term_reshape(t, to->of, 2, (int64_t[]){out->rows, to->width}, &to->of));
    }
    return NULL;
}

bool tiles_is_whole(const tile_block *b) {
    return b->ntiles == 1 && b->tiles[0].count == b->tiles[0].width;
}

static int64_t count_lines(const tile *rows, size_t nrows) {
    int64_t m = 0;
    for (size_t i = 0; i < nrows; i++) m += rows[i].count;
    return m;
}

static weft_status join(terms *t, const value *products, const tile *rows, size_t nrows, const tile *columns,
                        size_t ncolumns, value *out) {
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    int64_t m = count_lines(rows, nrows), at = 0;
    size_t count = 0;
    value *runs = ARENA_ARRAY(&memory, value, m * (int64_t)ncolumns);
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * m * (int64_t)ncolumns);
    if (!runs || !ranges) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < nrows; i++)
        for (int64_t k = rows[i].first; k < rows[i].first + rows[i].count; k++)
            for (size_t j = 0; j < ncolumns; j++, count++) {
                const tile *c = &columns[j];
                ranges[2 * count] = at;
                ranges[2 * count + 1] = c->count;
                at += c->count;
                TRY_DONE(term_part(t, products[i * ncolumns + j], k * c->width + c->first, c->count, &runs[count]));
            }
    TRY_DONE(term_flat(t, runs, ranges, count, at, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status tiles_join(terms *t, const value *products, const tile *rows, size_t nrows, const tile *columns,
                       size_t ncolumns, value *out) {
    *out = value_of(TERM_NONE);
    if (count_lines(rows, nrows) > MOST_RUNS / (int64_t)ncolumns) return NULL;
    return join(t, products, rows, nrows, columns, ncolumns, out);
}

weft_status tiles_take_rows(terms *t, value b, bool turns, int64_t all, int64_t n, int64_t from, int64_t k,
                            value *out) {
    const tile columns = {.width = all, .first = from, .count = k};
    if (turns)
        TRY(join(t, &b, &(tile){.count = n}, 1, &columns, 1, out));
    else
        TRY(term_part(t, b, from * n, k * n, out));
    return term_reshape(t, *out, 2, turns ? (int64_t[]){n, k} : (int64_t[]){k, n}, out);
}

/* As a matrix of its own. */
weft_status tiles_columns(terms *t, const tile *columns, int64_t rows, value *out) {
    if (columns->count == columns->width) return *out = columns->of, NULL;
    TRY(tiles_join(t, &columns->of, &(tile){.count = rows}, 1, columns, 1, out));
    return out->term == TERM_NONE ? NULL : term_reshape(t, *out, 2, (int64_t[]){rows, columns->count}, out);
}
