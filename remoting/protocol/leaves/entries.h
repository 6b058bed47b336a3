/* Entries of a DLedger log that are believed, and such that are to be written: the twin is record/entries.py. */
#ifndef AIOROCKETMQ_ENTRIES_H
#define AIOROCKETMQ_ENTRIES_H

#include "answers.h"
#include "base64.h"
#include "bytes.h"
#include "crc32.h"
#include "record_layout.h"

/* The size of the entry with an index that begins at `at` and ends in front of `end`, 0 when there is none. */
static inline size_t entry_size(const uint8_t *data, size_t at, size_t end, int64_t index, int64_t place)
{
    if (end - at < ENTRY_HEAD_SIZE + RECORD_MIN_SIZE)
        return 0;
    const uint8_t *head = data + at;
    int32_t size = (int32_t)bytes_read_u32(head + ENTRY_SIZE_AT);
    if (bytes_read_u32(head + ENTRY_MAGIC_AT) != ENTRY_MAGIC || bytes_read_i64(head + ENTRY_INDEX_AT) != index
        || bytes_read_i64(head + ENTRY_POS_AT) != (int64_t)((uint64_t)place + at) || size < ENTRY_HEAD_SIZE + RECORD_MIN_SIZE || (size_t)size > end - at)
        return 0;
    return (size_t)size;
}

/* How many entries lie side by side from *at on; *at is behind them afterwards. */
static inline size_t entries_count(const uint8_t *data, size_t *at, size_t end, int64_t index, int64_t place)
{
    size_t count = 0;
    for (size_t size; (size = entry_size(data, *at, end, (int64_t)((uint64_t)index + count), place)); count++)
        *at += size;
    return count;
}

/* The units of `count` entries, which are there. */
static inline void entries_units(const uint8_t *head, size_t count, uint8_t *unit)
{
    for (; count--; unit += INDEX_UNIT_SIZE) {
        bytes_write_u32(unit + INDEX_UNIT_MAGIC_AT, ENTRY_MAGIC);
        memcpy(unit + INDEX_UNIT_POS_AT, head + ENTRY_POS_AT, 8);
        memcpy(unit + INDEX_UNIT_SIZE_AT, head + ENTRY_SIZE_AT, 4);
        memcpy(unit + INDEX_UNIT_INDEX_AT, head + ENTRY_INDEX_AT, 8);
        memcpy(unit + INDEX_UNIT_TERM_AT, head + ENTRY_TERM_AT, 8);
        head += bytes_read_u32(head + ENTRY_SIZE_AT);
    }
}

/* The CRC-32 of each of `count` entries, which are there, and its complement: 8 bytes for each. */
static inline void entries_checksums(const uint8_t *head, size_t count, uint8_t *unit)
{
    for (; count--; unit += 8) {
        uint32_t size = bytes_read_u32(head + ENTRY_SIZE_AT), crc = crc32_of(0, head, size);
        bytes_write_u32(unit, crc);
        bytes_write_u32(unit + 4, ~crc);
        head += size;
    }
}

#define ENTRY_JSON_INDEX "{\"index\":"
#define ENTRY_JSON_TERM ",\"term\":"
#define ENTRY_JSON_POS ",\"pos\":"
#define ENTRY_JSON_BODY ",\"body\":\""
#define ENTRY_JSON_SIZE "\",\"size\":"
#define ENTRY_JSON_MAGIC ",\"magic\":"
#define ENTRY_JSON_NAMES ENTRY_JSON_INDEX ENTRY_JSON_TERM ENTRY_JSON_POS ENTRY_JSON_BODY ENTRY_JSON_SIZE ENTRY_JSON_MAGIC
#define ENTRY_PUT(out, text) (memcpy(out, text, sizeof text - 1), (out) + (sizeof text - 1))

/* Bytes that a JSON array of `count` entries, which are there, takes at most. */
static inline size_t entries_json_size(const uint8_t *head, size_t count)
{
    size_t size = 2;
    for (; count--; head += bytes_read_u32(head + ENTRY_SIZE_AT))
        size += sizeof ENTRY_JSON_NAMES + 5 * DECIMAL_BYTES + 1 + base64_size(bytes_read_u32(head + ENTRY_SIZE_AT) - ENTRY_HEAD_SIZE);
    return size;
}

/* The array; returns its end. */
static inline uint8_t *entries_write_json(const uint8_t *head, size_t count, uint8_t *out)
{
    *out++ = '[';
    while (count--) {
        uint32_t size = bytes_read_u32(head + ENTRY_SIZE_AT);
        out = write_decimal(ENTRY_PUT(out, ENTRY_JSON_INDEX), bytes_read_i64(head + ENTRY_INDEX_AT));
        out = write_decimal(ENTRY_PUT(out, ENTRY_JSON_TERM), bytes_read_i64(head + ENTRY_TERM_AT));
        out = write_decimal(ENTRY_PUT(out, ENTRY_JSON_POS), bytes_read_i64(head + ENTRY_POS_AT));
        out = base64_write(ENTRY_PUT(out, ENTRY_JSON_BODY), head + ENTRY_HEAD_SIZE, size - ENTRY_HEAD_SIZE);
        out = write_decimal(ENTRY_PUT(out, ENTRY_JSON_SIZE), size);
        out = write_decimal(ENTRY_PUT(out, ENTRY_JSON_MAGIC), ENTRY_MAGIC);
        *out++ = '}';
        if (count)
            *out++ = ',';
        head += size;
    }
    *out++ = ']';
    return out;
}

typedef struct {
    int64_t index, term, pos;
    int32_t magic, size, channel, chain_crc, body_crc;
    uint32_t body_size;
} entry_fields;

static inline void entry_write(uint8_t *head, const entry_fields *fields)
{
    bytes_write_u32(head + ENTRY_MAGIC_AT, (uint32_t)fields->magic);
    bytes_write_u32(head + ENTRY_SIZE_AT, (uint32_t)fields->size);
    bytes_write_i64(head + ENTRY_INDEX_AT, fields->index);
    bytes_write_i64(head + ENTRY_TERM_AT, fields->term);
    bytes_write_i64(head + ENTRY_POS_AT, fields->pos);
    bytes_write_u32(head + ENTRY_CHANNEL_AT, (uint32_t)fields->channel);
    bytes_write_u32(head + ENTRY_CHAIN_CRC_AT, (uint32_t)fields->chain_crc);
    bytes_write_u32(head + ENTRY_BODY_CRC_AT, (uint32_t)fields->body_crc);
    bytes_write_u32(head + ENTRY_BODY_SIZE_AT, fields->body_size);
}

#endif
