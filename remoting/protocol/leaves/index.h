/* Java's String.hashCode of ASCII text, and items of an index file. */
#ifndef AIOROCKETMQ_INDEX_H
#define AIOROCKETMQ_INDEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The hash after n more bytes; other than ASCII among them are told in *other (bit 7). */
static inline uint32_t index_hash(uint32_t hash, const uint8_t *p, size_t n, uint8_t *other)
{
    uint8_t all = 0;
    for (; n >= 4; p += 4, n -= 4) { /* four of them at once: 31^4, 31^3, 31^2 */
        hash = hash * 923521u + p[0] * 29791u + p[1] * 961u + p[2] * 31u + p[3];
        all |= p[0] | p[1] | p[2] | p[3];
    }
    while (n--) {
        all |= *p;
        hash = hash * 31u + *p++;
    }
    *other |= all & 128;
    return hash;
}

/* Math.abs, and 0 for the one number that has none. */
static inline int32_t index_without_sign(uint32_t hash)
{
    return (int32_t)((hash & 0x80000000u ? 0u - hash : hash) & 0x7FFFFFFFu);
}

struct index_value {
    const uint8_t *at; /* NULL: there is none */
    size_t size;
};

/* The last value of each name in a property string. */
static inline void index_values(const uint8_t *p, size_t n, struct index_value *unique, struct index_value *keys)
{
    const uint8_t *end = p + n;
    unique->at = keys->at = NULL;
    unique->size = keys->size = 0;
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        size_t size = (size_t)(stop - p);
        if (size >= 9 && memcmp(p, "UNIQ_KEY\1", 9) == 0) {
            unique->at = p + 9;
            unique->size = size - 9;
        } else if (size >= 5 && memcmp(p, "KEYS\1", 5) == 0) {
            keys->at = p + 5;
            keys->size = size - 5;
        }
        p = stop + 1;
    }
}

static inline uint32_t index_read(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void index_write(uint8_t *p, uint32_t number)
{
    p[0] = (uint8_t)(number >> 24), p[1] = (uint8_t)(number >> 16), p[2] = (uint8_t)(number >> 8), p[3] = (uint8_t)number;
}

/* `count` items of 20 bytes from number `first` on into `items`; how many slots are in use that were not. */
static size_t index_chain(uint8_t *slots, uint32_t slot_count, uint32_t first, int64_t begin, const int32_t *hashes,
    const int64_t *phy_offsets, const int64_t *timestamps, size_t count, uint8_t *items)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++, items += 20) {
        uint8_t *slot = slots + 4 * (size_t)((uint32_t)hashes[i] % slot_count);
        uint32_t number = first + (uint32_t)i, older = index_read(slot);
        uint64_t seconds = 0;
        if (older - 1 >= number) { /* 0, behind this one, or negative */
            older = 0;
            used++;
        }
        if (begin > 0 && timestamps[i] > begin)
            seconds = ((uint64_t)timestamps[i] - (uint64_t)begin) / 1000;
        index_write(items, (uint32_t)hashes[i]);
        index_write(items + 4, (uint32_t)((uint64_t)phy_offsets[i] >> 32));
        index_write(items + 8, (uint32_t)(uint64_t)phy_offsets[i]);
        index_write(items + 12, seconds < 0x7FFFFFFF ? (uint32_t)seconds : 0x7FFFFFFFu);
        index_write(items + 16, older);
        index_write(slot, number);
        if (number == 1)
            begin = timestamps[i];
    }
    return used;
}

#endif
