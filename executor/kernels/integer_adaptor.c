/* integer_adaptor.c: kernels that lack loops for integers run on copies of them as fp64, in the workspace.
 *
 * fp64 holds integers up to 2^53 exactly. What is larger, and a result that its type does not hold, ends the step with
 * a message. The adaptor is asked only where `prepare` refuses the types that the program declares. Everything is read
 * before anything is written, so "Out=X" may share memory. */
#include "executor/kernels/integer_adaptor.h"

#include <math.h>

#include "executor/kernels/adaptor.h"
#include "executor/kernels/typed.h"
#include "ops/rows.h"

typedef struct integer_row {
    const char *in, *out; /* names of slots, apart by blanks; NULL: no row */
} integer_row;

static const integer_row ROW_OF[NROWS] = {
#define INTEGER(type, in, out) [ROW_##type] = {in, out},
#include "executor/kernels/integer.def"
#undef INTEGER
};

/* A tensor of the call that the kernel sees as fp64. */
typedef struct real_arg {
    uint32_t index; /* into in or out */
    bool only_type;
    size_t at;
} real_arg;

typedef struct real_side {
    tensor *seen;
    real_arg *args;
    uint32_t count, nargs;
} real_side;

typedef struct state {
    kernel_run_fn run; /* of the kernel */
    adapted_kernel kernel;
    real_side in, out;
} state;

/* --- which ------------------------------------------------------------------------------------------------------- */

static bool is_integer(weft_dtype d) {
    return d == WEFT_INT8 || d == WEFT_UINT8 || d == WEFT_INT16 || d == WEFT_INT32 || d == WEFT_INT64;
}

static bool is_listed(const char *list, const char *word) {
    return base_has_word(list, word, strlen(word));
}

static const integer_row *row_of(const kernel_prepare *p) {
    int index = p->schema->index;
    return index >= 0 && index < NROWS && ROW_OF[index].in ? &ROW_OF[index] : NULL;
}

bool integer_adaptor_fits(const kernel_prepare *p) {
    const integer_row *row = row_of(p);
    weft_dtype found = WEFT_DTYPE_NONE;
    for (size_t s = 0; row && s < p->schema->ninputs; s++)
        for (uint32_t i = p->in_first[s]; is_listed(row->in, p->schema->inputs[s].name) && i < p->in_first[s + 1];
             i++) {
            if (found != WEFT_DTYPE_NONE && p->in[i].dtype != found) return false;
            found = p->in[i].dtype;
        }
    return is_integer(found);
}

/* --- preparing --------------------------------------------------------------------------------------------------- */

static void present(const real_side *side, const tensor *args, char *workspace) {
    memcpy(side->seen, args, side->count * sizeof *args);
    for (uint32_t i = 0; i < side->nargs; i++) {
        tensor *seen = &side->seen[side->args[i].index];
        seen->dtype = WEFT_FP64;
        seen->data = seen->data ? workspace + side->args[i].at : NULL;
    }
}

/* Arguments of listed slots; outputs of a float type too, as the kernel has one type for all. */
static weft_status take_side(const kernel_prepare *p, const char *list, bool outputs, size_t *workspace,
                             real_side *side) {
    const slot_schema *slots = outputs ? p->schema->outputs : p->schema->inputs;
    size_t nslots = outputs ? p->schema->noutputs : p->schema->ninputs, nbytes;
    const uint32_t *first = outputs ? p->out_first : p->in_first;
    const tensor *args = outputs ? p->out : p->in;
    side->count = first[nslots];
    side->seen = ARENA_ARRAY(p->arena, tensor, side->count + 1);
    side->args = ARENA_ARRAY(p->arena, real_arg, side->count + 1);
    if (!side->seen || !side->args) return base_out_of_memory();
    for (size_t s = 0; s < nslots; s++)
        for (uint32_t i = first[s]; is_listed(list, slots[s].name) && i < first[s + 1]; i++) {
            if (!is_integer(args[i].dtype) && !(outputs && args[i].dtype == WEFT_FP32)) continue;
            side->args[side->nargs++] = (real_arg){.index = i, .only_type = slots[s].only_type, .at = *workspace};
            if (!base_mul((size_t)args[i].numel, sizeof(double), &nbytes)) return base_out_of_memory();
            TRY(adaptor_reserve(workspace, nbytes));
        }
    present(side, args, NULL);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    state *s = ARENA_NEW(p->arena, state);
    const integer_row *row = row_of(p);
    size_t workspace = 0;
    if (!s) return base_out_of_memory();
    s->run = p->adapted->run;
    TRY(take_side(p, row->in, false, &workspace, &s->in));
    TRY(take_side(p, row->out, true, &workspace, &s->out));
    TRY(adaptor_prepare(p, p->adapted->prepare, s->in.seen, s->out.seen, workspace, &s->kernel));
    p->state = s;
    return NULL;
}

/* --- running ----------------------------------------------------------------------------------------------------- */

static const double most_exact = 9007199254740992.0; /* 2^53 */

static weft_status read_one(const kernel_call *c, const tensor *from, double *to) {
    for (int64_t i = 0; i < from->numel; i++) {
        to[i] = (double)tensor_integer(from, i);
        if (from->dtype == WEFT_INT64 && fabs(to[i]) >= most_exact)
            return kernel_failed(c, "expected integers below 2^53, found %lld", (long long)tensor_integer(from, i));
    }
    return NULL;
}

/* The integers that a type holds, up to 2^53. */
static void range_of(weft_dtype d, double *least, double *most) {
    int bits = (int)weft_dtype_nbytes(d) * 8;
    *most = d == WEFT_INT64 ? most_exact : ldexp(1, d == WEFT_UINT8 ? bits : bits - 1) - 1;
    *least = d == WEFT_UINT8 ? 0 : d == WEFT_INT64 ? -most_exact : -*most - 1;
}

static weft_status write_one(const kernel_call *c, const double *from, const tensor *to) {
    size_t nbytes = weft_dtype_nbytes(to->dtype);
    double least, most;
    range_of(to->dtype, &least, &most);
    for (int64_t i = 0; i < to->numel; i++) {
        bool holds = !is_integer(to->dtype) || (from[i] >= least && from[i] <= most);
        if (!holds) return kernel_failed(c, "a result does not fit %s: %g", dtype_text(to->dtype), from[i]);
        fill_elements(to->dtype, (char *)to->data + (size_t)i * nbytes, 1, from[i]);
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    present(&s->in, c->in, c->workspace);
    present(&s->out, c->out, c->workspace);
    kernel_call inner = adaptor_call(&s->kernel, c, s->in.seen, s->out.seen);
    for (uint32_t i = 0; i < s->in.nargs; i++) {
        uint32_t index = s->in.args[i].index;
        if (!s->in.args[i].only_type && c->in[index].data) TRY(read_one(c, &c->in[index], s->in.seen[index].data));
    }
    TRY(s->run(&inner));
    for (uint32_t i = 0; i < s->out.nargs; i++) {
        uint32_t index = s->out.args[i].index;
        TRY(write_one(c, s->out.seen[index].data, &c->out[index]));
    }
    return NULL;
}

const kernel kernel_integer_adaptor = {prepare, run};
