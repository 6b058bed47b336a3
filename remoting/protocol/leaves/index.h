/* Keys of messages, and items of an index file. */
#ifndef AIOROCKETMQ_INDEX_H
#define AIOROCKETMQ_INDEX_H

#include "property.h"

/* Math.abs, and 0 for the one number that has none. */
static inline int32_t index_without_sign(uint32_t hash)
{
    return (int32_t)((hash & 0x80000000u ? 0u - hash : hash) & 0x7FFFFFFFu);
}

/* The last value of each name in a property string that is not empty. */
static inline void index_values(const uint8_t *p, size_t n, property_value *unique, property_value *keys)
{
    const uint8_t *end = p + n;
    *unique = *keys = (property_value){NULL, 0};
    while (p < end) {
        const uint8_t *stop = memchr(p, PROPERTY_END, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        size_t size = (size_t)(stop - p);
        if (size > 9 && memcmp(p, "UNIQ_KEY\1", 9) == 0)
            *unique = (property_value){p + 9, size - 9};
        else if (size > 5 && memcmp(p, "KEYS\1", 5) == 0)
            *keys = (property_value){p + 5, size - 5};
        p = stop + 1;
    }
}

/* `count` items of 20 bytes from number `first` on into `items`; how many slots are in use that were not. */
static size_t index_chain(uint8_t *slots, uint32_t slot_count, uint32_t first, int64_t begin, const int32_t *hashes,
    const int64_t *phy_offsets, const int64_t *timestamps, size_t count, uint8_t *items)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++, items += 20) {
        uint8_t *slot = slots + 4 * (size_t)((uint32_t)hashes[i] % slot_count);
        uint32_t number = first + (uint32_t)i, older = bytes_read_u32(slot);
        uint64_t seconds = 0;
        if (older - 1 >= number) { /* 0, behind this one, or negative */
            older = 0;
            used++;
        }
        if (begin > 0 && timestamps[i] > begin)
            seconds = ((uint64_t)timestamps[i] - (uint64_t)begin) / 1000;
        bytes_write_u32(items, (uint32_t)hashes[i]);
        bytes_write_i64(items + 4, phy_offsets[i]);
        bytes_write_u32(items + 12, seconds < 0x7FFFFFFF ? (uint32_t)seconds : 0x7FFFFFFFu);
        bytes_write_u32(items + 16, older);
        bytes_write_u32(slot, number);
        if (number == 1)
            begin = timestamps[i];
    }
    return used;
}

#endif
