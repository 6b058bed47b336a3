/* Values in an encoded property string: pairs of name 01 value between 02 (find_property in properties.py). */
#ifndef AIOROCKETMQ_PROPERTY_H
#define AIOROCKETMQ_PROPERTY_H

#include "bytes.h"

enum { PROPERTY_NAME_END = 1, PROPERTY_END = 2 };

typedef struct {
    const uint8_t *at;
    size_t size; /* 0: there is none */
} property_value;

/* The last value of a name that is not empty. `name` with the 01 behind it. */
static inline property_value property_find(const uint8_t *properties, size_t size, const char *name, size_t name_size)
{
    property_value found = {NULL, 0};
    const uint8_t *at = properties, *end = properties + size;
    while (at < end) {
        const uint8_t *stop = memchr(at, PROPERTY_END, (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > name_size && !memcmp(at, name, name_size))
            found = (property_value){at + name_size, (size_t)(stop - at) - name_size};
        at = stop + 1;
    }
    return found;
}

/* Java's String.hashCode() of ASCII, going on from `hash`; false: there are other bytes. Eight at a time, for each product has to
 * wait for the one before it. */
static inline int java_hash(const uint8_t *text, size_t size, uint32_t *hash)
{
    enum { P1 = 31, P2 = P1 * P1, P3 = P1 * P2, P4 = P1 * P3, P5 = P1 * P4 };
    const uint32_t p6 = (uint32_t)P5 * P1, p7 = p6 * P1, p8 = p7 * P1;
    uint32_t sum = *hash;
    uint8_t all = 0;
    for (; size >= 8; text += 8, size -= 8) {
        all |= text[0] | text[1] | text[2] | text[3] | text[4] | text[5] | text[6] | text[7];
        sum = sum * p8 + text[0] * p7 + text[1] * p6 + text[2] * (uint32_t)P5 + text[3] * (uint32_t)P4
            + text[4] * (uint32_t)P3 + text[5] * (uint32_t)P2 + text[6] * (uint32_t)P1 + text[7];
    }
    while (size--) {
        all |= *text;
        sum = sum * P1 + *text++;
    }
    *hash = sum;
    return all < 0x80;
}

#endif
