/* Where the pairs of an encoded property string lie (property_pairs.py): those that a reader counts, and the last one of each name. */
#ifndef AIOROCKETMQ_PAIRS_H
#define AIOROCKETMQ_PAIRS_H

#include "property.h"

enum { PAIRS_MOST = 64, PAIRS_NOT_PLAIN = -1 };

typedef struct {
    int32_t name_at, name_end, value_at, value_end;
} property_pair;

static inline int pairs_same_name(const uint8_t *data, const property_pair *one, const uint8_t *name, int32_t size)
{
    const uint8_t *own = data + one->name_at;
    return one->name_end - one->name_at == size && own[0] == name[0] && own[size - 1] == name[size - 1]
        && !memcmp(own, name, (size_t)size);
}

/* Which of eight bytes, of which the first is the lowest, are less than 3, if all are ASCII: their highest bits. */
static inline uint64_t pairs_marks(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101u, high = ones * 0x80;
    return ~((bytes | high) - 3 * ones) & high;
}

static inline uint64_t pairs_eight(const uint8_t *from, size_t size)
{
    uint64_t bytes = 0x0202020202020202u; /* behind the last pair an end of it */
    memcpy(&bytes, from, size);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

/* Room for PAIRS_MOST. PAIRS_NOT_PLAIN: there are more, or a byte is not ASCII. Eight bytes at a time: of most of them none is a
 * separator. */
static inline int pairs_take_apart(const uint8_t *data, int32_t begin, int32_t end, property_pair *pairs)
{
    uint64_t bytes, marks, all = 0;
    int count = 0;
    int32_t name_at = begin, name_end = -1, place = begin;
    for (int32_t at = begin; place < end; at += 8) {
        bytes = end - at >= 8 ? pairs_eight(data + at, 8) : pairs_eight(data + at, (size_t)(end - at));
        all |= bytes;
        marks = pairs_marks(bytes);
        for (; marks && place < end; marks &= marks - 1) {
            place = at + __builtin_ctzll(marks) / 8;
            if (place < end && data[place] != PROPERTY_END) {
                if (data[place] == PROPERTY_NAME_END && name_end < 0)
                    name_end = place;
                continue;
            }
            if (name_end > name_at && place > name_end + 1) {
                if (count == PAIRS_MOST)
                    return PAIRS_NOT_PLAIN;
                pairs[count++] = (property_pair){name_at, name_end, name_end + 1, place};
            }
            name_at = place + 1;
            name_end = -1;
        }
    }
    return all & 0x8080808080808080u ? PAIRS_NOT_PLAIN : count;
}

/* Without those whose name comes again; how many are left. */
static inline int pairs_without_repeated(const uint8_t *data, property_pair *pairs, int count)
{
    int kept = 0;
    for (int number = 0; number < count; number++) {
        int32_t size = pairs[number].name_end - pairs[number].name_at;
        int later = number + 1;
        while (later < count && !pairs_same_name(data, pairs + later, data + pairs[number].name_at, size))
            later++;
        if (later == count)
            pairs[kept++] = pairs[number];
    }
    return kept;
}

/* Strings as Arrow has them: where each one ends, and all of them behind each other. */
typedef struct {
    int32_t *ends;
    uint8_t *data;
    int32_t size;
} pairs_strings;

enum { PAIRS_SLACK = 16 }; /* so much room is behind the strings; most of them are not longer */

static inline void pairs_append(pairs_strings *to, size_t number, const uint8_t *data, size_t length, int32_t at, int32_t end)
{
    size_t size = (size_t)(end - at);
    if (size <= PAIRS_SLACK && (size_t)at + PAIRS_SLACK <= length)
        memcpy(to->data + to->size, data + at, PAIRS_SLACK); /* of a size that the compiler knows */
    else
        memcpy(to->data + to->size, data + at, size);
    to->ends[number] = to->size += (int32_t)size;
}

#endif
