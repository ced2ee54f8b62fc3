/* rank_programs.c: the programs of all ranks from one serial program.
 *
 * The list is run once for ranks that stand alike along the mesh axes that a pass said tell them apart. Their programs
 * have the same ops. They differ in the rings, which ranks are along the same axes, and in attrs that the pass noted,
 * which say where a rank stands. Such a program is copied when it is asked for. */
#include "passes/pass_manager.h"
#include "proof/classes.h"

typedef struct rank_program {
    size_t body;           /* the rank whose program has the same ops */
    size_t same;           /* the first rank whose program is the same in all, rings too */
    weft_program *program; /* of the rank that is `same` to itself; NULL: not asked for yet */
    rank_edits *edits;     /* of the rank that is `body` to itself: what others differ in */
} rank_program;

struct weft_rank_programs {
    weft_context *context;
    rank_program *ranks;
    size_t count, nbodies;
};

/* One more than the largest rank of any mesh or ring. */
static size_t count_ranks(const weft_program *p) {
    int64_t last = program_last_rank(p);
    for (size_t i = 0; i < p->nmeshes; i++)
        for (int64_t k = 0; k < mesh_size(p->meshes[i]); k++)
            if (p->meshes[i]->ids[k] > last) last = p->meshes[i]->ids[k];
    return (size_t)last + 1;
}

static weft_status make_one(const weft_pass_list *list, const weft_program *serial, size_t rank, pass_told *told,
                            weft_report **report, weft_program **out) {
    weft_program *made = NULL;
    *told = (pass_told){.is_told = false};
    weft_status status = rank_edits_create(serial->context, &told->edits);
    if (!status) status = weft_program_clone(serial, &made);
    if (!status) status = pass_list_run_told(list, made, (int64_t)rank, told, report);
    if (!status) return *out = made, NULL;
    rank_edits_destroy(told->edits);
    weft_program_destroy(made);
    return status;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* Ranks along the axes (bits) from where `at` is, in the mesh's order. Returns how many. */
static int group_of(const mesh *m, uint32_t axes, const int64_t *at, int64_t *out) {
    int64_t own[MESH_MAX_NDIM];
    int count = 0;
    for (int64_t i = 0; i < mesh_size(m); i++) {
        int64_t rest = i;
        bool is_member = true;
        for (int k = m->ndim - 1; k >= 0; k--) {
            own[k] = rest % m->shape[k];
            rest /= m->shape[k];
            is_member &= (axes >> k & 1) || own[k] == at[k];
        }
        if (is_member) out[count++] = m->ids[i];
    }
    return count;
}

/* The mesh axes along which the ranks of a ring of the rank at `at` are; 0: it is no such ring. */
static uint32_t axes_of_ring(const mesh *m, const ring *r, const int64_t *at, int64_t *room) {
    for (uint32_t axes = 1; axes < UINT32_C(1) << m->ndim; axes++) {
        int64_t size = 1;
        for (int k = 0; k < m->ndim; k++) size *= axes >> k & 1 ? m->shape[k] : 1;
        if (size != r->nranks) continue;
        int n = group_of(m, axes, at, room);
        if (memcmp(room, r->ranks, (size_t)n * sizeof *room) == 0) return axes;
    }
    return 0;
}

/* Makes the rings of a rank's program those of another rank. */
static weft_status move_rings(weft_program *p, const mesh *m, const int64_t *from, const int64_t *to) {
    const weft_allocator *a = &p->context->allocator;
    size_t nbytes = (size_t)mesh_size(m) * sizeof(int64_t);
    int64_t *room = base_alloc(a, nbytes);
    weft_status status = room ? NULL : base_out_of_memory();
    for (size_t i = 0; i < p->nrings && !status; i++) {
        ring moved = p->rings[i];
        uint32_t axes = axes_of_ring(m, &moved, from, room);
        if (!axes) continue;
        moved.nranks = group_of(m, axes, to, room);
        moved.ranks = room;
        status = program_put_ring(p, &moved);
    }
    base_free(a, room, nbytes);
    return status;
}

/* --- which ranks share -------------------------------------------------------------------------------------------- */

/* Along the axes outside a ring, ranks are in different ones. */
static uint32_t axes_of_rings(const weft_program *p, const mesh *m, const int64_t *at, int64_t *room) {
    uint32_t axes = 0, all = (UINT32_C(1) << m->ndim) - 1;
    for (size_t i = 0; i < p->nrings; i++) {
        uint32_t own = axes_of_ring(m, &p->rings[i], at, room);
        if (own) axes |= all & ~own;
    }
    return axes;
}

/* A number that ranks have in common which stand alike along the axes, and are the last or not along `ends`. */
static int64_t place_along(const mesh *m, uint32_t axes, uint32_t ends, const int64_t *at) {
    int64_t place = 0;
    for (int k = 0; k < m->ndim; k++) {
        if (axes >> k & 1)
            place = place * m->shape[k] + at[k];
        else if ((ends >> k & 1) && m->shape[k] > 1)
            place = place * 2 + (at[k] == m->shape[k] - 1);
    }
    return place;
}

typedef struct sharer {
    weft_rank_programs *all;
    const weft_pass_list *list;
    const weft_program *serial;
    const mesh *mesh;       /* NULL: no pass tells ranks apart by places in one */
    pass_told told;         /* of the first rank */
    uint32_t axes, ringed;  /* axes that tell ops apart; rings and attrs too */
    size_t *bodies, *sames; /* 1 + a rank, by place along `axes` and `ringed` */
    int64_t *room;
} sharer;

/* Whether both are equal but for the rank that each is for. */
static bool are_equal(weft_program *a, weft_program *b) {
    int64_t rank_a = a->rank, rank_b = b->rank;
    a->rank = b->rank = -1;
    bool equal = weft_program_equal(a, b);
    a->rank = rank_a;
    b->rank = rank_b;
    return equal;
}

/* Nothing was told of what ranks share: it may still be that of the rank before. */
static void compare(sharer *s, size_t rank) {
    rank_program *r = &s->all->ranks[rank], *before = &s->all->ranks[s->all->ranks[rank - 1].same];
    if (!before->program || !are_equal(before->program, r->program)) return;
    weft_program_destroy(r->program);
    rank_edits_destroy(r->edits);
    *r = (rank_program){.body = before->body, .same = before->same};
    before->program->rank = -1;
}

static weft_status make_body(sharer *s, size_t rank) {
    rank_program *r = &s->all->ranks[rank];
    pass_told told;
    TRY(make_one(s->list, s->serial, rank, &told, NULL, &r->program));
    r->edits = told.edits;
    r->body = r->same = rank;
    s->all->nbodies++;
    if (!s->mesh) compare(s, rank);
    return NULL;
}

/* What the first rank's program tells of all of them. */
static void begin(sharer *s) {
    int64_t at[MESH_MAX_NDIM];
    weft_program *p = s->all->ranks[0].program;
    bool placed = p->nmeshes == 1 && p->meshes[0]->ndim < MESH_MAX_NDIM;
    if (!s->told.is_told && s->all->count > 1) p->rank = -1; /* one program for all */
    if (!s->told.is_told || s->axes == PASS_TOLD_APART) return;
    if (!placed || !mesh_coordinates(p->meshes[0], 0, at)) {
        s->axes = PASS_TOLD_APART;
        return;
    }
    s->mesh = p->meshes[0];
    s->axes &= (UINT32_C(1) << s->mesh->ndim) - 1;
    s->ringed = s->axes | rank_edits_axes(s->told.edits) | axes_of_rings(p, s->mesh, at, s->room);
    s->bodies[place_along(s->mesh, s->axes, s->told.ends, at)] = 1;
    s->sames[place_along(s->mesh, s->ringed, s->told.ends, at)] = 1;
}

static weft_status place_rank(sharer *s, size_t rank) {
    int64_t at[MESH_MAX_NDIM];
    rank_program *r = &s->all->ranks[rank];
    if (!s->mesh && s->axes != PASS_TOLD_APART) return NULL; /* that of rank 0 */
    if (!s->mesh || !mesh_coordinates(s->mesh, (int64_t)rank, at)) return make_body(s, rank);
    size_t *body = &s->bodies[place_along(s->mesh, s->axes, s->told.ends, at)],
           *same = &s->sames[place_along(s->mesh, s->ringed, s->told.ends, at)];
    if (!*body) {
        TRY(make_body(s, rank));
        *body = *same = 1 + rank;
        return NULL;
    }
    if (!*same) *same = 1 + rank;
    r->body = *body - 1;
    r->same = *same - 1;
    if (r->same != rank && s->all->ranks[r->same].program) s->all->ranks[r->same].program->rank = -1;
    return NULL;
}

static weft_status share(sharer *s) {
    const weft_allocator *a = &s->all->context->allocator;
    size_t n = s->all->count, nbytes = n * sizeof(size_t);
    weft_status status = NULL;
    s->bodies = base_alloc(a, nbytes);
    s->sames = base_alloc(a, nbytes);
    s->room = base_alloc(a, n * sizeof *s->room);
    if (!s->bodies || !s->sames || !s->room) TRY_DONE(base_out_of_memory());
    memset(s->bodies, 0, nbytes);
    memset(s->sames, 0, nbytes);
    begin(s);
    for (size_t i = 1; i < n; i++) TRY_DONE(place_rank(s, i));
done:
    base_free(a, s->bodies, nbytes);
    base_free(a, s->sames, nbytes);
    base_free(a, s->room, n * sizeof *s->room);
    return status;
}

weft_status weft_pass_list_run_ranks(const weft_pass_list *list, const weft_program *program,
                                     weft_rank_programs **out_programs, weft_report **out_report) {
    weft_status status = NULL;
    const weft_allocator *a = &program->context->allocator;
    weft_program *first = NULL;
    pass_told told;
    TRY(pass_check_all_ranks(program));
    TRY(make_one(list, program, 0, &told, out_report, &first));
    size_t given = count_ranks(program), n = count_ranks(first); /* the list may have told how many there are */
    if (n < given) n = given;
    rank_edits *edits = told.edits;
    weft_rank_programs *all = base_alloc(a, sizeof *all);
    if (!all) TRY_DONE(base_out_of_memory());
    *all = (weft_rank_programs){.context = program->context, .count = n, .nbodies = 1};
    all->ranks = base_alloc(a, n * sizeof *all->ranks);
    if (!all->ranks) TRY_DONE(base_out_of_memory());
    memset(all->ranks, 0, n * sizeof *all->ranks);
    all->ranks[0].program = first;
    all->ranks[0].edits = edits;
    first = NULL;
    edits = NULL;
    TRY_DONE(share(&(sharer){.all = all, .list = list, .serial = program, .told = told, .axes = told.apart}));
    *out_programs = all;
    all = NULL;
done:
    rank_edits_destroy(edits);
    weft_program_destroy(first);
    weft_rank_programs_destroy(all);
    return status;
}

/* --- results ------------------------------------------------------------------------------------------------------ */

size_t weft_rank_programs_count(const weft_rank_programs *programs) {
    return programs->count;
}

size_t weft_rank_programs_made(const weft_rank_programs *programs) {
    return programs->nbodies;
}

/* Exchanges the attrs of the body's program and those of another rank's. */
static weft_status exchange(const weft_rank_programs *all, size_t body, size_t rank) {
    int64_t at[MESH_MAX_NDIM];
    const mesh *m = all->ranks[body].program->meshes[0];
    (void)mesh_coordinates(m, (int64_t)rank, at);
    return rank_edits_exchange(all->ranks[body].edits, m, at);
}

/* Gives the program of one rank the rings of another that shares it. */
static weft_status become(const weft_rank_programs *all, weft_program *p, size_t from, size_t to) {
    int64_t at[MESH_MAX_NDIM], other[MESH_MAX_NDIM];
    (void)mesh_coordinates(p->meshes[0], (int64_t)from, at);
    (void)mesh_coordinates(p->meshes[0], (int64_t)to, other);
    bool shared = false;
    for (size_t i = 0; i < all->count; i++) shared |= i != to && all->ranks[i].same == to;
    p->rank = shared ? -1 : (int64_t)to;
    return move_rings(p, p->meshes[0], at, other);
}

weft_program *weft_rank_programs_at(const weft_rank_programs *programs, size_t rank) {
    if (rank >= programs->count) return NULL;
    size_t same = programs->ranks[rank].same, body = programs->ranks[same].body;
    rank_program *r = &programs->ranks[same];
    if (r->program) return r->program;
    weft_program *made = NULL;
    weft_status status = exchange(programs, body, same);
    if (!status) status = weft_program_clone(programs->ranks[body].program, &made);
    status = pass_keep_first(status, exchange(programs, body, same));
    if (!status) status = become(programs, made, body, same);
    if (status)
        weft_program_destroy(made);
    else
        r->program = made;
    weft_status_free(status);
    return r->program;
}

weft_status weft_rank_programs_save(const weft_rank_programs *programs, size_t rank, const char *path) {
    size_t same = programs->ranks[rank].same, body = programs->ranks[same].body;
    weft_program *p = programs->ranks[same].program;
    if (p) return weft_program_save(p, path);
    p = programs->ranks[body].program;
    int64_t was = p->rank;
    weft_status status = exchange(programs, body, same);
    if (!status) status = become(programs, p, body, same);
    if (!status) status = weft_program_save(p, path);
    status = pass_keep_first(status, become(programs, p, same, body));
    p->rank = was;
    return pass_keep_first(status, exchange(programs, body, same));
}

void weft_rank_programs_destroy(weft_rank_programs *all) {
    if (!all) return;
    const weft_allocator *a = &all->context->allocator;
    for (size_t i = 0; all->ranks && i < all->count; i++) {
        weft_program_destroy(all->ranks[i].program);
        rank_edits_destroy(all->ranks[i].edits);
    }
    base_free(a, all->ranks, all->count * sizeof *all->ranks);
    base_free(a, all, sizeof *all);
}
