/* by_name_memory.c: when Paddle's executor lets go of memory (new_executor: program_interpreter.cc, CheckGC and
 * RecordStreamForGC; memory/allocation/stream_safe_cuda_allocator.cc).
 *
 * A name is let go of when its last users have been launched: those that come before no other user. Each of them, if it
 * is a device kernel, has its own stream noted with the memory, up to itself. The memory of a bucket is freed when the
 * last name in it is. An allocation of the stream that it was allocated on gets it next, once what was noted is
 * complete; what other streams do with it that nobody noted is not asked for. A `depend` is never launched and lets go
 * of nothing.
 *
 * A block that an op runs has an executor of its own. It lets go of the block's own names, but for those that the op
 * says to keep (skip_eager_deletion_vars). To the executor outside that op is one user of what it names, on its own
 * stream, up to the last launch within: what the block does on other streams nobody notes. */
#include "program/grow.h"
#include "proof/schedule/by_name.h"

static weft_status add_note(by_name *z, proof_memory *m, uint32_t event) {
    proof_schedule *s = z->s;
    TRY(grow(s->arena, &s->notes, &s->note_capacity, s->nnotes + 1, sizeof *s->notes));
    s->notes[s->nnotes] = (proof_note){event, m->notes};
    m->notes = (uint32_t)s->nnotes++;
    return NULL;
}

/* --- who allocates ------------------------------------------------------------------------------------------------ */

static void note_maker(by_name *z, uint32_t buffer_id, uint32_t event) {
    proof_memory *m = &z->s->memory[buffer_id];
    if (m->owner == PROOF_NONE)
        *m = (proof_memory){z->s->events[event].stream, event, PROOF_NONE, PROOF_NONE, PROOF_NONE};
}

/* A bucket is allocated by coalesce_tensor, anything else by the first that writes it. `shared`: by buffer, whether
 * another stream touches it too. */
static void find_makers(by_name *z, bool *shared) {
    proof_schedule *s = z->s;
    for (uint32_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i];
        const weft_var *fused =
            e->op && op_is(e->op, "coalesce_tensor") ? weft_op_output(e->op, "FusedOutput", 0) : NULL;
        if (fused && s->bound[fused->id] != PROOF_NONE) note_maker(z, s->bound[fused->id], i);
        for (size_t k = e->first_access; k < s->events[i + 1].first_access; k++)
            if (s->accesses[k].is_write) note_maker(z, s->accesses[k].buffer, i);
    }
    for (uint32_t i = 0; i < s->nevents; i++)
        for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++)
            shared[s->accesses[k].buffer] |= s->memory[s->accesses[k].buffer].owner != s->events[i].stream;
}

/* --- who lets go -------------------------------------------------------------------------------------------------- */

/* An instruction that uses a name of shared memory. */
typedef struct user {
    uint32_t instr, var;
    uint32_t at;  /* in the list of its var */
    bool is_last; /* it comes before no other user of the name */
} user;

typedef struct release {
    by_name *z;
    const bool *shared; /* by buffer */
    bool *kept;
    bool *exempt; /* by var id; NULL: none is */
    user *users;  /* in order of instructions */
    size_t nusers, user_capacity;
    list *of_var; /* into users */
} release;

/* Whether a name is let go of at all. One that is not keeps its memory. */
static bool is_collected(release *r, const weft_var *v) {
    uint32_t bound = r->z->s->bound[v->id];
    bool stays = v->persistable || v->need_check_feed || !v->block || (r->exempt && r->exempt[v->id]);
    if (bound != PROOF_NONE) r->kept[bound] |= stays;
    return bound != PROOF_NONE && !stays && v->block == r->z->block && r->shared[bound];
}

/* Names that the op which runs the block says to keep. */
static weft_status find_exempt(release *r) {
    const weft_program *p = r->z->s->program;
    if (r->z->block == p->blocks[0]) return NULL;
    if (!(r->exempt = ARENA_ARRAY(r->z->arena, bool, p->nall_vars + 1))) return base_out_of_memory();
    for (size_t i = 0; i < r->z->s->nevents; i++) {
        const weft_op *op = r->z->s->events[i].op;
        const weft_attr *body = op ? op_find_attr(op, "sub_block") : NULL;
        const weft_attr *names = op ? op_find_attr(op, "skip_eager_deletion_vars") : NULL;
        bool runs = body && body->type == ATTR_BLOCK && body->u.i == r->z->block->idx;
        for (size_t k = 0; runs && names && names->type == ATTR_STRINGS && k < names->count; k++) {
            const weft_var *v = block_find_text(r->z->block, names->u.strings[k]->bytes, names->u.strings[k]->nbytes);
            if (v && v->block == r->z->block) r->exempt[v->id] = true;
        }
    }
    return NULL;
}

static weft_status list_users(release *r) {
    by_name *z = r->z;
    for (uint32_t i = 0; i < z->n / 2; i++) FOR_EACH_INSTR_ARG(z, i, a) {
            list *l = &r->of_var[a->var];
            if (!is_collected(r, program_var(z->s->program, a->var)) || !(a->is & (ARG_OUT | ARG_BYTES))) continue;
            if (l->count && r->users[l->items[l->count - 1]].instr == i) continue;
            TRY(grow(z->arena, &r->users, &r->user_capacity, r->nusers + 1, sizeof *r->users));
            r->users[r->nusers] = (user){i, a->var, (uint32_t)l->count, false};
            TRY(by_name_push(z, l, (uint32_t)r->nusers++));
        }
    return NULL;
}

/* Users [first, end) are those of the sources at hand: those of a name are taken together, at the first of them. */
static void find_last(release *r, const reach *before, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        const list *l = &r->of_var[r->users[i].var];
        uint32_t at = r->users[i].at;
        uint64_t seen[REACH_WORDS] = {0}; /* those that come before another user */
        if (at > 0 && l->items[at - 1] >= first) continue;
        for (size_t k = at + 1; k < l->count; k++)
            for (size_t w = 0; w < REACH_WORDS; w++) seen[w] |= reach_row(before, r->users[l->items[k]].instr)[w];
        for (size_t k = at; k < l->count && l->items[k] < end; k++) {
            user *u = &r->users[l->items[k]];
            u->is_last = !reach_has(seen, before->column_of[u->instr]);
        }
    }
}

static weft_status find_all_last(release *r) {
    by_name *z = r->z;
    reach before;
    uint32_t *sources = ARENA_ARRAY(z->arena, uint32_t, REACH_SOURCES);
    if (!sources) return base_out_of_memory();
    TRY(reach_begin(&before, z, z->n / 2));
    for (size_t first = 0, end = 0; first < r->nusers; first = end) {
        size_t nsources = 0;
        for (; end < r->nusers; end++) {
            uint32_t i = r->users[end].instr;
            if (nsources && sources[nsources - 1] == i) continue;
            if (nsources == REACH_SOURCES) break;
            sources[nsources++] = i;
        }
        reach_take(&before, sources, nsources);
        reach_fill(&before);
        find_last(r, &before, first, end);
        reach_drop(&before);
    }
    return NULL;
}

/* Behind which launch the last user of a name lets go of it, and which that is; PROOF_NONE: never. */
static weft_status let_go(release *r, const weft_var *v, uint32_t *out, uint32_t *out_last) {
    by_name *z = r->z;
    const list *l = &r->of_var[v->id];
    *out = PROOF_NONE;
    for (size_t i = 0; i < l->count; i++) {
        const instr *at = &z->instrs[r->users[l->items[i]].instr];
        if (!r->users[l->items[i]].is_last) continue;
        if (op_is(at->op, "depend")) return *out = PROOF_NONE, NULL;
        if (at->is_async) TRY(add_note(z, &z->s->memory[z->s->bound[v->id]], at->covered));
        if (*out == PROOF_NONE || at->end > *out) *out = at->end, *out_last = at->event;
    }
    return NULL;
}

static weft_status free_names(release *r) {
    proof_schedule *s = r->z->s;
    for (size_t v = 0; v < s->program->nall_vars; v++) {
        uint32_t behind, last, of = s->bound[v];
        if (!r->of_var[v].count) continue;
        TRY(let_go(r, program_var(s->program, v), &behind, &last));
        r->kept[of] |= behind == PROOF_NONE;
        proof_memory *m = &s->memory[of];
        if (behind != PROOF_NONE && (m->freed_by == PROOF_NONE || behind > m->freed_by))
            m->freed_by = behind, m->last = last;
    }
    return NULL;
}

static weft_status free_block(by_name *z, const bool *shared, bool *kept) {
    release r = {.z = z, .shared = shared, .kept = kept};
    r.of_var = ARENA_ARRAY(z->arena, list, z->s->program->nall_vars + 1);
    if (!r.of_var) return base_out_of_memory();
    TRY(find_exempt(&r));
    TRY(list_users(&r));
    TRY(find_all_last(&r));
    return free_names(&r);
}

weft_status by_name_free(by_name *z, size_t n) {
    proof_schedule *s = z->s;
    s->memory = ARENA_ARRAY(s->arena, proof_memory, s->nbuffers + 1);
    bool *shared = ARENA_ARRAY(z->arena, bool, s->nbuffers + 1), *kept = ARENA_ARRAY(z->arena, bool, s->nbuffers + 1);
    if (!s->memory || !shared || !kept) return base_out_of_memory();
    for (size_t i = 0; i < s->nbuffers; i++)
        s->memory[i] = (proof_memory){PROOF_NONE, PROOF_NONE, PROOF_NONE, PROOF_NONE, PROOF_NONE};
    find_makers(z, shared);
    for (size_t i = 0; i < n; i++) TRY(free_block(&z[i], shared, kept));
    for (size_t i = 0; i < s->nbuffers; i++)
        if (kept[i]) s->memory[i].freed_by = PROOF_NONE;
    return NULL;
}
