/* weft/program.h: a static training program: blocks of ops over vars, with distributed attributes and rings.
 *
 * The model is Paddle's ProgramDesc (paddle/fluid/framework/framework.proto). A program owns all its blocks, vars, ops
 * and attrs. Pointers to them stay valid until the program is destroyed, also across edits. A removed op may not be
 * used again. A program is used from one thread at a time. Ops of a block are a linked list with order numbers:
 * insertion, removal and "is a before b" cost O(1) amortised. Every var knows its readers and writers. */
#ifndef WEFT_PROGRAM_H
#define WEFT_PROGRAM_H

#include <stdbool.h>

#include "weft/context.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_program weft_program;
typedef struct weft_block weft_block;
typedef struct weft_op weft_op;
typedef struct weft_var weft_var;
typedef struct weft_attr weft_attr;

/* Serialized forms. */
typedef enum weft_form {
    WEFT_FORM_PDMODEL, /* ProgramDesc wire format, sidecar apart */
    WEFT_FORM_YAML,    /* one op a line; holds everything */
    WEFT_FORM_FX,      /* .fx.json: a traced PyTorch graph, one node a line; holds ops, dense tensors and rings */
    WEFT_FORM_TEXT     /* for reading alone: YAML or FX, as the text begins */
} weft_form;

/* --- whole programs ----------------------------------------------------------------------------------------------- */

/* An empty program with block 0. */
WEFT_MUST_USE weft_status weft_program_create(weft_context *context, weft_program **out_program);
/* Destroys a program and all it owns; NULL is fine. */
void weft_program_destroy(weft_program *program);
/* A deep copy that shares nothing with `program`. */
WEFT_MUST_USE weft_status weft_program_clone(const weft_program *program, weft_program **out_program);
/* Makes several steps one. Appends copies of the ops of block 0, and of the blocks that they run, so that they stand
 * there `times` times. On failure some are appended. */
WEFT_MUST_USE weft_status weft_program_repeat(weft_program *program, size_t times);

/* Reads a program: form by extension (.pdmodel, .yaml, .fx.json, each also with .gz; "-" is YAML or FX on stdin). The
 * sidecar of a .pdmodel is `dist_path`, or the file found by the rule of `weft help files` when that is NULL. A missing
 * one is fine only in the second case. Every problem goes to the diagnostic sink. */
WEFT_MUST_USE weft_status weft_program_load(weft_context *context, const char *path, const char *dist_path,
                                            weft_program **out_program);
/* Writes a program, form by extension, and beside a .pdmodel its sidecar NAME.dist.json. Nothing is half written. */
WEFT_MUST_USE weft_status weft_program_save(const weft_program *program, const char *path);
/* Reads a program of less than 4 GiB from memory. `sidecar` (JSON text, may be NULL) applies to WEFT_FORM_PDMODEL.
 * `place` names the input in messages. */
WEFT_MUST_USE weft_status weft_program_parse(weft_context *context, weft_form form, const void *bytes, size_t nbytes,
                                             const char *sidecar, size_t sidecar_nbytes, const char *place,
                                             weft_program **out_program);
/* Serializes into bytes owned by the caller (weft_bytes_free). parse(print(p)) equals p. */
WEFT_MUST_USE weft_status weft_program_print(const weft_program *program, weft_form form, char **out_bytes,
                                             size_t *out_nbytes);
/* The sidecar's JSON text; owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_program_print_sidecar(const weft_program *program, char **out_bytes, size_t *out_nbytes);
/* Checks the structure: slots, vars, extents, element types, sub-blocks, rings, meshes. Every problem goes to the sink;
 * the status names the first and says how many. */
WEFT_MUST_USE weft_status weft_program_verify(const weft_program *program);
/* Checks that each var that ops read is declared or written. Compares declared shapes and element types, op by op, with
 * what ops make of their inputs. Every problem goes to the sink; the status names the first. An extent of -1, an op
 * without a rule and a var without a type contradict nothing. Some programs carry Paddle's version or come from an FX
 * graph. Of these only names are checked, since their makers' inference overrides what they declare. `weft run` and
 * `weft verify` refuse what this refuses; reading, converting and passes do not. */
WEFT_MUST_USE weft_status weft_program_check_types(const weft_program *program);
/* Equality of everything that is serialized. */
bool weft_program_equal(const weft_program *a, const weft_program *b);

size_t weft_program_nblocks(const weft_program *program);
weft_block *weft_program_block(const weft_program *program, size_t index); /* NULL if out of range */
size_t weft_program_nops(const weft_program *program);                     /* over all blocks */
/* The rank this program is for, from its sidecar; -1 if it serves every rank. */
int64_t weft_program_rank(const weft_program *program);
/* How many ranks the program's rings are of: the last rank that one names, and 1. 0: they name none. */
int64_t weft_program_nranks(const weft_program *program);

/* Rings, by id. `out_ranks` is borrowed. False if the program does not name that ring. */
bool weft_program_ring(const weft_program *program, int64_t ring_id, size_t *out_nranks, const int64_t **out_ranks);
WEFT_MUST_USE weft_status weft_program_set_ring(weft_program *program, int64_t ring_id, size_t nranks,
                                                const int64_t *ranks);

/* --- blocks ------------------------------------------------------------------------------------------------------- */

weft_op *weft_block_first_op(const weft_block *block);
weft_op *weft_block_last_op(const weft_block *block);
size_t weft_block_nops(const weft_block *block);
size_t weft_block_index(const weft_block *block); /* for weft_program_block */
size_t weft_block_nvars(const weft_block *block);
weft_var *weft_block_var_at(const weft_block *block, size_t index);
/* The var of that name in this block or, failing that, its ancestors; NULL if there is none. */
weft_var *weft_block_find_var(const weft_block *block, const char *name);
/* A new dense tensor var. The name must be new in the block. */
WEFT_MUST_USE weft_status weft_block_add_var(weft_block *block, const char *name, weft_dtype dtype, size_t ndim,
                                             const int64_t *dims, weft_var **out_var);

/* Marks a var as living across steps, and as a parameter. */
void weft_var_set_persistable(weft_var *var, bool persistable, bool is_parameter);
/* The program's version; 0: it has none. */
int64_t weft_program_version(const weft_program *program);
/* Sets the program's version (major * 1000000 + minor * 1000 + patch of the Paddle that it is for). */
void weft_program_set_version(weft_program *program, int64_t version);

/* --- vars --------------------------------------------------------------------------------------------------------- */

const char *weft_var_name(const weft_var *var);
weft_block *weft_var_block(const weft_var *var); /* that declares it; NULL: ops name it, and no block declares it */
weft_var_kind weft_var_kind_of(const weft_var *var);
weft_dtype weft_var_dtype(const weft_var *var);
/* Number of axes, and the extents (-1: unknown until run time), borrowed. */
size_t weft_var_ndim(const weft_var *var);
const int64_t *weft_var_dims(const weft_var *var);
bool weft_var_persistable(const weft_var *var);
/* Readers and writers in program order are found through uses: each is one argument of one op. */
size_t weft_var_nuses(const weft_var *var);

/* How a var lies on the mesh: "[dp, -]", "[-] partial over mp". Owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_var_placement_print(const weft_var *var, char **out_bytes, size_t *out_nbytes);
/* The same with what spmd_propagate wrote down. For each mesh axis that shards the var it tells from which var, and
 * through which op, that came, back to the annotation. Owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_var_placement_explain(const weft_var *var, char **out_bytes, size_t *out_nbytes);

/* --- ops ---------------------------------------------------------------------------------------------------------- */

const char *weft_op_type(const weft_op *op);
weft_op *weft_op_next(const weft_op *op);
weft_op *weft_op_prev(const weft_op *op);
weft_block *weft_op_block(const weft_op *op);
/* Both in one block; O(1) amortised. */
bool weft_op_is_before(const weft_op *a, const weft_op *b);
int weft_op_role(const weft_op *op);
/* The i-th argument of a slot, NULL if there are fewer. */
weft_var *weft_op_input(const weft_op *op, const char *slot, size_t index);
weft_var *weft_op_output(const weft_op *op, const char *slot, size_t index);
size_t weft_op_ninputs(const weft_op *op, const char *slot);
size_t weft_op_noutputs(const weft_op *op, const char *slot);

/* Slots in file order: how many, the name and number of arguments of one (NULL if out of range), one argument. */
size_t weft_op_nslots(const weft_op *op, bool output);
const char *weft_op_slot(const weft_op *op, bool output, size_t slot_index, size_t *out_nargs);
weft_var *weft_op_arg(const weft_op *op, bool output, size_t slot_index, size_t index);
/* The name of the stream that a pass or Paddle gave the op; "" is the compute stream. Borrowed. */
const char *weft_op_stream(const weft_op *op);
/* The event that the op records when it completes; "": none. The i-th event that it waits for before it starts; NULL:
 * there are fewer. Borrowed. */
const char *weft_op_event_recorded(const weft_op *op);
const char *weft_op_event_awaited(const weft_op *op, size_t index);
/* Position among the ops of its block, from 0. O(n). */
size_t weft_op_index(const weft_op *op);

/* Attrs as their own type; the default where there is none of that name and type. INT and LONG convert to each other,
 * FLOAT and FLOAT64 too. Strings are borrowed. */
int64_t weft_op_attr_int(const weft_op *op, const char *name, int64_t fallback);
double weft_op_attr_float(const weft_op *op, const char *name, double fallback);
bool weft_op_attr_bool(const weft_op *op, const char *name, bool fallback);
const char *weft_op_attr_string(const weft_op *op, const char *name, const char *fallback);

/* --- edits -------------------------------------------------------------------------------------------------------- */

/* A new op of `type`, not yet in a block. Give it arguments and attrs, then insert it. */
WEFT_MUST_USE weft_status weft_op_create(weft_program *program, const char *type, weft_op **out_op);
/* Appends `var` to a slot of `op`, making the slot at its sorted place if it is new. With var NULL an empty slot.
 * Inputs are best added before outputs, which each input behind them moves. */
WEFT_MUST_USE weft_status weft_op_add_input(weft_op *op, const char *slot, weft_var *var);
WEFT_MUST_USE weft_status weft_op_add_output(weft_op *op, const char *slot, weft_var *var);
/* Replaces every argument `from` of `op` (inputs, outputs or both) by `to`. */
void weft_op_rename_input(weft_op *op, const weft_var *from, weft_var *to);
void weft_op_rename_output(weft_op *op, const weft_var *from, weft_var *to);
WEFT_MUST_USE weft_status weft_op_set_attr_int(weft_op *op, const char *name, int64_t value);  /* INT */
WEFT_MUST_USE weft_status weft_op_set_attr_float(weft_op *op, const char *name, double value); /* FLOAT */
WEFT_MUST_USE weft_status weft_op_set_attr_bool(weft_op *op, const char *name, bool value);    /* BOOLEAN */
WEFT_MUST_USE weft_status weft_op_set_attr_string(weft_op *op, const char *name, const char *value);
WEFT_MUST_USE weft_status weft_op_set_attr_longs(weft_op *op, const char *name, size_t count, const int64_t *values);
WEFT_MUST_USE weft_status weft_op_set_attr_ints(weft_op *op, const char *name, size_t count, const int64_t *values);
WEFT_MUST_USE weft_status weft_op_set_attr_strings(weft_op *op, const char *name, size_t count,
                                                   const char *const *values);
/* The stream that the op runs on; "" or NULL: none is named. */
WEFT_MUST_USE weft_status weft_op_set_stream(weft_op *op, const char *stream);
/* The event that it records when it completes ("" or NULL: none), and those that it waits for before it starts. */
WEFT_MUST_USE weft_status weft_op_set_event_recorded(weft_op *op, const char *event);
WEFT_MUST_USE weft_status weft_op_set_events_awaited(weft_op *op, size_t count, const char *const *events);
/* Inserts an op that is in no block; `before`/`after` NULL means the end/the beginning of `block`. */
void weft_block_insert_before(weft_block *block, weft_op *before, weft_op *op);
void weft_block_insert_after(weft_block *block, weft_op *after, weft_op *op);
/* Takes the op out of its block and drops its uses; it may not be used again. */
void weft_op_remove(weft_op *op);
/* Moves an op within its block to just before / just after `where`. */
void weft_op_move_before(weft_op *op, weft_op *where);
void weft_op_move_after(weft_op *op, weft_op *where);
/* Takes a var out of its block; it may not be used again, and its name is free. An error names the op that still has it
 * as an argument. */
WEFT_MUST_USE weft_status weft_var_remove(weft_var *var);
/* A new block without ops, whose vars' names are looked up in `parent` too; weft_op_set_attr_block has an op run it. */
WEFT_MUST_USE weft_status weft_program_add_block(weft_program *program, const weft_block *parent,
                                                 weft_block **out_block);

/* --- edits -------------------------------------------------------------------------------------------------------- */

/* For a host that has a copy of the program in a form of its own, and carries edits over. weft_program_mark checks the
 * structure as weft_program_verify does, but for extents below -1, and gives a mark. What is made, changed or moved from
 * then on, by the host or by passes, is edited since that mark. What stays in a block and is not edited is in its old
 * order. */
WEFT_MUST_USE weft_status weft_program_mark(weft_program *program, uint32_t *out_mark);
bool weft_op_is_edited(const weft_op *op, uint32_t mark);
bool weft_var_is_edited(const weft_var *var, uint32_t mark);

#ifdef __cplusplus
}
#endif
#endif
