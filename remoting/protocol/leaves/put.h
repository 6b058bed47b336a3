/* Records as they are written: the twins are record/encode.py and remoting/protocol/record/batch_records.py, the fields those of record/layout.py. */
#ifndef AIOROCKETMQ_PUT_H
#define AIOROCKETMQ_PUT_H

#include "bytes.h"
#include "crc32.h"
#include "property.h"
#include "record_layout.h"

#include <stdatomic.h>

enum { PUT_MAX_PROPERTIES = 32767, PUT_BATCH_BODY_AT = BATCH_ITEM_HEAD_SIZE, PUT_MOST_ITEMS = 65536 };

typedef struct {
    const uint8_t *at;
    size_t size;
} put_bytes;

/* What the records of one request have in common. The hosts are as long as `sys_flag` says. */
typedef struct {
    put_bytes topic_field, born_host, store_host;
    int64_t born_timestamp, store_timestamp, prepared_transaction_offset;
    int32_t queue_id, sys_flag, reconsume_times;
} put_common;

/* The bit of a packed host, 0 for IPv4, -1 for what is none. */
static inline int32_t put_host_bit(put_bytes host, int32_t v6)
{
    return host.size == 8 ? 0 : host.size == 8 + RECORD_V6_MORE ? v6 : -1;
}

static inline uint8_t *put_copy(uint8_t *to, put_bytes from)
{
    if (from.size)
        memcpy(to, from.at, from.size);
    return to + from.size;
}

/* Without body, properties and what is between those that are joined. */
static inline size_t put_overhead(const put_common *common)
{
    return RECORD_HEAD_SIZE - 16 + common->born_host.size + common->store_host.size + common->topic_field.size + 2;
}

/* Properties of a message, then those of its batch: one separator between them (merged_properties). */
static inline int put_has_separator(put_bytes own, put_bytes shared)
{
    return own.size && shared.size && own.at[own.size - 1] != PROPERTY_END;
}

static inline uint8_t *put_merged(uint8_t *to, put_bytes own, put_bytes shared)
{
    to = put_copy(to, own);
    if (put_has_separator(own, shared))
        *to++ = PROPERTY_END;
    return put_copy(to, shared);
}

/* Size and magic come last: a kill leaves a whole record or none, for the processor keeps this order and the fence has the
 * compiler keep it. */
static inline void put_record_at(
    uint8_t *to, const put_common *common, int64_t phy_offset, int64_t queue_offset, int32_t flag, put_bytes body,
    put_bytes properties)
{
    size_t size = put_overhead(common) + body.size + properties.size;
    uint8_t *at = to + RECORD_BORN_HOST_AT;
    bytes_write_u32(to + RECORD_BODY_CRC_AT, crc32_of(0, body.at, body.size) & 0x7FFFFFFFu);
    bytes_write_u32(to + RECORD_QUEUE_ID_AT, (uint32_t)common->queue_id);
    bytes_write_u32(to + RECORD_FLAG_AT, (uint32_t)flag);
    bytes_write_i64(to + RECORD_QUEUE_OFFSET_AT, queue_offset);
    bytes_write_i64(to + RECORD_PHY_OFFSET_AT, phy_offset);
    bytes_write_u32(to + RECORD_SYS_FLAG_AT, (uint32_t)common->sys_flag);
    bytes_write_i64(to + RECORD_BORN_TIMESTAMP_AT, common->born_timestamp);
    /* Behind a host of IPv6 all lies further on. */
    uint8_t *moved = put_copy(at, common->born_host) - RECORD_STORE_TIMESTAMP_AT;
    bytes_write_i64(moved + RECORD_STORE_TIMESTAMP_AT, common->store_timestamp);
    moved = put_copy(moved + RECORD_STORE_HOST_AT, common->store_host) - RECORD_RECONSUME_TIMES_AT;
    bytes_write_u32(moved + RECORD_RECONSUME_TIMES_AT, (uint32_t)common->reconsume_times);
    bytes_write_i64(
        moved + RECORD_PREPARED_TRANSACTION_OFFSET_AT, common->prepared_transaction_offset);
    bytes_write_u32(moved + RECORD_BODY_SIZE_AT, (uint32_t)body.size);
    at = put_copy(moved + RECORD_HEAD_SIZE, body);
    at = put_copy(at, common->topic_field);
    at[0] = (uint8_t)(properties.size >> 8);
    at[1] = (uint8_t)properties.size;
    put_copy(at + 2, properties);
    atomic_signal_fence(memory_order_seq_cst);
    bytes_write_u32(to, (uint32_t)size);
    bytes_write_u32(to + RECORD_MAGIC_AT, RECORD_MAGIC);
    atomic_signal_fence(memory_order_seq_cst);
}

/* In front of a record of `size` bytes that is there already; its own first bytes come last again. */
static inline void put_entry_head_at(uint8_t *to, int64_t index, int64_t term, int64_t pos, size_t size)
{
    bytes_write_i64(to + ENTRY_INDEX_AT, index);
    bytes_write_i64(to + ENTRY_TERM_AT, term);
    bytes_write_i64(to + ENTRY_POS_AT, pos);
    memset(to + ENTRY_CHANNEL_AT, 0, ENTRY_BODY_SIZE_AT - ENTRY_CHANNEL_AT);
    bytes_write_u32(to + ENTRY_BODY_SIZE_AT, (uint32_t)size);
    atomic_signal_fence(memory_order_seq_cst);
    bytes_write_u32(to + ENTRY_MAGIC_AT, ENTRY_MAGIC);
    bytes_write_u32(to + ENTRY_SIZE_AT, (uint32_t)(ENTRY_HEAD_SIZE + size));
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void put_unit_at(uint8_t *to, int64_t phy_offset, size_t size, int64_t tags_code)
{
    bytes_write_i64(to + QUEUE_UNIT_PHY_OFFSET_AT, phy_offset);
    bytes_write_u32(to + QUEUE_UNIT_SIZE_AT, (uint32_t)size);
    bytes_write_i64(to + QUEUE_UNIT_TAGS_CODE_AT, tags_code);
}

static inline property_value put_tags(put_bytes properties)
{
    return property_find(properties.at, properties.size, "TAGS\1", 5);
}

/* An item of the body of a batch. */
typedef struct {
    int32_t flag;
    put_bytes body, properties;
    size_t end; /* where the next one begins */
} put_item;

/* False: none begins at `at`, or it reaches over the end. */
static inline int put_item_at(const uint8_t *data, size_t length, size_t at, put_item *item)
{
    size_t left = length - at;
    if (left < PUT_BATCH_BODY_AT + 2)
        return 0;
    item->flag = (int32_t)bytes_read_u32(data + at + BATCH_ITEM_FLAG_AT);
    uint32_t body_size = bytes_read_u32(data + at + BATCH_ITEM_BODY_SIZE_AT);
    item->body = (put_bytes){data + at + PUT_BATCH_BODY_AT, body_size};
    left -= PUT_BATCH_BODY_AT + 2;
    if (left < item->body.size)
        return 0;
    const uint8_t *behind = item->body.at + item->body.size;
    item->properties = (put_bytes){behind + 2, bytes_read_u16(behind)};
    item->end = (size_t)(behind + 2 - data) + item->properties.size;
    return left - item->body.size >= item->properties.size;
}

static inline size_t put_merged_size(put_bytes own, put_bytes shared)
{
    return own.size + shared.size + (size_t)put_has_separator(own, shared);
}

/* How many items there are, and the size of their bodies and merged properties. 0: it is no batch, or cannot be stored. */
static inline size_t put_batch_size(const uint8_t *data, size_t length, put_bytes shared, uint64_t *contents)
{
    size_t count = 0, at = 0;
    put_item item;
    *contents = 0;
    for (; at < length; at = item.end, count++) {
        if (!put_item_at(data, length, at, &item))
            return 0;
        size_t properties = put_merged_size(item.properties, shared);
        if (properties > PUT_MAX_PROPERTIES)
            return 0;
        *contents += item.body.size + properties;
    }
    return count <= PUT_MOST_ITEMS ? count : 0;
}

#endif
