/* yaml.h: YAML text to a tree that remembers where everything stood (libyaml's event API behind it). */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/base.h"

typedef enum node_kind { NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING } node_kind;

typedef struct yaml_node {
    node_kind kind;
    int line, column; /* from 1 */
    /* scalars: the text, NUL-terminated beyond nbytes; `plain` when it was not quoted */
    const char *bytes;
    size_t nbytes;
    bool plain;
    /* sequences: count items; mappings: count pairs, key at items[2i], value at items[2i + 1] */
    struct yaml_node **items;
    size_t count;
    const char *tag; /* explicit tag or NULL */
} yaml_node;

/* Caps on hostile input. */
typedef struct yaml_limits {
    int max_depth;     /* 0: 64 */
    size_t max_nodes;  /* 0: 20,000,000 */
    size_t max_nbytes; /* 0: 1 GiB */
    int line_offset;   /* added to every line: for a text that the caller wrapped */
} yaml_limits;

/* Reads exactly one document. Aliases, merge keys, duplicate keys and anything over a cap are errors. Every problem
 * goes to the sink with line and column; the status repeats the first. The tree lives in `a`. */
WEFT_MUST_USE weft_status yaml_read(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                                    const yaml_limits *limits, arena *a, yaml_node **out_root);

/* A document too large to hold, piece by piece: a collection is entered, or taken whole as a tree. `limits` hold for
 * each tree that is taken. In a mapping a key and then its value are next; whether keys repeat is the caller's to
 * check. */
typedef struct yaml_stream yaml_stream;
WEFT_MUST_USE weft_status yaml_stream_open(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                                           const yaml_limits *limits, yaml_stream **out_stream);
void yaml_stream_close(yaml_stream *stream); /* NULL is fine */
/* Kind and place of what is next, without taking it; the other fields are empty. */
WEFT_MUST_USE weft_status yaml_stream_peek(yaml_stream *stream, yaml_node *out);
/* Steps into the collection that is next; "expected `what`" if it is not of that kind. */
WEFT_MUST_USE weft_status yaml_stream_enter(yaml_stream *stream, node_kind kind, const char *what);
/* Whether the collection that was entered last has more; steps out at its end. */
WEFT_MUST_USE weft_status yaml_stream_more(yaml_stream *stream, bool *out_more);
WEFT_MUST_USE weft_status yaml_stream_take(yaml_stream *stream, arena *a, yaml_node **out);
/* Once the outermost collection is left: nothing may follow. */
WEFT_MUST_USE weft_status yaml_stream_end(yaml_stream *stream);

/* An error at `node`: also sent to the sink. */
WEFT_MUST_USE weft_status yaml_error(weft_context *context, const yaml_node *node, const char *place,
                                     const char *format, ...) WEFT_PRINTF(4, 5);

yaml_node *yaml_get(const yaml_node *mapping, const char *key); /* NULL if absent */
/* Scalars by YAML 1.2 core rules; false if the text is not of that type (quoted text is only a string). */
bool yaml_is_null(const yaml_node *node);
bool yaml_as_int(const yaml_node *node, int64_t *out);
bool yaml_as_double(const yaml_node *node, double *out); /* ints, floats, .inf, -.inf, .nan */
bool yaml_as_bool(const yaml_node *node, bool *out);     /* true, false */

/* Appends a string as a YAML scalar that reads back to the same bytes in flow context: plain where that is safe, else
 * double-quoted; bytes that are not UTF-8 are written as \xNN after the tag !bytes. */
void yaml_put_string(buffer *out, const char *bytes, size_t nbytes);
/* The bytes of a scalar, undoing the !bytes tag; memory is the arena's. */
WEFT_MUST_USE weft_status yaml_as_bytes(weft_context *context, const yaml_node *node, const char *place, arena *a,
                                        const char **out_bytes, size_t *out_nbytes);

#endif
