/* complex_adaptor.c: kernels that know real numbers alone run on complex ones by their parts.
 *
 * A sum of complex numbers is a sum of each part; a product is four products of parts; what flows back through a
 * product is d Out times the conjugate of the other factor, as in Paddle. So the kernel is prepared once for real
 * tensors of the same extents, runs once for each term of its rule, and each result is added to a part of the output.
 *
 * The invariant: inputs are taken apart before anything is written, so "Out=X" may share memory; those of which only
 * the type is looked at have no bytes, and are not. Other tensors (axes, indices, absent arguments) are seen as they
 * are. */
#include "executor/kernels/complex_adaptor.h"

#include "executor/kernels/adaptor.h"
#include "executor/kernels/typed.h"
#include "ops/rows.h"

enum { RE, IM, NPARTS, ZERO = NPARTS, MAX_TERMS = 4 };

/* One run of the kernel: which parts it sees of the inputs, and of those in the last slot; where its result goes. */
typedef struct term {
    int part, last_part;
    int into, sign;
} term;

typedef struct rule {
    int nterms;
    term terms[MAX_TERMS];
} rule;

/* affine: a constant that is added has no imaginary part, so what 0 gives is taken off that. */
enum { linear = 1, affine, product, product_grad };
static const rule RULES[] = {
    [linear] = {2, {{RE, RE, RE, 1}, {IM, IM, IM, 1}}},
    [affine] = {3, {{RE, RE, RE, 1}, {IM, IM, IM, 1}, {ZERO, ZERO, IM, -1}}},
    [product] = {4, {{RE, RE, RE, 1}, {IM, IM, RE, -1}, {RE, IM, IM, 1}, {IM, RE, IM, 1}}},
    [product_grad] = {4, {{RE, RE, RE, 1}, {IM, IM, RE, 1}, {RE, IM, IM, 1}, {IM, RE, IM, -1}}},
};

static const uint8_t RULE_OF[NROWS] = {
#define COMPLEX(type, rule) [ROW_##type] = rule,
#include "executor/kernels/complex.def"
#undef COMPLEX
};

/* A complex tensor of the call: its parts, one behind the other, in the workspace; of an output, a result for one. */
typedef struct complex_arg {
    uint32_t index; /* into in or out */
    bool last;      /* it is in the last input slot */
    bool only_type;
    size_t at;
} complex_arg;

typedef struct complex_side {
    tensor *seen; /* what the kernel sees of in or out */
    complex_arg *args;
    uint32_t count, nargs;
} complex_side;

typedef struct state {
    kernel_run_fn run; /* of the kernel */
    adapted_kernel kernel;
    const rule *rule;
    complex_side in, out;
    size_t zero_at, zero_nbytes;
} state;

static size_t part_nbytes(const tensor *t) {
    return (size_t)t->numel * weft_dtype_nbytes(dtype_of_parts(t->dtype));
}

bool complex_adaptor_fits(const kernel_prepare *p) {
    if (p->schema->index < 0 || !RULE_OF[p->schema->index]) return false;
    for (uint32_t i = 0; i < p->out_first[p->schema->noutputs]; i++)
        if (dtype_is_complex(p->out[i].dtype)) return true;
    return false;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/* One side of the call: `slots` of args, of which each takes nparts in the workspace. */
static weft_status take_apart(const kernel_prepare *p, const slot_schema *slots, size_t nslots, const tensor *args,
                              const uint32_t *first, int nparts, size_t *workspace, complex_side *out) {
    out->count = first[nslots];
    out->seen = ARENA_ARRAY(p->arena, tensor, out->count + 1);
    out->args = ARENA_ARRAY(p->arena, complex_arg, out->count + 1);
    if (!out->seen || !out->args) return base_out_of_memory();
    memcpy(out->seen, args, out->count * sizeof *args);
    for (size_t s = 0; s < nslots; s++)
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            if (!dtype_is_complex(args[i].dtype)) continue;
            complex_arg *a = &out->args[out->nargs++];
            *a = (complex_arg){.index = i, .last = s + 1 == nslots, .only_type = slots[s].only_type};
            a->at = *workspace;
            TRY(adaptor_reserve(workspace, a->only_type ? 0 : (size_t)nparts * part_nbytes(&args[i])));
            out->seen[i].dtype = dtype_of_parts(args[i].dtype);
        }
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    size_t workspace = 0;
    const op_schema *schema = p->schema;
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    s->rule = &RULES[RULE_OF[schema->index]];
    TRY(take_apart(p, schema->inputs, schema->ninputs, p->in, p->in_first, NPARTS, &workspace, &s->in));
    TRY(take_apart(p, schema->outputs, schema->noutputs, p->out, p->out_first, 1, &workspace, &s->out));
    for (uint32_t i = 0; i < s->in.nargs; i++) {
        size_t nbytes = part_nbytes(&p->in[s->in.args[i].index]);
        if (nbytes > s->zero_nbytes) s->zero_nbytes = nbytes;
    }
    s->zero_at = workspace;
    TRY(adaptor_reserve(&workspace, s->zero_nbytes));
    s->run = p->adapted->run;
    return adaptor_prepare(p, p->adapted->prepare, s->in.seen, s->out.seen, workspace, &s->kernel);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

#define DEFINE_PARTS(dtype, suffix, real)                                                                              \
    static void part_##suffix(int64_t n, const real *x, int which, real *part) {                                       \
        for (int64_t i = 0; i < n; i++) part[i] = x[NPARTS * i + which];                                               \
    }                                                                                                                  \
    static void add_part_##suffix(int64_t n, const real *result, const term *t, real *out) {                           \
        for (int64_t i = 0; i < n; i++) out[NPARTS * i + t->into] += (real)t->sign * result[i];                        \
    }
REAL_TYPES(DEFINE_PARTS)
#undef DEFINE_PARTS

static void read_parts(const tensor *x, char *to) {
    for (int which = RE; which < NPARTS; which++, to += part_nbytes(x))
        if (x->dtype == WEFT_COMPLEX128)
            part_fp64(x->numel, x->data, which, (double *)(void *)to);
        else
            part_fp32(x->numel, x->data, which, (float *)(void *)to);
}

static void show_parts(const kernel_call *c, const state *s, const term *t) {
    char *workspace = c->workspace;
    memcpy(s->in.seen, c->in, s->in.count * sizeof *c->in);
    for (uint32_t i = 0; i < s->in.nargs; i++) {
        const complex_arg *a = &s->in.args[i];
        const tensor *x = &c->in[a->index];
        int which = a->last ? t->last_part : t->part;
        s->in.seen[a->index].dtype = dtype_of_parts(x->dtype);
        if (a->only_type) continue;
        s->in.seen[a->index].data = workspace + (which == ZERO ? s->zero_at : a->at + (size_t)which * part_nbytes(x));
    }
}

static weft_status run_term(const kernel_call *c, const state *s, const term *t) {
    kernel_call inner = adaptor_call(&s->kernel, c, s->in.seen, s->out.seen);
    show_parts(c, s, t);
    TRY(s->run(&inner));
    for (uint32_t i = 0; i < s->out.nargs; i++) {
        const tensor *out = &c->out[s->out.args[i].index];
        const void *result = s->out.seen[s->out.args[i].index].data;
        if (out->dtype == WEFT_COMPLEX128)
            add_part_fp64(out->numel, result, t, out->data);
        else
            add_part_fp32(out->numel, result, t, out->data);
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    char *workspace = c->workspace;
    if (s->zero_nbytes) memset(workspace + s->zero_at, 0, s->zero_nbytes);
    for (uint32_t i = 0; i < s->in.nargs; i++)
        if (!s->in.args[i].only_type) read_parts(&c->in[s->in.args[i].index], workspace + s->in.args[i].at);
    memcpy(s->out.seen, c->out, s->out.count * sizeof *c->out);
    for (uint32_t i = 0; i < s->out.nargs; i++) {
        const complex_arg *a = &s->out.args[i];
        tensor *seen = &s->out.seen[a->index];
        tensor_clear(seen);
        seen->dtype = dtype_of_parts(seen->dtype);
        seen->data = workspace + a->at;
    }
    for (int t = 0; t < s->rule->nterms; t++) TRY(run_term(c, s, &s->rule->terms[t]));
    return NULL;
}

const kernel kernel_complex_adaptor = {prepare, run};
