/* pdmodel.h: between the files that read and write the wire form. */
#ifndef PROGRAM_PDMODEL_PDMODEL_H
#define PROGRAM_PDMODEL_PDMODEL_H

#include "framework.pb-c.h"
#include "program/bump.h"
#include "program/form.h"
#include "program/pdmodel/wire.h"

/* A list of attrs that some op of the file has: its bytes there, and what they became. */
typedef struct known_attrs {
    const uint8_t *from;
    size_t nbytes;
    weft_attr *items;
    uint32_t count, hash;
} known_attrs;

enum { PDMODEL_KNOWN_ATTRS = 4096, PDMODEL_KNOWN_TYPES = 256 };

/* What the last op of a type had. */
typedef struct known_type {
    const name *type;
    const slot_table *slots;
    known_attrs attrs;
} known_type;

/* An argument that the reader has not come to yet. */
typedef struct ahead_arg {
    const uint8_t *bytes; /* its name in the file */
    const name *name;     /* a guess, as the var is; NULL: not looked up, or not there */
    const weft_var *var;
    uint32_t hash;
} ahead_arg;

enum { PDMODEL_AHEAD = 64 }; /* arguments; a power of two */

/* The walk ahead of the reader of a block's ops or vars; counts of names that passed each stage (pdmodel/ahead.c). */
typedef struct pdmodel_ahead {
    wire_cursor block, op, slot;
    ahead_arg args[PDMODEL_AHEAD];
    size_t ngathered, nnames, nvars, nuses, ntaken;
    bool of_vars, is_over;
} pdmodel_ahead;

typedef struct pdmodel_reader {
    weft_program *program;
    const weft_allocator *allocator;
    size_t budget;
    bump bump;          /* the message that is being read */
    interner strings;   /* values of attrs: lines of call stacks repeat in nearly every op */
    known_attrs *known; /* PDMODEL_KNOWN_ATTRS of them, by hash */
    known_type *types;  /* PDMODEL_KNOWN_TYPES of them, by the type's number */
    pdmodel_ahead ahead;
    weft_block *noting; /* the block whose vars are noted; NULL: they are made as they are read */
    weft_var *notes;    /* what its vars are to hold, in file order (pdmodel/declare.c) */
    size_t nnotes, notes_capacity;
} pdmodel_reader;

/* Unpacks the message at the cursor with protobuf-c; it stays valid until the next call. */
WEFT_MUST_USE weft_status pdmodel_unpack(pdmodel_reader *r, const wire_cursor *c,
                                         const ProtobufCMessageDescriptor *kind, void *out_message);
/* An array in the program's arena, charged to the budget; NULL if it is empty. */
WEFT_MUST_USE weft_status pdmodel_array(pdmodel_reader *r, size_t count, size_t size, void *out_array);
/* Bytes copied into the program's arena. */
WEFT_MUST_USE weft_status pdmodel_text(pdmodel_reader *r, ProtobufCBinaryData from, text *out);
/* An element of a list of strings, or the value of an attr: equal ones share memory. */
WEFT_MUST_USE weft_status pdmodel_string(pdmodel_reader *r, ProtobufCBinaryData from, const name **out);
WEFT_MUST_USE weft_status pdmodel_attr_text(pdmodel_reader *r, ProtobufCBinaryData from, weft_attr *to);
WEFT_MUST_USE weft_status pdmodel_name(pdmodel_reader *r, ProtobufCBinaryData from, const name **out);
/* The same where it may well be `guess`, which may be NULL: then it is not looked up. */
WEFT_MUST_USE weft_status pdmodel_name_like(pdmodel_reader *r, ProtobufCBinaryData from, const name *guess,
                                            const name **out);
/* The same for the name of a var or of an argument, which are read in the order of the file. */
WEFT_MUST_USE weft_status pdmodel_next_name(pdmodel_reader *r, const wire_field *from, const name **out);
/* A var of `b`, to be filled in at once: the next one is another place. */
WEFT_MUST_USE weft_status pdmodel_declare(pdmodel_reader *r, weft_block *b, const name *n, weft_var **out);
/* What an op of `b` calls by that name. */
WEFT_MUST_USE weft_status pdmodel_resolve(pdmodel_reader *r, weft_block *b, const name *n, weft_var **out);
/* What is known of the var that pdmodel_resolve would find first, for prefetching; NULL: nothing. */
const weft_var *pdmodel_glimpse(const pdmodel_reader *r, const name *n);
/* Notes the `count` vars of a block that are declared next, which is the program's only one; all of them are made by
 * pdmodel_end_notes. */
WEFT_MUST_USE weft_status pdmodel_begin_notes(pdmodel_reader *r, weft_block *b, size_t count);
WEFT_MUST_USE weft_status pdmodel_end_notes(pdmodel_reader *r);
void pdmodel_free_notes(pdmodel_reader *r); /* what is left of them; nothing where there are none */
/* The bytes of `extra` and the unknown fields of `message`, kept in the program's arena. */
WEFT_MUST_USE weft_status pdmodel_unknown(pdmodel_reader *r, const ProtobufCMessage *message, const buffer *extra,
                                          text *out);

/* Why a message could not be unpacked: too much memory, none, or what is wrong with its bytes. */
WEFT_MUST_USE weft_status pdmodel_refusal(const pdmodel_reader *r, const wire_cursor *c,
                                          const ProtobufCMessageDescriptor *kind);
/* Forgets the message before, and lets the next one have what is left of the budget. */
WEFT_MUST_USE weft_status pdmodel_begin_message(pdmodel_reader *r);

/* Read one op or var into `b` if it is plain; *out_done says so. Else the functions below do it. */
WEFT_MUST_USE weft_status pdmodel_scan_op(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done);
WEFT_MUST_USE weft_status pdmodel_scan_var(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done);
/* A name with those bytes that one of the next arguments has; NULL if none was found. */
const name *pdmodel_name_ahead(const pdmodel_ahead *a, ProtobufCBinaryData bytes);
/* Begins to look ahead from the first field of a block on: at arguments of its ops, or at names of its vars. */
void pdmodel_ahead_init(pdmodel_ahead *a, const wire_cursor *block, bool of_vars);
/* Where the attrs of an op stand in the file; one after another, else the op is not plain. */
typedef struct pdmodel_attrs {
    const uint8_t *from, *end;
    uint32_t count;
} pdmodel_attrs;
/* Adds the field [from, end) that holds an attr; false if it does not follow the one before. */
bool pdmodel_note_attr(pdmodel_attrs *attrs, const uint8_t *from, const uint8_t *end);
typedef struct pdmodel_attr_list {
    weft_attr *items; /* shared with other ops: not to be changed */
    uint32_t count;
    bool is_plain; /* else nothing was found */
} pdmodel_attr_list;
/* Those attrs as a list, read unless an op before had the same. `c` is for messages; *last is the list of the op of the
 * same type before, or empty, and becomes this one. */
WEFT_MUST_USE weft_status pdmodel_find_attrs(pdmodel_reader *r, const wire_cursor *c, const pdmodel_attrs *attrs,
                                             known_attrs *last, pdmodel_attr_list *out);
/* Reads one op and appends it to `b`. */
WEFT_MUST_USE weft_status pdmodel_read_op(pdmodel_reader *r, weft_block *b, const wire_cursor *c);

/* Numbers of fields, as in framework.proto. */
enum {
    PROGRAM_BLOCKS = 1,
    PROGRAM_VERSION = 4,
    PROGRAM_OP_VERSION_MAP = 5,
    BLOCK_IDX = 1,
    BLOCK_PARENT = 2,
    BLOCK_VARS = 3,
    BLOCK_OPS = 4,
    BLOCK_FORWARD = 5,
    OP_INPUTS = 1,
    OP_OUTPUTS = 2,
    OP_TYPE = 3,
    OP_ATTRS = 4,
    OP_IS_TARGET = 5,
    SLOT_PARAMETER = 1,
    SLOT_ARGUMENTS = 2,
    ATTR_NAME = 1,
    ATTR_TYPE = 2,
    VAR_NAME = 1,
    VAR_TYPE = 2,
    VAR_PERSISTABLE = 3,
    VAR_NEED_CHECK_FEED = 4,
    VAR_IS_PARAMETER = 5,
    VAR_STOP_GRADIENT = 6,
    VAR_ATTRS = 7,
    TYPE_KIND = 1,
    TYPE_SELECTED_ROWS = 2,
    TYPE_DENSE = 3,
    DENSE_TENSOR = 1,
    DENSE_LOD_LEVEL = 2,
    TENSOR_DTYPE = 1,
    TENSOR_DIMS = 2
};

#endif
