/* stats.c: what weft opt --stats prints: collectives and bytes before and after, and the fingerprints of buckets, by
 * which one sees that ranks reduce the same things together. */
#include "cli/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "weft/op_table.h"

static bool is_collective(const weft_op *op) {
    weft_op_info info;
    char effects[256];
    if (weft_op_attr_int(op, "ring_id", -1) < 0 || !weft_op_info_find(weft_op_type(op), &info)) return false;
    weft_op_effects_print(info.effects, effects, sizeof effects);
    return strstr(effects, "collective") != NULL;
}

/* Bytes of all inputs, 0 where an extent is not known; *out_dtype that of the first. */
static double input_nbytes(const weft_op *op, weft_dtype *out_dtype) {
    double sum = 0;
    *out_dtype = WEFT_DTYPE_NONE;
    for (size_t s = 0; s < weft_op_nslots(op, false); s++) {
        size_t nargs = 0;
        weft_op_slot(op, false, s, &nargs);
        for (size_t i = 0; i < nargs; i++) {
            const weft_var *v = weft_op_arg(op, false, s, i);
            double n = (double)weft_dtype_nbytes(weft_var_dtype(v));
            for (size_t k = 0; k < weft_var_ndim(v); k++)
                n *= weft_var_dims(v)[k] > 0 ? (double)weft_var_dims(v)[k] : 0;
            if (*out_dtype == WEFT_DTYPE_NONE) *out_dtype = weft_var_dtype(v);
            sum += n;
        }
    }
    return sum;
}

static comm_row *find_row(const comm_stats *s, const char *type, long long ring, weft_dtype dtype) {
    for (size_t i = 0; i < s->nrows; i++)
        if (strcmp(s->rows[i].type, type) == 0 && s->rows[i].ring == ring && s->rows[i].dtype == dtype)
            return &s->rows[i];
    return NULL;
}

static weft_status note_bucket(comm_stats *s, uint64_t fingerprint) {
    if (!fingerprint) return NULL;
    uint64_t *more = realloc(s->fingerprints, (s->nbuckets + 1) * sizeof *more);
    if (!more) return cli_no_memory();
    s->fingerprints = more;
    s->fingerprints[s->nbuckets++] = fingerprint;
    return NULL;
}

static weft_status count_op(comm_stats *s, const weft_op *op) {
    weft_dtype dtype;
    double nbytes = input_nbytes(op, &dtype);
    long long ring = weft_op_attr_int(op, "ring_id", -1);
    comm_row *row = find_row(s, weft_op_type(op), ring, dtype);
    if (!row) {
        comm_row *more = realloc(s->rows, (s->nrows + 1) * sizeof *more);
        if (!more) return cli_no_memory();
        s->rows = more;
        row = &s->rows[s->nrows++];
        *row = (comm_row){weft_op_type(op), ring, dtype, 0, 0, nbytes, nbytes};
    }
    row->count++;
    row->nbytes += nbytes;
    if (nbytes < row->least) row->least = nbytes;
    if (nbytes > row->most) row->most = nbytes;
    return note_bucket(s, (uint64_t)weft_op_attr_int(op, "bucket_fingerprint", 0));
}

weft_status comm_stats_take(const weft_program *program, comm_stats *out) {
    *out = (comm_stats){.rows = NULL};
    for (size_t b = 0; b < weft_program_nblocks(program); b++)
        for (const weft_op *op = weft_block_first_op(weft_program_block(program, b)); op; op = weft_op_next(op)) {
            weft_status status = is_collective(op) ? count_op(out, op) : NULL;
            if (status) return status;
        }
    return NULL;
}

void comm_stats_fini(comm_stats *stats) {
    free(stats->rows);
    free(stats->fingerprints);
    *stats = (comm_stats){.rows = NULL};
}

static void print_side(FILE *to, const char *when, const comm_stats *s) {
    char all[32], least[32], most[32];
    size_t count = 0;
    double nbytes = 0;
    for (size_t i = 0; i < s->nrows; i++) count += s->rows[i].count, nbytes += s->rows[i].nbytes;
    fprintf(to, "%s: %zu collective%s, %s\n", when, count, count == 1 ? "" : "s", cli_bytes(nbytes, all, sizeof all));
    for (size_t i = 0; i < s->nrows; i++) {
        const comm_row *r = &s->rows[i];
        const char *dtype = weft_dtype_name(r->dtype);
        fprintf(to, "    %zu %s, ring %lld, %s: %s (%s to %s each)\n", r->count, r->type, r->ring, dtype ? dtype : "?",
                cli_bytes(r->nbytes, all, sizeof all), cli_bytes(r->least, least, sizeof least),
                cli_bytes(r->most, most, sizeof most));
    }
}

void comm_stats_print(FILE *to, const comm_stats *before, const comm_stats *after) {
    print_side(to, "before", before);
    print_side(to, "after", after);
    for (size_t i = 0; i < after->nbuckets; i++)
        fprintf(to, "    bucket %zu: fingerprint %016" PRIx64 "\n", i, after->fingerprints[i]);
}
