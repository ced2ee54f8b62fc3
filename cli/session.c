/* session.c: programs, feeds, fetches, delays: from the command line to what the library takes. */
#include "cli/session.h"
#include "weft/feeds.h"

#include <stdlib.h>
#include <string.h>

bool trace_name_is_good(const cli_args *args) {
    for (size_t i = 0; i < args->ngiven; i++) {
        const char *path = args->values[i];
        if (strcmp(args->names[i], "--trace") != 0 || cli_ends_with(path, ".json") || cli_ends_with(path, ".html"))
            continue;
        cli_usage_error(args->command, "--trace: expected F.json or F.html, found \"%s\"", path);
        return false;
    }
    return true;
}

char *path_with(const char *path, const char *mark, long long number) {
    size_t room = strlen(path) + 1, length = 0, skipped = strlen(mark);
    for (const char *at = path; (at = strstr(at, mark)); at += skipped) room += 24;
    char *out = malloc(room);
    if (!out) return NULL;
    for (const char *at = path; *at;) {
        if (strncmp(at, mark, skipped) == 0) {
            length += (size_t)snprintf(out + length, room - length, "%lld", number);
            at += skipped;
        } else {
            out[length++] = *at++;
        }
    }
    out[length] = '\0';
    return out;
}

char *rank_path(const char *path, int rank) {
    return path_with(path, "{rank}", rank);
}

bool has_rank(const char *path) {
    return strstr(path, "{rank}") != NULL;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static bool read_ranks(cli_session *s) {
    const cli_args *args = s->args;
    long long ranks = args->npositional > 1 ? (long long)args->npositional : 0;
    if (!cli_int(args, "--ranks", 1, 4096, &ranks)) return false;
    s->nranks = (int)ranks;
    if (args->npositional == 1 || (long long)args->npositional == ranks) return true;
    cli_usage_error(args->command, "%zu programs for %lld ranks: expected one program, or one each", args->npositional,
                    ranks);
    return false;
}

/* "OP:MS[:RANK]" */
static bool parse_delay(const char *given, weft_delay *out) {
    long long op;
    double ms;
    int rank = -1, end = 0;
    if (sscanf(given, "%lld:%lf%n", &op, &ms, &end) != 2 || op < 0 || !(ms >= 0 && ms < 1e9)) return false;
    if (given[end] && (sscanf(given + end, ":%d%n", &rank, &end) != 1 || rank < 0)) return false;
    *out = (weft_delay){rank, op, ms / 1e3};
    return true;
}

static bool read_delays(cli_session *s) {
    const cli_args *args = s->args;
    s->delays = calloc(args->ngiven + 1, sizeof *s->delays);
    for (size_t i = 0; s->delays && i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--delay") != 0) continue;
        if (parse_delay(args->values[i], &s->delays[s->ndelays++])) continue;
        cli_usage_error(args->command, "--delay: expected OP:MS or OP:MS:RANK, found \"%s\"", args->values[i]);
        return false;
    }
    return s->delays != NULL;
}

/* "a,b" into names; the list is cut in place. */
static void split_fetches(cli_session *s, char *list) {
    for (char *at = list; at;) {
        char *comma = strchr(at, ',');
        if (comma) *comma++ = '\0';
        if (*at) s->fetches[s->nfetches++] = at;
        at = comma;
    }
}

/* What each --fetch names, in the order in which it is given. */
static bool read_fetches(cli_session *s) {
    const cli_args *args = s->args;
    size_t nbytes = 0, used = 0;
    for (size_t i = 0; i < args->ngiven; i++)
        if (strcmp(args->names[i], "--fetch") == 0) nbytes += strlen(args->values[i]) + 1;
    if (!nbytes) return true;
    s->fetch_list = malloc(nbytes);
    s->fetches = calloc(nbytes, sizeof *s->fetches);
    if (!s->fetch_list || !s->fetches) return false;
    for (size_t i = 0; i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--fetch") != 0) continue;
        char *list = strcpy(s->fetch_list + used, args->values[i]);
        used += strlen(list) + 1;
        split_fetches(s, list);
    }
    return true;
}

bool cli_session_init(cli_session *s, const cli_args *args) {
    *s = (cli_session){.args = args};
    return read_ranks(s) && cli_reading_init(&s->reading, args) && read_delays(s) && read_fetches(s);
}

void cli_session_fini(cli_session *s) {
    for (size_t i = 0; s->feeds && i < s->nfeeds; i++) weft_tensors_destroy(s->feeds[i]);
    for (size_t i = 0; s->orders && i < s->args->npositional; i++) weft_plan_order_destroy(s->orders[i]);
    for (size_t i = 0; s->programs && i < s->args->npositional; i++) weft_program_destroy(s->programs[i]);
    free(s->feeds);
    free(s->orders);
    free(s->programs);
    free(s->fetch_list);
    free(s->fetches);
    free(s->delays);
    cli_reading_fini(&s->reading);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* How many ranks the rings are of on which ops communicate; 0: none is named. */
static int64_t ranks_in_use(const weft_program *p) {
    int64_t found = 0;
    for (size_t b = 0; b < weft_program_nblocks(p); b++) {
        for (const weft_op *op = weft_block_first_op(weft_program_block(p, b)); op; op = weft_op_next(op)) {
            size_t nranks;
            const int64_t *ranks;
            int64_t ring = weft_op_attr_int(op, "ring_id", -1);
            if (ring < 0 || !weft_program_ring(p, ring, &nranks, &ranks)) continue;
            for (size_t i = 0; i < nranks; i++)
                if (ranks[i] >= found) found = ranks[i] + 1;
        }
    }
    return found;
}

/* How many ranks one program is run on: as many as are asked for, or as its rings say. Rings in use must agree. */
static weft_status find_ranks(cli_session *s) {
    enum { MOST_RANKS = 4096 };
    const char *path = s->args->positional[0];
    if (s->args->npositional > 1) return NULL;
    int64_t said = weft_program_nranks(s->programs[0]);
    if (!s->nranks && said > MOST_RANKS)
        return weft_status_create(WEFT_LIMIT, path, "its rings are of %lld ranks: a run has at most %d",
                                  (long long)said, MOST_RANKS);
    if (!s->nranks) s->nranks = said ? (int)said : 1;
    said = ranks_in_use(s->programs[0]);
    if (!said || said == s->nranks) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, path, "its rings are made for %lld ranks, --ranks asks for %d",
                              (long long)said, s->nranks);
}

/* One program is every rank's. */
static bool is_needed(const cli_session *s, size_t program) {
    return s->args->npositional == 1 || cli_session_has_rank(s, program);
}

static weft_status load_program(cli_session *s, size_t i) {
    if (s->programs[i]) return NULL;
    return weft_program_load(s->args->context, s->args->positional[i], NULL, &s->programs[i]);
}

static weft_status load_programs(cli_session *s, bool all) {
    weft_status status = NULL;
    if (!s->programs) s->programs = calloc(s->args->npositional, sizeof *s->programs);
    if (!s->programs) return cli_no_memory();
    for (size_t i = 0; !status && i < s->args->npositional; i++)
        if (all || is_needed(s, i)) status = load_program(s, i);
    return status;
}

weft_status cli_session_load_programs(cli_session *s) {
    weft_status status = load_programs(s, false);
    return status ? status : find_ranks(s);
}

weft_status cli_session_load_all_programs(cli_session *s) {
    return load_programs(s, true);
}

void cli_session_drop_others(cli_session *s) {
    for (size_t i = 0; i < s->args->npositional; i++) {
        if (is_needed(s, i)) continue;
        weft_program_destroy(s->programs[i]);
        s->programs[i] = NULL;
    }
}

weft_status cli_session_make_orders(cli_session *s) {
    if (s->reading.options.reading == WEFT_READING_BY_BYTES) return NULL;
    s->orders = calloc(s->args->npositional, sizeof *s->orders);
    if (!s->orders) return cli_no_memory();
    weft_status status = NULL;
    for (size_t i = 0; !status && i < s->args->npositional; i++)
        if (s->programs[i]) status = weft_plan_order_create(s->programs[i], &s->reading.options, &s->orders[i]);
    return status;
}

bool cli_session_feeds_per_rank(const cli_session *s) {
    return s->feeds && has_rank(cli_value(s->args, "--feed"));
}

bool cli_session_has_rank(const cli_session *s, size_t rank) {
    return !s->nlocal || (rank >= (size_t)s->first_rank && rank < (size_t)(s->first_rank + s->nlocal));
}

/* A file without names has those of the first program. */
weft_status cli_session_load_params(cli_session *s, const char *path, weft_tensors **out_params) {
    weft_status status = cli_ends_with(path, ".pdiparams") ? load_program(s, 0) : NULL;
    if (status) return status;
    if (!s->nlocal) return weft_tensors_load(s->args->context, path, s->programs[0], out_params);
    return weft_params_load(s->args->context, path, (const weft_program *const *)s->programs, s->args->npositional,
                            s->first_rank, s->nlocal, out_params);
}

/* What the ranks here are fed of the global batch. What no program here has, another rank's may have. */
static weft_status load_part(cli_session *s, const char *path, weft_tensors **out) {
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT,           .programs = (const weft_program *const *)s->programs,
                            .nprograms = s->args->npositional, .nranks = s->nranks,
                            .first_step = s->first_step,       .nsteps = s->nsteps};
    weft_status status = weft_feeds_load(s->args->context, path, &o, s->first_rank, s->nlocal, out);
    if (weft_status_code(status) != WEFT_NOT_FOUND || s->args->npositional == 1) return status;
    weft_status_free(status);
    status = cli_session_load_all_programs(s);
    return status ? status : weft_feeds_load(s->args->context, path, &o, s->first_rank, s->nlocal, out);
}

weft_status cli_session_load_feeds(cli_session *s) {
    const char *path = cli_value(s->args, "--feed");
    if (!path) return NULL;
    size_t nfiles = has_rank(path) ? (size_t)s->nranks : 1;
    s->feeds = calloc(nfiles, sizeof *s->feeds);
    if (!s->feeds) return cli_no_memory();
    s->nfeeds = nfiles;
    weft_status status = NULL;
    if (s->nlocal && !has_rank(path)) return load_part(s, path, &s->feeds[0]);
    for (size_t i = 0; !status && i < nfiles; i++) {
        if (!cli_session_has_rank(s, i)) continue;
        char *file = rank_path(path, (int)i);
        if (!file) return cli_no_memory();
        size_t program = s->args->npositional > 1 && i < s->args->npositional ? i : 0;
        status = weft_tensors_load(s->args->context, file, s->programs[program], &s->feeds[i]);
        free(file);
    }
    return status;
}
