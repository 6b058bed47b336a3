/* Units of a consume queue and the records that they point to: the twins are pull.py and units.py in remoting/protocol/record. */
#ifndef AIOROCKETMQ_UNITS_H
#define AIOROCKETMQ_UNITS_H

#include "bytes.h"
#include "record_layout.h"

static inline int64_t unit_phy_offset(const uint8_t *unit)
{
    return bytes_read_i64(unit + QUEUE_UNIT_PHY_OFFSET_AT);
}

static inline int32_t unit_size(const uint8_t *unit)
{
    return (int32_t)bytes_read_u32(unit + QUEUE_UNIT_SIZE_AT);
}

static inline int64_t unit_tags_code(const uint8_t *unit)
{
    return bytes_read_i64(unit + QUEUE_UNIT_TAGS_CODE_AT);
}

/* The bytes of all records; -1 when one of them does not lie within `length` bytes from `begin` on. */
static inline int64_t units_total(const uint8_t *unit, size_t count, int64_t begin, size_t length)
{
    int64_t total = 0;
    for (; count--; unit += QUEUE_UNIT_SIZE) {
        int64_t at = unit_phy_offset(unit), size = unit_size(unit);
        if (at < begin || size < 1 || (uint64_t)size > length || (uint64_t)at - (uint64_t)begin > length - (uint64_t)size)
            return -1;
        total += size;
    }
    return total;
}

/* The records, which are all there (units_total), one behind the other. */
static inline void units_join(const uint8_t *unit, size_t count, const uint8_t *data, int64_t begin, uint8_t *to)
{
    for (; count--; unit += QUEUE_UNIT_SIZE) {
        size_t size = (size_t)unit_size(unit);
        memcpy(to, data + (unit_phy_offset(unit) - begin), size);
        to += size;
    }
}

/* Whether each of the records, which lie one behind the other, says its unit's size and the magic. */
static inline int units_fit(const uint8_t *unit, size_t count, const uint8_t *records, size_t length)
{
    for (size_t at = 0; count--; unit += QUEUE_UNIT_SIZE) {
        int32_t size = unit_size(unit);
        if (size < RECORD_MIN_SIZE || at > length || length - at < RECORD_MIN_SIZE
            || bytes_read_u32(records + at + RECORD_STORE_SIZE_AT) != (uint32_t)size
            || bytes_read_u32(records + at + RECORD_MAGIC_AT) != RECORD_MAGIC)
            return 0;
        at += (size_t)size;
    }
    return 1;
}

#endif
