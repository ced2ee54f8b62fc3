/* versions.c: which definition of an op a program means: the rows of versions.def against the program's version. */
#include "ops/ops.h"
#include "weft/op_table.h"

typedef struct version_row {
    const char *type, *before, *now;
    int64_t since;        /* of CHANGED; 0: of MENDED */
    const char *versions; /* of MENDED */
} version_row;

static const version_row rows[] = {
#define CHANGED(type, since, before, now) {#type, before, now, since, NULL},
#define MENDED(type, versions, wrong, right) {#type, wrong, right, 0, versions},
#include "ops/versions.def"
#undef CHANGED
#undef MENDED
};
enum { NROWS = sizeof rows / sizeof *rows };

static const version_row *find_row(const weft_op *op) {
    for (size_t i = 0; i < NROWS; i++)
        if (op_is(op, rows[i].type)) return &rows[i];
    return NULL;
}

/* A version of 0 is that of a program which never said. */
static bool is_before(const weft_program *p, const version_row *row) {
    return p->has_version && p->version > 0 && p->version < row->since;
}

bool op_follows_older(const weft_op *op) {
    const weft_program *p = op->program;
    if (!p->has_version || p->version <= 0) return false;
    const version_row *row = find_row(op);
    return row && is_before(p, row);
}

bool weft_op_version_find(const weft_op *op, weft_op_version *out_version) {
    const version_row *row = find_row(op);
    if (!row) return false;
    *out_version = (weft_op_version){.type = row->type,
                                     .since = row->since,
                                     .versions = row->versions,
                                     .before = row->before,
                                     .now = row->now,
                                     .is_older = is_before(op->program, row)};
    return true;
}

bool weft_op_version_at(size_t index, weft_op_version *out_version) {
    if (index >= NROWS) return false;
    const version_row *row = &rows[index];
    *out_version = (weft_op_version){row->type, row->since, row->versions, row->before, row->now, false};
    return true;
}
