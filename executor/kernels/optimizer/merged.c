/* merged.c: Adam for many parameters at once (merged_adam). Its slots are the first of adam's, each a list: the update
 * of parameter k is a call of adam with argument k of every list. */
#include "executor/kernels/optimizer/optimizer.h"

extern const kernel kernel_adam;

enum { LISTS = 9, INPUTS = 13, OUTPUTS = 7 }; /* merged_adam has the first 9 inputs of adam's 13 */
enum { NEEDED_INPUTS = 7, NEEDED_OUTPUTS = 3 };

static const uint32_t one_each[INPUTS + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};

typedef struct merged_state {
    uint32_t count;
    void *states[]; /* of adam, one a parameter */
} merged_state;

/* Argument k of every list, the only one of a list of one; none of an empty list, nor of the slots behind the lists. */
static void pick(const tensor *args, const uint32_t *first, int nlists, uint32_t k, int nslots, tensor *out) {
    for (int s = 0; s < nslots; s++) {
        uint32_t n = s < nlists ? first[s + 1] - first[s] : 0;
        out[s] = n ? args[first[s] + (n == 1 ? 0 : k)] : (tensor){.dtype = WEFT_DTYPE_NONE};
    }
}

static weft_status check_lengths(const kernel_prepare *p, const uint32_t *first, const slot_schema *slots, int nslots,
                                 int nneeded) {
    uint32_t n = p->in_first[1];
    for (int s = 0; s < nslots; s++) {
        uint32_t found = first[s + 1] - first[s];
        bool is_shared = slots[s].host_read && found == 1;
        if (found != n && (found != 0 || s < nneeded) && !is_shared)
            return kernel_unsupported(p, "expected %u arguments in %s, found %u", n, slots[s].name, found);
    }
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    tensor in[INPUTS], out[OUTPUTS];
    merged_state *s = p->state = arena_alloc(p->arena, sizeof *s + n * sizeof *s->states);
    if (!s) return base_out_of_memory();
    s->count = n;
    TRY(check_lengths(p, p->in_first, p->schema->inputs, LISTS, NEEDED_INPUTS));
    TRY(check_lengths(p, p->out_first, p->schema->outputs, OUTPUTS, NEEDED_OUTPUTS));
    for (uint32_t k = 0; k < n; k++) {
        pick(p->in, p->in_first, LISTS, k, INPUTS, in);
        pick(p->out, p->out_first, OUTPUTS, k, OUTPUTS, out);
        kernel_prepare one = *p;
        one.in = in, one.out = out, one.in_first = one.out_first = one_each, one.workspace_nbytes = 0;
        TRY(kernel_adam.prepare(&one));
        s->states[k] = one.state;
        if (one.workspace_nbytes > p->workspace_nbytes) p->workspace_nbytes = one.workspace_nbytes;
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const merged_state *s = c->state;
    tensor in[INPUTS], out[OUTPUTS];
    for (uint32_t k = 0; k < s->count; k++) {
        pick(c->in, c->in_first, LISTS, k, INPUTS, in);
        pick(c->out, c->out_first, OUTPUTS, k, OUTPUTS, out);
        kernel_call one = *c;
        one.in = in, one.out = out, one.in_first = one.out_first = one_each, one.state = s->states[k];
        TRY(kernel_adam.run(&one));
    }
    return NULL;
}

const kernel kernel_merged_adam = {prepare, run};
