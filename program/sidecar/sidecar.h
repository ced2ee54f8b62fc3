/* sidecar.h: the members of the sidecar's objects, for its reader and its writer. */
#ifndef PROGRAM_SIDECAR_SIDECAR_H
#define PROGRAM_SIDECAR_SIDECAR_H

#include "base/json.h"
#include "program/form.h"

typedef struct sidecar_reader {
    weft_program *program;
    weft_context *context;
    const char *place;
    size_t budget; /* of the program's arena */
    arena scratch;
    const mesh **meshes; /* by the sidecar's index */
    size_t nmeshes;
    weft_var **vars;   /* by id of name; NULL: no var has it */
    size_t nvars;      /* names that had an id then */
    size_t nstrangers; /* entries for what the program does not have */
    size_t nproblems;
    weft_status first_problem;
} sidecar_reader;

/* Sends a problem to the sink and keeps the first. */
void sidecar_problem(sidecar_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);

/* An entry for what the program does not have: a warning for each of the first ones, and one for all others. */
enum { SIDECAR_STRANGERS = 10 };
void sidecar_stranger(sidecar_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);
void sidecar_tell_more_strangers(sidecar_reader *r);
/* NULL: the program has no var of that name. */
weft_var *sidecar_var(const sidecar_reader *r, const name *n);

/* The members that an object may have; lists are ended by NULL. */
typedef struct sidecar_members {
    const char *const *read, *const *kept; /* kept: as they are, and written back */
    bool is_open;                          /* others are kept too, unless they are a known one misspelt */
} sidecar_members;
/* A problem for each member of `object` that it may not have. Those to keep, as JSON text in the program's arena; NULL:
 * none, which is no error for a `what` that keeps none. */
WEFT_MUST_USE weft_status sidecar_extra(sidecar_reader *r, const json_t *object, const char *what,
                                        const sidecar_members *known, const char **out);
/* The same for an object that keeps none. */
void sidecar_only(sidecar_reader *r, const json_t *object, const char *what, const char *const *read);
/* Reads a list of integers; a problem (and false in *out_ok) if it is none. The memory is the program's. */
WEFT_MUST_USE weft_status sidecar_ints(sidecar_reader *r, const json_t *list, const char *what, const int64_t **out,
                                       size_t *out_count, bool *out_ok);
/* Reads a dims_mapping: for each axis of a tensor a mesh axis, -1, or a list of mesh axes. An axis is a number, or its
 * name on the mesh `on` (NULL: there is none). */
WEFT_MUST_USE weft_status sidecar_dims_mapping(sidecar_reader *r, const json_t *list, const char *what, const mesh *on,
                                               const int64_t **out, size_t *out_count, bool *out_ok);
/* Reads the members of a placement, which are these. */
extern const char *const sidecar_placed[];
WEFT_MUST_USE weft_status sidecar_placement(sidecar_reader *r, const json_t *object, const char *what, placement *out,
                                            bool *out_ok);
/* Reads `partial`: a list of mesh axes (sums), or an object of reduce kinds by axis; names are those of out->mesh. */
WEFT_MUST_USE weft_status sidecar_partial(sidecar_reader *r, const json_t *value, const char *what, placement *out);
bool sidecar_mesh(sidecar_reader *r, const json_t *value, const char *what, const mesh **out);
bool sidecar_int(sidecar_reader *r, const json_t *value, const char *what, int64_t *out);
/* A string in the program's arena; NULL for null. */
WEFT_MUST_USE weft_status sidecar_string(sidecar_reader *r, const json_t *value, const char *what, const char **out);

/* The per-op entries. */
WEFT_MUST_USE weft_status sidecar_read_ops(sidecar_reader *r, const json_t *ops);

#endif
