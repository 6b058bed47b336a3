/* What becomes of a property string on its way into the store: the twin is remoting/protocol/record/stored_properties.py. */
#ifndef AIOROCKETMQ_STORED_PROPERTIES_H
#define AIOROCKETMQ_STORED_PROPERTIES_H

#include "put.h"

static inline int put_is(const uint8_t *pair, size_t size, const char *name, size_t name_size)
{
    return size >= name_size && !memcmp(pair, name, name_size);
}

static inline size_t pair_size(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = at < end ? memchr(at, PROPERTY_END, (size_t)(end - at)) : NULL;
    return (size_t)((stop ? stop : end) - at);
}

static inline int is_true(property_value value)
{
    return value.size == 4 && (value.at[0] | 32) == 't' && (value.at[1] | 32) == 'r' && (value.at[2] | 32) == 'u'
        && (value.at[3] | 32) == 'e';
}

/* The size of the string without WAIT; -1: the message carries a delay level or is half of a transaction. */
static inline int64_t properties_to_store(put_bytes text)
{
    property_value delay = {NULL, 0}, half = {NULL, 0};
    const uint8_t *at = text.at, *end = text.at + text.size;
    int64_t kept = -1; /* there is one separator less than there are pairs */
    for (;;) {
        size_t size = pair_size(at, end);
        if (size > 6 && put_is(at, size, "DELAY\1", 6))
            delay = (property_value){at + 6, size - 6};
        else if (size > 9 && put_is(at, size, "TRAN_MSG\1", 9))
            half = (property_value){at + 9, size - 9};
        if (!put_is(at, size, "WAIT\1", 5))
            kept += (int64_t)size + 1;
        if ((size_t)(end - at) == size)
            break;
        at += size + 1;
    }
    if (is_true(half) || (delay.size && !(delay.size == 1 && delay.at[0] == '0')))
        return -1;
    return kept > 0 ? kept : 0;
}

/* Exactly `kept` bytes of it. */
static inline uint8_t *put_without_wait(uint8_t *to, put_bytes text, size_t kept)
{
    if (kept == text.size)
        return put_copy(to, text);
    const uint8_t *start = to, *at = text.at, *end = text.at + text.size;
    for (int first = 1; (size_t)(to - start) < kept;) {
        size_t size = pair_size(at, end);
        if (!put_is(at, size, "WAIT\1", 5)) {
            if (!first)
                *to++ = PROPERTY_END;
            first = 0;
            to = put_copy(to, (put_bytes){at, size});
        }
        at += size + 1;
    }
    return to;
}

#endif
